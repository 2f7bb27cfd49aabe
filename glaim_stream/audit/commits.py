"""The rules of a consumer group's commit: it lies inside the input, and the windows can be rebuilt from it."""

from __future__ import annotations

from dataclasses import dataclass

from glaim_stream.audit.arrivals import Arrivals
from glaim_stream.audit.model_columns import ModelColumns
from glaim_stream.audit.report import Finding, Findings, Offence


@dataclass(frozen=True, slots=True)
class Commit:
    """What the consumer group committed for a partition; `rebuild_from` None where another tool committed."""

    offset: int
    rebuild_from: int | None


def check_commit(commit: Commit, arrivals: Arrivals, *, partition: int, end: int, columns: ModelColumns) -> Findings:
    """Hold a commit against the input, which ends before the offset `end`."""
    detail = f"committed {commit.offset}, the input ends at {end}"
    ahead = Offence(partition, offset=commit.offset, detail=detail)
    problems = {"committed_beyond_input": _finding(max(0, commit.offset - end), ahead)}
    if commit.rebuild_from is not None:
        readings = arrivals.readings
        window_start = (arrivals.closed_at_commit - columns.window)[readings.model]
        needs = arrivals.committed & ~arrivals.too_late & (arrivals.step >= window_start)
        needed = int(readings.offset[needs].min()) if needs.any() else commit.offset
        detail = f"the commit at {commit.offset} rebuilds from {commit.rebuild_from}, its windows need {needed}"
        short = Offence(partition, offset=needed, detail=detail)
        problems["rebuild_too_late"] = _finding(max(0, commit.rebuild_from - needed), short)
    return Findings({}, problems)


def _finding(count: int, offence: Offence) -> Finding:
    return Finding(count, [offence] if count else [])
