"""TLS files that change, their expiry times, and secrets that change."""

import logging
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.secret_files import SecretFile
from glaim_stream.core.tls import FollowingContext, TlsFiles, WatchedTls, read_identity
from tests.certificates import MountedSecret, Pair, signed

AUTHORITY = signed("authority")


def files_of(pair: Pair) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem(), "ca.crt": AUTHORITY.certificate_pem}


def watched(mounted: MountedSecret) -> WatchedTls:
    return WatchedTls("kafka", TlsFiles(mounted / "ca.crt", mounted / "tls.crt", mounted / "tls.key"))


def test_a_pair_that_is_replaced_is_used_from_the_next_connection_on(tmp_path: Path) -> None:
    mounted = MountedSecret(tmp_path / "mounted", files_of(signed("old", AUTHORITY)))
    tls = watched(mounted)
    first = tls.current()
    assert tls.current() is first
    new = signed("new", AUTHORITY, days=30)
    mounted.replace(files_of(new))
    second = tls.current()
    assert second is not first
    assert second.certificate == new.certificate_pem
    assert second.expires_s["certificate"] == new.certificate.not_valid_after_utc.timestamp()


def test_the_old_pair_serves_while_the_new_one_is_not_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Files that are written one after the other: certificate and key do not fit, or one is cut off or absent."""
    old, new = signed("old", AUTHORITY), signed("new", AUTHORITY)
    certificate, key = old.write(tmp_path)
    tls = WatchedTls("kafka", TlsFiles(None, certificate, key))
    first = tls.current()
    with caplog.at_level(logging.WARNING):
        certificate.write_bytes(new.certificate_pem)
        assert tls.current() is first
        key.write_bytes(new.key_pem()[:40])
        assert tls.current() is first
        key.unlink()
        assert tls.current() is first
        assert tls.current() is first
    assert len(caplog.records) == 3, "one warning for each state of the files"
    assert "kafka: the TLS files that were read before stay in use: expected PEM files for TLS in" in caplog.text
    key.write_bytes(new.key_pem())
    assert tls.current().certificate == new.certificate_pem


def test_an_expired_pair_does_not_replace_one_that_is_valid(tmp_path: Path) -> None:
    mounted = MountedSecret(tmp_path / "mounted", files_of(signed("old", AUTHORITY)))
    tls = watched(mounted)
    first = tls.current()
    mounted.replace(files_of(signed("expired", AUTHORITY, days=-1)))
    assert tls.current() is first


def test_an_expired_certificate_is_reported_with_its_date(tmp_path: Path) -> None:
    expired = signed("expired", AUTHORITY, days=-1)
    certificate, key = expired.write(tmp_path)
    date = expired.certificate.not_valid_after_utc.strftime("%Y-%m-%d %H:%M UTC")
    with pytest.raises(SettingsError, match=f"tls.crt: expected a valid certificate, found one that expired on {date}"):
        WatchedTls("kafka", TlsFiles(None, certificate, key))


def test_a_list_of_authorities_is_of_use_until_the_last_one_has_expired(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.crt"
    gone = signed("gone", days=-1)
    authorities.write_bytes(gone.certificate_pem + AUTHORITY.certificate_pem)
    identity = WatchedTls("kafka", TlsFiles(authorities)).current()
    assert identity.expires_s == {"authorities": AUTHORITY.certificate.not_valid_after_utc.timestamp()}
    authorities.write_bytes(gone.certificate_pem)
    with pytest.raises(SettingsError, match=r"ca\.crt: expected a valid certificate"):
        WatchedTls("kafka", TlsFiles(authorities))


def test_a_context_shakes_hands_with_the_newest_pair(tmp_path: Path) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*signed("server", AUTHORITY).write(tmp_path, "server"))
    server.load_verify_locations(cadata=AUTHORITY.certificate_pem.decode())
    server.verify_mode = ssl.CERT_REQUIRED
    mounted = MountedSecret(tmp_path / "mounted", files_of(signed("old", AUTHORITY)))
    context = FollowingContext(watched(mounted))
    assert handshake(context, server) == "old"
    mounted.replace(files_of(signed("new", AUTHORITY)))
    assert handshake(context, server) == "new"


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> str:
    """Shake hands in memory; returns the name that the server has seen."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    there = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (here, there):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    subject = there.getpeercert()["subject"]  # type: ignore[index]
    return str(dict(part[0] for part in subject)["commonName"])


def test_a_chain_expires_with_its_first_certificate_and_authorities_with_their_last(tmp_path: Path) -> None:
    """Both notations of a time: two digits of the year before 2050, four from then on."""
    pairs = [signed("a", days=3), signed("b", days=20_000), signed("c", days=1)]
    ends_s = [pair.certificate.not_valid_after_utc.timestamp() for pair in pairs]
    assert ends_s[1] > datetime(2050, 1, 1, tzinfo=UTC).timestamp()
    pem = b"Issuer: someone\n" + b"\n".join(pair.certificate_pem for pair in pairs)
    certificate, key = pairs[0].write(tmp_path)
    certificate.write_bytes(pem)
    (tmp_path / "ca.crt").write_bytes(pem)
    found = read_identity(TlsFiles(tmp_path / "ca.crt", certificate, key))
    assert found.expires_s == {"certificate": min(ends_s), "authorities": max(ends_s)}


@pytest.mark.parametrize("cut", range(0, 140, 7))
def test_a_damaged_certificate_is_an_error_that_names_its_file(tmp_path: Path, cut: int) -> None:
    der = AUTHORITY.certificate.public_bytes(serialization.Encoding.DER)[:cut]
    (tmp_path / "ca.crt").write_text(ssl.DER_cert_to_PEM_cert(der))
    with pytest.raises(SettingsError, match=r"expected PEM files for TLS in .*ca\.crt"):
        read_identity(TlsFiles(tmp_path / "ca.crt", None, None))


def test_the_authorities_of_the_system_can_be_read() -> None:
    bundle = ssl.get_default_verify_paths().cafile
    if bundle is None:
        pytest.skip("this system keeps its authorities in a folder")
    assert read_identity(TlsFiles(Path(bundle), None, None)).expires_s["authorities"] > time.time()


def test_a_secret_is_read_again_and_kept_while_its_file_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    secret = SecretFile(file)
    assert secret.text() == "one"
    file.write_text("")
    assert secret.text() == "one"
    file.unlink()
    assert secret.text() == "one"
    file.write_text("second")
    assert secret.text() == "second"


@pytest.mark.parametrize("content", ["", "\n", "one\ntwo", "a\x00b"])
def test_a_secret_is_one_line_and_is_not_shown(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(SettingsError, match=r"expected one line with a secret, found . characters"):
        SecretFile(file)
    with pytest.raises(SettingsError, match=r"expected a file with a secret, found: .*No such file"):
        SecretFile(tmp_path / "absent")
