"""TLS on the metrics port, over real connections: certificates that change, and who may scrape."""

import contextlib
import http.client
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import read_settings
from glaim_stream.core.tls import METRICS, TlsFiles, WatchedTls
from glaim_stream.worker.health import Health
from glaim_stream.worker.health_pages import serve_pages
from tests.certificates import MountedSecret, Pair, signed

LOOPBACK = "127.0.0.1"
AUTHORITY = signed("authority")


def files_of(pair: Pair, key: Pair | None = None) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate_pem, "tls.key": (key or pair).key_pem(), "ca.crt": AUTHORITY.certificate_pem}


def serve(mounted: MountedSecret, *, mutual: bool = False) -> int:
    authorities = mounted / "ca.crt" if mutual else None
    tls = WatchedTls(METRICS, TlsFiles(authorities, mounted / "tls.crt", mounted / "tls.key"))
    return serve_pages(Health(), LOOPBACK, 0, tls)


def client_context(pair: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())
    if pair is not None:
        context.load_cert_chain(*pair)
    return context


def get(port: int, path: str, context: ssl.SSLContext | None = None) -> tuple[int, str, bytes]:
    """Status, body, and the server's certificate in DER."""
    connection = connected(port, context)
    certificate = certificate_of(connection)
    try:
        return (*answer(connection, path), certificate)
    finally:
        connection.close()


def connected(port: int, context: ssl.SSLContext | None = None) -> http.client.HTTPSConnection:
    connection = http.client.HTTPSConnection(LOOPBACK, port, timeout=10, context=context or client_context())
    connection.connect()
    return connection


def certificate_of(connection: http.client.HTTPSConnection) -> bytes:
    assert isinstance(connection.sock, ssl.SSLSocket)
    return connection.sock.getpeercert(binary_form=True) or b""


def answer(connection: http.client.HTTPConnection, path: str) -> tuple[int, str]:
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read().decode()


def der(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.certificate_pem.decode())


@pytest.fixture
def mounted(tmp_path: Path) -> MountedSecret:
    return MountedSecret(tmp_path / "mounted", files_of(signed("old", AUTHORITY)))


def test_metrics_and_health_are_served_by_tls_alone(mounted: MountedSecret) -> None:
    port = serve(mounted)
    status, body, _ = get(port, "/metrics")
    assert status == 200
    assert "glaim_readings_total" in body
    assert get(port, "/health/live")[0] == 200
    assert get(port, "/health/started")[0] == 503
    plain = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        answer(plain, "/metrics")
    plain.close()


def test_a_swapped_pair_is_served_without_a_restart_or_a_lost_answer(tmp_path: Path) -> None:
    """The kubelet swaps by a link; for 200 ms the key does not fit the certificate, and a scraper asks all the time."""
    old, new = signed("old", AUTHORITY, days=5), signed("new", AUTHORITY, days=40)
    mounted = MountedSecret(tmp_path / "mounted", files_of(old))
    port = serve(mounted)
    opened_before = connected(port)
    seen: list[bytes] = []
    failures: list[BaseException] = []
    ended = threading.Event()

    def scrape() -> None:
        while not ended.is_set():
            try:
                status, _, certificate = get(port, "/metrics")
                assert status == 200
                seen.append(certificate)
            except BaseException as error:
                failures.append(error)

    scraper = threading.Thread(target=scrape)
    scraper.start()
    try:
        wait_until(lambda: len(seen) > 3)
        mounted.replace(files_of(new, key=old))
        before = len(seen)
        time.sleep(0.2)
        wait_until(lambda: len(seen) > before + 1)
        broken = seen[before:]
        mounted.replace(files_of(new))
        wait_until(lambda: seen[-1] == der(new))
    finally:
        ended.set()
        scraper.join()
    assert failures == []
    assert set(broken) == {der(old)}, "the old pair serves until the new one is whole"
    assert list(dict.fromkeys(seen)) == [der(old), der(new)], "once the new pair is in use, the old one is not"
    assert certificate_of(opened_before) == der(old)
    assert answer(opened_before, "/health/live")[0] == 200, "a connection that was open is answered"
    opened_before.close()


