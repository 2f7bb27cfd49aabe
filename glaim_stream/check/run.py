"""All that there is to check, or one subject of it."""

from __future__ import annotations

from collections.abc import Collection

from glaim_stream.check.broker import kafka_findings
from glaim_stream.check.findings import Finding, Outcome, Subject
from glaim_stream.check.models import answer_findings, catalogue_findings, contract_findings
from glaim_stream.models.contract import Contract
from glaim_stream.settings import Settings
from glaim_stream.windows.history import history_ms


async def check(settings: Settings, subjects: Collection[Subject] = ()) -> list[Finding]:
    """Check what a worker with these settings would need; all subjects when none is named.

    The catalogue is read in any case, because the others depend on it; what it comes to is told where it was asked
    for, or where it stands in their way.
    """
    wanted = set(subjects) or set(Subject)
    said, catalogue = catalogue_findings(settings)
    contracts: dict[str, Contract] = {}
    if catalogue is not None:
        more, contracts = contract_findings(settings, catalogue)
        said += more
    if Subject.CATALOGUE not in wanted:
        said = [finding for finding in said if finding.outcome is Outcome.FAILED and Subject.TRITON in wanted]
    if Subject.KAFKA in wanted:
        said += kafka_findings(settings, None if catalogue is None else history_ms(catalogue, scored=settings.scored))
    if Subject.TRITON in wanted:
        said += await answer_findings(settings, contracts)
    return said
