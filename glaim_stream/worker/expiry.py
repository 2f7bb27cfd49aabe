"""The gauge of certificate expiry, read from the files at each scrape."""

from __future__ import annotations

from functools import partial

from glaim_stream.core import metrics
from glaim_stream.core.settings import Settings
from glaim_stream.core.tls import KAFKA, METRICS, TRITON, WatchedTls, watched_tls


def show_expiry(settings: Settings) -> None:
    """Create a series for each file with certificates.

    Raises:
        SettingsError: the files cannot be used.
    """
    triton_files = settings.triton_tls_files if settings.imputer == "triton" else None
    used = ((KAFKA, settings.kafka_tls_files), (TRITON, triton_files), (METRICS, settings.metrics_tls_files))
    for use, files in used:
        if files is None:
            continue
        watched = watched_tls(use, files)
        for file in watched.current().expires_s:
            metrics.certificate_expires_seconds.labels(use, file).set_function(partial(_expires_s, watched, file))


def _expires_s(watched: WatchedTls, file: str) -> float:
    return watched.current().expires_s[file]