def wait_until(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end_s, "waited 20 s"
        time.sleep(0.01)


def test_a_scraper_must_show_a_certificate_and_a_probe_need_not(mounted: MountedSecret, tmp_path: Path) -> None:
    port = serve(mounted, mutual=True)
    status, body, _ = get(port, "/metrics")
    assert (status, "GLAIM_METRICS_TLS_CLIENT_CA" in body) == (403, True)
    for path in ("/metrics/", "//metrics", "/%6detrics", "/metrics?name[]=up"):
        assert get(port, path)[0] in (403, 404), path
    assert get(port, "/health/live")[0] == 200, "the kubelet has no certificate"
    prometheus = client_context(signed("prometheus", AUTHORITY).write(tmp_path, "prometheus"))
    status, body, _ = get(port, "/metrics", prometheus)
    assert status == 200
    assert "glaim_readings_total" in body
    assert get(port, "/health/live", prometheus)[0] == 200


@pytest.mark.parametrize("path", ["/metrics", "/health/live"])
@pytest.mark.parametrize("wrong", ["another authority", "expired"])
def test_a_wrong_certificate_is_refused(
    mounted: MountedSecret, tmp_path: Path, wrong: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    pair = signed("x", signed("other")) if wrong == "another authority" else signed("x", AUTHORITY, days=-1)
    port = serve(mounted, mutual=True)
    context = client_context(pair.write(tmp_path, "wrong"))
    for _ in range(3):
        with pytest.raises(OSError, match=r"(?i)alert|reset|broken pipe|EOF"):
            get(port, path, context)
    assert get(port, "/health/live")[0] == 200
    wait_until(lambda: caplog.records)
    assert len(caplog.records) == 1, "scrapes repeat, the warning does not"
    assert "metrics port: the TLS handshake with 127.0.0.1 failed: CERTIFICATE_VERIFY_FAILED" in caplog.text


def test_a_silent_client_does_not_block_others(mounted: MountedSecret) -> None:
    port = serve(mounted)
    with socket.create_connection((LOOPBACK, port)), contextlib.closing(socket.create_connection((LOOPBACK, port))):
        started_s = time.monotonic()
        assert get(port, "/health/live")[0] == 200
        assert time.monotonic() - started_s < 5


def test_a_pair_that_expires_in_use_is_served_and_logged(
    mounted: MountedSecret, caplog: pytest.LogCaptureFixture
) -> None:
    """Probes go on, since the kubelet checks no certificate; a scraper refuses it, so the log must have the reason."""
    lenient = ssl.create_default_context()
    lenient.check_hostname, lenient.verify_mode = False, ssl.CERT_NONE
    short = signed("short", AUTHORITY, days=2 / 86_400)
    mounted.replace(files_of(short))
    port = serve(mounted)
    with caplog.at_level(logging.WARNING):
        wait_until(lambda: time.time() > short.certificate.not_valid_after_utc.timestamp())
        for _ in range(3):
            assert get(port, "/health/live", lenient)[0] == 200
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        get(port, "/metrics")
    (record,) = [record for record in caplog.records if "expired on" in record.getMessage()]
    date = short.certificate.not_valid_after_utc.strftime("%Y-%m-%d %H:%M UTC")
    assert record.getMessage().endswith(
        f"tls.crt expired on {date}, so scrapers refuse it; replace it, no restart is needed"
    )
    renewed = signed("renewed", AUTHORITY)
    mounted.replace(files_of(renewed))
    assert get(port, "/metrics")[0] == 200


def test_a_worker_starts_with_no_pair_that_is_unusable(tmp_path: Path) -> None:
    good, other, expired = signed("a", AUTHORITY), signed("b", AUTHORITY), signed("c", AUTHORITY, days=-1)
    certificate, key = good.write(tmp_path)
    files = TlsFiles(None, certificate, key)
    key.write_bytes(other.key_pem())
    with pytest.raises(SettingsError, match=r"expected PEM files for TLS in .*tls\.crt, .*tls\.key, found: .*MISMATCH"):
        WatchedTls(METRICS, files)
    expired.write(tmp_path)
    with pytest.raises(SettingsError, match=r"tls\.crt: expected a valid certificate, found one that expired on"):
        WatchedTls(METRICS, files)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metrics_tls_cert": "a"}, "GLAIM_METRICS_TLS_KEY: .*go together, metrics_tls_cert and metrics_tls_key"),
        ({"metrics_tls_key": "a"}, "GLAIM_METRICS_TLS_KEY: .*go together, metrics_tls_cert and metrics_tls_key"),
        ({"metrics_tls_client_ca": "a"}, "GLAIM_METRICS_TLS_CLIENT_CA: .*it needs metrics_tls_cert"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_settings(**given)
