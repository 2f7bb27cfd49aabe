"""The gauge of certificates' ends."""

from pathlib import Path

from prometheus_client import REGISTRY

from glaim_stream.core.settings import read_settings
from glaim_stream.worker.app import show_expiry
from tests.certificates import signed

NAME = "glaim_certificate_expires_timestamp_seconds"
AUTHORITY = signed("authority", days=300)


def shown(use: str, file: str) -> float | None:
    return REGISTRY.get_sample_value(NAME, {"use": use, "file": file})


def test_the_ends_of_all_files_are_shown_and_follow_them(tmp_path: Path) -> None:
    first, second = signed("worker", AUTHORITY, days=10), signed("worker", AUTHORITY, days=20)
    certificate, key = first.write(tmp_path)
    authorities = tmp_path / "ca.crt"
    authorities.write_bytes(AUTHORITY.certificate_pem)
    settings = read_settings(
        security_protocol="SSL", ssl_ca_file=authorities, ssl_cert_file=certificate, ssl_key_file=key,
        triton="grpcs://triton:8001", triton_ca_file=authorities,
        metrics_tls_cert=certificate, metrics_tls_key=key, metrics_tls_client_ca=authorities,
    )  # fmt: skip
    show_expiry(settings)
    for use in ("kafka", "metrics"):
        assert shown(use, "certificate") == first.certificate.not_valid_after_utc.timestamp()
    for use in ("kafka", "triton", "metrics"):
        assert shown(use, "authorities") == AUTHORITY.certificate.not_valid_after_utc.timestamp()
    assert shown("triton", "certificate") is None
    second.write(tmp_path)
    for use in ("kafka", "metrics"):
        assert shown(use, "certificate") == second.certificate.not_valid_after_utc.timestamp()
