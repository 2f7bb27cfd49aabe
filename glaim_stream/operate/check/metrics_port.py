"""Checks the TLS files of the metrics port, without opening it."""

from __future__ import annotations

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.core.tls import METRICS, WatchedTls
from glaim_stream.operate.check.findings import Finding, failed, ok


def metrics_findings(settings: Settings) -> list[Finding]:
    """A finding on the certificate, its key and the scrapers' authorities; none without TLS on the metrics port."""
    files = settings.metrics_tls_files
    if files is None:
        return []
    subject = "TLS of the metrics port"
    try:
        watched = WatchedTls(METRICS, files)
    except SettingsError as error:
        return [failed(subject, expected="a certificate with its key, valid", found=str(error))]
    return [ok(subject, watched.described(watched.current()).removeprefix(", "))]
