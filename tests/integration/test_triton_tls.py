"""TLS, mutual TLS and a token at a real Triton."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.errors import TritonUnavailable
from deploy.triton import LocalTriton, TritonTls
from glaim_stream.core.errors import ImputerUnavailable
from glaim_stream.core.settings import read_settings
from glaim_stream.imputers import typical_windows
from glaim_stream.imputers.remote import TritonImputer, triton_access
from tests.certificates import MountedSecret, Pair, signed
from tests.support import contract

CONTRACT = contract(3, window=96, emitted_steps=4, name="tiny")
TOKEN, HEADER = "a-token-of-the-test", "triton-grpc-protocol-glaim-token"


@contextmanager
def running(triton: LocalTriton) -> Iterator[LocalTriton]:
    try:
        with triton:
            yield triton
    except TritonUnavailable as reason:
        pytest.skip(str(reason))


def files_of(pair: Pair, authority: Pair) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem(), "ca.crt": authority.certificate_pem}


def imputer(triton: LocalTriton, **access: object) -> TritonImputer:
    settings = read_settings(triton=f"grpcs://{triton.grpc_url}", **access)
    return TritonImputer(settings.triton_address, {"tiny": CONTRACT}, deadline_s=5, access=triton_access(settings))


@pytest.mark.slow  # quicker: tests/core/test_tls.py
async def test_mutual_tls_and_a_new_authority_while_the_imputer_runs(tiny_repository: Path, tmp_path: Path) -> None:
    """The server comes back with certificates of another authority; the same imputer follows its own files."""
    old, new = signed("old authority"), signed("new authority")
    server = MountedSecret(tmp_path / "server", files_of(signed("triton", old), old))
    client = MountedSecret(tmp_path / "client", files_of(signed("worker", old), old))
    tls = TritonTls(server / "tls.crt", server / "tls.key", server / "ca.crt", mutual=True)
    with running(LocalTriton(tiny_repository, tls=tls)) as triton:
        files = {
            "triton_ca_file": client / "ca.crt",
            "triton_cert_file": client / "tls.crt",
            "triton_key_file": client / "tls.key",
        }
        rung = imputer(triton, **files)
        await rung.check()
        assert (await rung.impute(typical_windows(CONTRACT))).version == ["1"]

        without_certificate = imputer(triton, triton_ca_file=client / "ca.crt")
        with pytest.raises(ImputerUnavailable, match="it may require or refuse a client certificate"):
            await without_certificate.check()
        await without_certificate.close()

        server.replace(files_of(signed("triton", new), new))
        triton.restart()
        with pytest.raises(ImputerUnavailable):
            await rung.impute(typical_windows(CONTRACT))
        stranger = imputer(triton, **files)
        with pytest.raises(ImputerUnavailable, match="no authority of GLAIM_TRITON_CA_FILE has signed its certificate"):
            await stranger.check()
        await stranger.close()
        client.replace(files_of(signed("worker", new), new))
        assert (await rung.impute(typical_windows(CONTRACT))).version == ["1"]
        await rung.close()


@pytest.mark.slow  # quicker: tests/imputers/test_triton_access.py
async def test_a_token_that_triton_itself_checks(tiny_repository: Path, tmp_path: Path) -> None:
    authority = signed("authority")
    files = MountedSecret(tmp_path / "server", files_of(signed("triton", authority), authority))
    token = tmp_path / "token"
    token.write_text("another token")
    triton = LocalTriton(
        tiny_repository,
        tls=TritonTls(files / "tls.crt", files / "tls.key", files / "ca.crt"),
        options=[f"--grpc-restricted-protocol=inference,metadata,model-config:glaim-token={TOKEN}"],
        headers={HEADER: TOKEN},
    )
    with running(triton):
        rung = imputer(triton, triton_ca_file=files / "ca.crt", triton_token_file=token, triton_token_header=HEADER)
        with pytest.raises(ImputerUnavailable, match=f"it refuses the token, or requires one, {token}"):
            await rung.check()
        token.write_text(TOKEN)
        await rung.check()
        assert (await rung.impute(typical_windows(CONTRACT))).version == ["1"]
        await rung.close()
