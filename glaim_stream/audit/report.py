"""What an audit says, for people and for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

PROBLEMS = {
    "missing": "readings whose closed step has no observed row, and which are on no other topic",
    "missing_dead_letters": "refused or too late readings that are neither dead letters nor on the late topic",
    "wrong": "steps whose newest row differs from what the input gives",
    "conflicting": "rows of one (group, sensor, ts, revision) that contradict each other",
    "invented": "observed rows that no reading explains",
    "holes_absent": "steps at which a sensor was silent that have no row at all",
    "holes_not_final": "provisional rows whose final one is due and not there",
    "outages_absent": "groups that went dark or spoke again, of which the outage topic says nothing",
    "outages_invented": "events of the outage topic that no reading explains",
    "committed_beyond_input": "offsets that the commit lies beyond the end of the input",
    "rebuild_too_late": "offsets that the windows need and the commit's rebuild_from leaves out",
    "unreadable_output": "messages of the output topic that are not ours",
}


@dataclass(frozen=True, slots=True)
class Offence:
    """One thing that is wrong, and where; `ts_ms` is the start of the step, or the reading's time."""

    partition: int
    group: str | None = None
    sensor: str | None = None
    ts_ms: int | None = None
    offset: int | None = None
    detail: str = ""

    def __str__(self) -> str:
        from glaim_stream.times import text_of_ms

        where = [f"partition {self.partition}"]
        if self.offset is not None:
            where.append(f"offset {self.offset}")
        what = f"{self.group} {self.sensor} {text_of_ms(self.ts_ms)} " if self.ts_ms is not None else ""
        return f"{what}({', '.join(where)}): {self.detail}"


@dataclass(slots=True)
class Finding:
    """How often a rule is broken, and the first cases of it."""

    count: int
    first: list[Offence] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """What was read of one partition of the input, and how far the consumer group is."""

    partition: int
    begin: int
    end: int
    committed: int | None
    rebuild_from: int | None


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The outcome. `counts` says how much was looked at, `problems` what is wrong (see PROBLEMS).

    Counts: records, readings, dropouts (null), rejected, dead_letters, keys (promised steps of sensors), found, open
    (their step is not closed), pending (not committed yet), rows, silent_steps, identical_duplicates,
    closed_by_clock_duplicates (a provisional row came again after a restart; the later one wins) and
    other_method_duplicates (likewise, with another imputer, as an upgrade, or by weights that knew other errors because
    an imputer was away); of the outage topic outages (events that event time brought about) and outages_judged (those
    that the readings make certain).
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
        """Readings that are neither in the output nor among the dead letters, though they should be."""
        return sum(self.problems[name].count for name in ("missing", "missing_dead_letters") if name in self.problems)

    @property
    def holes(self) -> int:
        """Steps without a row, or without their final one."""
        return sum(self.problems[name].count for name in ("holes_absent", "holes_not_final") if name in self.problems)

    @property
    def clean(self) -> bool:
        """True when nothing is lost or wrong."""
        return not any(finding.count for finding in self.problems.values())

    def as_json(self) -> dict[str, Any]:
        """Everything, for json.dumps."""
        return {"clean": self.clean, "lost": self.lost, "holes": self.holes, **asdict(self)}
