"""The gauge of certificates' ends."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import REGISTRY

from glaim_stream.settings import read_settings
from glaim_stream.worker.expiry import show_expiry
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
        triton_tls=True, triton_ca_file=authorities,
    )  # fmt: skip
    show_expiry(settings)
    assert shown("kafka", "certificate") == first.certificate.not_valid_after_utc.timestamp()
    for use in ("kafka", "triton"):
        assert shown(use, "authorities") == AUTHORITY.certificate.not_valid_after_utc.timestamp()
    assert shown("triton", "certificate") is None
    second.write(tmp_path)
    assert shown("kafka", "certificate") == second.certificate.not_valid_after_utc.timestamp()
