"""Runs all checks, or those of some subjects."""

from __future__ import annotations

from collections.abc import Collection

from glaim_stream.core.contract import Contract
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.core.tls import METRICS, WatchedTls
from glaim_stream.operate.check.broker import kafka_findings
from glaim_stream.operate.check.findings import CheckFinding, Grade, Subject, failed, ok
from glaim_stream.operate.check.models import answer_findings, catalogue_findings, contract_findings, form_findings
from glaim_stream.operate.check.records import record_findings
from glaim_stream.windows import history_ms


async def check(settings: Settings, subjects: Collection[Subject] = ()) -> list[CheckFinding]:
    """Check the prerequisites of a worker with these settings; all subjects when none is named.

    The catalogue is always read, because the other checks depend on it. Its findings are returned if it is among the
    subjects, and its failures also if they prevent the check of Triton.
    """
    wanted = set(subjects) or set(Subject)
    findings, catalogue = catalogue_findings(settings)
    contracts: dict[str, Contract] = {}
    if catalogue is not None:
        more, contracts = contract_findings(settings, catalogue)
        findings += [*more, *form_findings(settings, catalogue)]
    if Subject.CATALOGUE not in wanted:
        findings = [finding for finding in findings if finding.outcome is Grade.FAILED and Subject.TRITON in wanted]
    if Subject.KAFKA in wanted:
        findings += kafka_findings(
            settings,
            None if catalogue is None else history_ms(catalogue, scored=settings.remembers, quality=settings.quality),
        )
    if Subject.KAFKA in wanted and catalogue is not None:
        findings += await record_findings(settings, catalogue)
    if Subject.TRITON in wanted:
        findings += await answer_findings(settings, contracts)
    if Subject.METRICS in wanted:
        findings += metrics_findings(settings)
    return findings


def metrics_findings(settings: Settings) -> list[CheckFinding]:
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
