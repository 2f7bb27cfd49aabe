"""Findings on the TLS files of the metrics port."""

from pathlib import Path

import pytest

from glaim_stream.core.settings import Settings
from glaim_stream.operate.check.findings import Grade
from glaim_stream.operate.check.run import metrics_findings
from tests.certificates import signed
from tests.command_line import call

AUTHORITY = signed("authority")


def settings_with(certificate: Path, key: Path, authorities: Path | None = None) -> Settings:
    return Settings(metrics_tls_cert=certificate, metrics_tls_key=key, metrics_tls_client_ca=authorities)


def failure(settings: Settings) -> str:
    (finding,) = metrics_findings(settings)
    assert finding.outcome is Grade.FAILED
    assert str(finding).startswith("TLS of the metrics port: expected a certificate with its key, valid, found ")
    return str(finding)


def test_a_port_without_tls_has_no_finding() -> None:
    assert metrics_findings(Settings()) == []


def test_a_valid_pair_is_shown_with_its_end(tmp_path: Path) -> None:
    pair = signed("worker", AUTHORITY, days=5)
    (finding,) = metrics_findings(settings_with(*pair.write(tmp_path)))
    end = pair.certificate.not_valid_after_utc.strftime("%Y-%m-%d %H:%M UTC")
    assert (finding.outcome, finding.found) == (Grade.OK, f"certificate until {end}")


def test_an_absent_an_unreadable_and_a_foreign_key_are_named(tmp_path: Path) -> None:
    certificate, key = signed("worker", AUTHORITY).write(tmp_path)
    _, other = signed("other", AUTHORITY).write(tmp_path, "other")
    (tmp_path / "text.key").write_text("no key")
    assert f"No such file or directory: '{tmp_path / 'none.key'}'" in failure(
        settings_with(certificate, tmp_path / "none.key")
    )
    assert str(tmp_path / "text.key") in failure(settings_with(certificate, tmp_path / "text.key"))
    assert "key values mismatch" in failure(settings_with(certificate, other))
    assert f"'{tmp_path / 'ca.crt'}'" in failure(settings_with(certificate, key, tmp_path / "ca.crt"))


def test_an_expired_pair_is_named_with_its_end(tmp_path: Path) -> None:
    certificate, key = signed("worker", AUTHORITY, days=-1).write(tmp_path)
    sentence = f"{certificate}: expected a valid certificate, found one that expired on "
    assert sentence in failure(settings_with(certificate, key))


@pytest.mark.parametrize(("days", "status", "word"), [(5, 0, "ok"), (-1, 1, "failed")])
def test_the_command_checks_the_port_alone(days: float, status: int, word: str, tmp_path: Path) -> None:
    certificate, key = signed("worker", AUTHORITY, days=days).write(tmp_path)
    given = {"GLAIM_METRICS_TLS_CERT": str(certificate), "GLAIM_METRICS_TLS_KEY": str(key)}
    done = call("check", "--only", "metrics", environment=given)
    assert (done.returncode, done.stdout.count("\n")) == (status, 1)
    assert done.stdout.startswith(f"{word:<8} TLS of the metrics port: ")
