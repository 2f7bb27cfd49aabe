"""The findings of an audit, for people and for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

PROBLEMS = {
    "missing": "readings whose closed step has no observed row, and which are on no other topic",
    "missing_dead_letters": "rejected or too late readings that are neither dead letters nor on the late topic",
    "wrong": "steps whose newest row differs from what the input gives",
    "conflicting": "rows of one (group, sensor, ts, revision) that contradict each other",
    "repeated": "rows of one (group, sensor, ts, revision) that two transactions published",
    "invented": "observed rows without a reading",
    "holes_absent": "steps at which a sensor was silent and that have no row at all",
    "holes_not_final": "provisional rows whose final row is due and absent",
    "outages_absent": "groups that went dark or spoke again without an event on the outage topic",
    "outages_invented": "events of the outage topic that the readings do not explain",
    "committed_beyond_input": "number of offsets by which the commit lies beyond the end of the input",
    "lost_offsets": "offsets of the input that were gone before a worker had answered them",
    "rebuild_too_late": "number of offsets that the windows need and the commit's rebuild_from leaves out",
    "unreadable_output": "messages of the output topic that are not in the schema of the rows",
}


@dataclass(frozen=True, slots=True)
class Offence:
    """One case of a problem and its place; `ts_ms` is the start of the step, or the reading's time."""

    partition: int
    group: str | None = None
    sensor: str | None = None
    ts_ms: int | None = None
    offset: int | None = None
    detail: str = ""

    def __str__(self) -> str:
        from glaim_stream.core.times import text_of_ms

        where = [f"partition {self.partition}"]
        if self.offset is not None:
            where.append(f"offset {self.offset}")
        what = f"{self.group} {self.sensor} {text_of_ms(self.ts_ms)} " if self.ts_ms is not None else ""
        return f"{what}({', '.join(where)}): {self.detail}"


@dataclass(slots=True)
class Finding:
    """The number of times that a rule is broken, and its first offences."""

    count: int
    first: list[Offence] = field(default_factory=list)


@dataclass(slots=True)
class Findings:
    """Counts of the checked items by name, and the findings of the rules by problem."""

    counts: dict[str, int] = field(default_factory=dict)
    problems: dict[str, Finding] = field(default_factory=dict)

    def add(self, other: Findings) -> None:
        """Add counts and problems of other rules, or of another partition."""
        for name, count in other.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        for name, finding in other.problems.items():
            whole = self.problems.setdefault(name, Finding(0))
            whole.count += finding.count
            whole.first += finding.first


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """The range that was read of one input partition, and the commit of the consumer group."""

    partition: int
    begin: int
    end: int
    committed: int | None
    rebuild_from: int | None
    once_from: int | None = None  # input offset from which exactly-once delivery holds; None where it does not


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The outcome of an audit: `counts` of the checked items, and `problems` (see PROBLEMS).

    Counts: records, readings, dropouts (null), rejected, dead_letters, keys (steps of sensors with a reading), found,
    open (their step is not closed), pending (not committed yet), rows, silent_steps, identical_duplicates,
    closed_by_clock_duplicates (a provisional row came again after a restart; the later one wins),
    other_method_duplicates (a row came again from another imputer, as an upgrade, or with weights from other errors
    because an imputer was away), outages (events of the outage topic caused by event time) and outages_judged (those
    that follow from the readings with certainty).
    """

    input_topic: str
    output_topic: str
    consumer_group: str
    counts: dict[str, int]
    problems: dict[str, Finding]
    dead_letters: dict[str, int]  # readings by cause
    partitions: list[PartitionRange]
    warnings: list[str]
    seconds: float

    @property
    def lost(self) -> int:
        """Number of readings that are missing both in the output and among the dead letters."""
        return sum(self.problems[name].count for name in ("missing", "missing_dead_letters") if name in self.problems)

    @property
    def holes(self) -> int:
        """Number of steps without a row, or without their final one."""
        return sum(self.problems[name].count for name in ("holes_absent", "holes_not_final") if name in self.problems)

    @property
    def clean(self) -> bool:
        """True when nothing is lost or wrong."""
        return not any(finding.count for finding in self.problems.values())

    def as_json(self) -> dict[str, Any]:
        """The whole report, for json.dumps."""
        return {"clean": self.clean, "lost": self.lost, "holes": self.holes, **asdict(self)}
