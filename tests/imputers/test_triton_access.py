"""TLS, client certificates and tokens of calls to Triton, against a gRPC server that records its callers."""

import asyncio
from pathlib import Path

import grpc
import numpy as np
import pytest

from glaim_stream.core.errors import ImputerUnavailable
from glaim_stream.core.secret_files import SecretFile
from glaim_stream.core.settings import read_settings
from glaim_stream.core.tls import TlsFiles, WatchedTls
from glaim_stream.imputers.protocol import Windows
from glaim_stream.imputers.remote.access import TritonAccess, triton_access
from glaim_stream.imputers.remote.triton import TritonImputer
from tests.certificates import MountedSecret, Pair, signed
from tests.imputers.kserve import served
from tests.support import contract

WINDOWS = Windows("m", np.zeros((1, 2, 6), np.float32), np.zeros((1, 2, 6), np.bool_), 3)
ANSWER = np.ones((1, 2, 3), np.float32)
AUTHORITY = signed("authority")


def server_credentials(
    pair: Pair | None = None, *, clients: bytes | None = AUTHORITY.certificate_pem
) -> grpc.ServerCredentials:
    pair = pair or signed("server", AUTHORITY)
    return grpc.ssl_server_credentials([(pair.key_pem(), pair.certificate_pem)], clients, clients is not None)


def client_files(pair: Pair, authority: Pair = AUTHORITY) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem(), "ca.crt": authority.certificate_pem}


def imputer(address: str, access: TritonAccess, deadline_s: float = 5.0) -> TritonImputer:
    return TritonImputer(address, {"m": contract()}, deadline_s=deadline_s, access=access)


async def test_a_replaced_pair_is_shown_without_a_restart_and_every_call_is_answered(tmp_path: Path) -> None:
    """For 200 ms the files do not fit each other."""
    old, new = signed("old", AUTHORITY), signed("new", AUTHORITY)
    mounted = MountedSecret(tmp_path / "mounted", client_files(old))
    tls = WatchedTls("triton", TlsFiles(mounted / "ca.crt", mounted / "tls.crt", mounted / "tls.key"))
    async with served(ANSWER, credentials=server_credentials()) as (address, servicer):
        rung = imputer(address, TritonAccess(tls))
        answers = 0

        async def call() -> str:
            nonlocal answers
            await rung.impute(WINDOWS)
            answers += 1
            return servicer.callers[-1]

        async def replace() -> None:
            mounted.replace(client_files(new) | {"tls.key": old.key_pem()})
            await asyncio.sleep(0.2)
            mounted.replace(client_files(new))

        assert await call() == "old"
        replacing = asyncio.create_task(replace())
        while not replacing.done():
            assert await call() in ("old", "new")
        async with asyncio.timeout(10):
            while await call() != "new":
                pass
        assert answers == len(servicer.callers), "a call that fails raises above"
        assert set(servicer.callers) == {"old", "new"}
        await rung.close()


@pytest.mark.parametrize(
    ("server", "client", "authority", "sentence"),
    [
        (signed("s", AUTHORITY, days=-1), "good", AUTHORITY, "its certificate has expired"),
        (signed("s", AUTHORITY, hosts=["triton.plant"]), "good", AUTHORITY, "its certificate is for another host name"),
        (signed("s", AUTHORITY), "good", signed("b"), "no authority of GLAIM_TRITON_CA_FILE has signed"),
        (
            signed("s", AUTHORITY),
            "none",
            AUTHORITY,
            "it may require or refuse a client certificate",
        ),
        (signed("s", AUTHORITY), "foreign", AUTHORITY, "it may require or refuse a client certificate"),
    ],
    ids=["expired", "wrong-host", "unknown-authority", "no-client-certificate", "foreign-client-certificate"],
)
async def test_a_certificate_that_is_refused_is_a_sentence(
    tmp_path: Path, server: Pair, client: str, authority: Pair, sentence: str
) -> None:
    ca_file = tmp_path / "ca.crt"
    ca_file.write_bytes(authority.certificate_pem)
    pairs = {"good": signed("good", AUTHORITY), "foreign": signed("foreign", signed("other authority"))}
    files = pairs[client].write(tmp_path) if client in pairs else (None, None)
    access = TritonAccess(WatchedTls("triton", TlsFiles(ca_file, *files)))
    async with served(ANSWER, credentials=server_credentials(server)) as (address, _):
        rung = imputer(address, access, deadline_s=1.0)
        with pytest.raises(ImputerUnavailable) as error:
            await rung.impute(WINDOWS)
        assert sentence in str(error.value)
        with pytest.raises(ImputerUnavailable) as error:
            await rung.check()
        assert sentence in str(error.value)
        await rung.close()


async def test_a_server_without_tls_is_a_sentence() -> None:
    async with served(ANSWER) as (address, _):
        rung = imputer(address, TritonAccess(WatchedTls("triton", TlsFiles())), deadline_s=1.0)
        with pytest.raises(ImputerUnavailable, match="it does not use TLS, and GLAIM_TRITON begins with grpcs://"):
            await rung.impute(WINDOWS)
        await rung.close()


async def test_a_server_that_requires_tls_is_a_sentence() -> None:
    async with served(ANSWER, credentials=server_credentials(clients=None)) as (address, _):
        rung = imputer(address, TritonAccess(), deadline_s=1.0)
        with pytest.raises(ImputerUnavailable, match="it closes the connection, it may require TLS"):
            await rung.impute(WINDOWS)
        with pytest.raises(ImputerUnavailable, match="it requires TLS, and GLAIM_TRITON does not begin with grpcs://"):
            await rung.check()
        await rung.close()


async def test_every_call_has_the_newest_token(tmp_path: Path) -> None:
    ca_file, token_file = tmp_path / "ca.crt", tmp_path / "token"
    ca_file.write_bytes(AUTHORITY.certificate_pem)
    token_file.write_text("first\n")
    settings = read_settings(triton="grpcs://localhost:8001", triton_ca_file=ca_file, triton_token_file=token_file)
    async with served(ANSWER, credentials=server_credentials(clients=None)) as (address, servicer):
        rung = imputer(address, triton_access(settings))
        await rung.impute(WINDOWS)
        token_file.write_text("second")
        await rung.impute(WINDOWS)
        await rung.close()
    assert [headers["authorization"] for headers in servicer.headers] == ["Bearer first", "Bearer second"]


async def test_a_refused_token_is_tried_again_until_the_deadline(tmp_path: Path) -> None:
    """The server may learn a new token before the file is replaced, or after."""
    (tmp_path / "token").write_text("t")
    access = TritonAccess(token=SecretFile(tmp_path / "token"), header="x-token")
    async with served(grpc.StatusCode.UNAUTHENTICATED, ANSWER) as (address, servicer):
        rung = imputer(address, access)
        await rung.impute(WINDOWS)
        assert [headers["x-token"] for headers in servicer.headers] == ["t", "t"]
        await rung.close()
    async with served(grpc.StatusCode.PERMISSION_DENIED) as (address, _):
        rung = imputer(address, access, deadline_s=0.3)
        with pytest.raises(ImputerUnavailable, match=r"it refuses the token, or requires one, .*/token"):
            await rung.impute(WINDOWS)
        await rung.close()
