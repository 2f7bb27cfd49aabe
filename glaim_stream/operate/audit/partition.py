"""Compares one partition's input with its output, by other logic than the worker's windows.

The worker walks through time with ring buffers. Here input and output are sorted by group and step, on disk, and each
rule is a comparison of columns: two ways to the same truth, of which one is short enough to be believed. The sorted
tables are cut at the same places (`chunks`), so that memory holds one chunk, however long the topics are. The state
of a rule from chunk to chunk belongs to one group: its last readings, and the intervals of its slow sensors.

Two offsets decide which keys are judged. Everything below the group's commit must have its rows; everything from there
on is `pending`. Event time up to the commit, less the allowed lateness, closes steps; the others are `open`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from glaim_stream.core.readings import Readings
from glaim_stream.core.rejects import Reject
from glaim_stream.operate.audit.arrivals import ArrivalClock, Arrivals, arrivals_of
from glaim_stream.operate.audit.chunks import CHUNK_ROWS, Bounds, chunks
from glaim_stream.operate.audit.commits import GroupCommit, check_commit, needed_by_windows
from glaim_stream.operate.audit.duplicates import Fallbacks, check_duplicates
from glaim_stream.operate.audit.expected import Expected, RangeStart, expected_rows, surely_whole
from glaim_stream.operate.audit.holes import Speakers, check_finals, check_silence, last_speakers, slow_sensors_heard
from glaim_stream.operate.audit.judged_steps import JudgedSteps
from glaim_stream.operate.audit.keys import Ints, Keys, distinct, is_among
from glaim_stream.operate.audit.letters import Letters, missing_late, missing_rejects
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.outages import JudgedGroups, OutageEvent, Spoken, check_outages, expected_outages
from glaim_stream.operate.audit.output_rows import OutputRows
from glaim_stream.operate.audit.report import Finding, Findings, Offence
from glaim_stream.operate.audit.values import check_invented, check_presence, check_values
from glaim_stream.operate.database import Columns, Database

_Table = TypeVar("_Table", Readings, OutputRows)
_TABLES = {
    "readings": """model INTEGER, "group" INTEGER, sensor INTEGER, event_time_ms BIGINT, value DOUBLE, "offset" BIGINT,
        position INTEGER, quality TINYINT, produced_ms BIGINT, requeued BOOLEAN, step BIGINT, open_from BIGINT,
        lettered BOOLEAN""",
    "output": """model INTEGER, "group" INTEGER, sensor INTEGER, step BIGINT, value DOUBLE, observed BOOLEAN,
        final BOOLEAN, method TINYINT, gap_age INTEGER, revision INTEGER, event_time_ms BIGINT, quality TINYINT,
        once BOOLEAN, version INTEGER""",
    "outages": '"group" INTEGER, step BIGINT, ts_ms BIGINT, kind INTEGER',
}


@dataclass(frozen=True, slots=True)
class Given:
    """The facts about a partition that are known before it is read."""

    partition: int
    begin: int  # lowest offset that is read
    end: int  # the offset after the last one that is read
    complete: bool  # no reading of a judged step lies before `begin`
    commit: GroupCommit | None
    judged: JudgedSteps
    judged_records: range  # offsets whose rejected readings are judged
    judge_until: int | None = None  # only keys with a reading below this offset are judged

    @property
    def committed(self) -> int:
        """The offset below which everything is judged."""
        return self.end if self.commit is None else self.commit.offset


@dataclass(slots=True)
class _Carried:
    """The state that a chunk leaves to the next one, for the group that continues there."""

    speakers: Speakers
    heard_cell: Ints  # slow sensors whose interval ends in a later chunk, and its last step
    heard_step: Ints
    spoken: Spoken

    @classmethod
    def nothing(cls) -> _Carried:
        """The state before the first chunk."""
        none = np.empty(0, np.int64)
        return cls(Speakers.none(), none, none, Spoken(none, none))


class PartitionAudit:
    """The audit of one partition: takes readings in order of arrival, rows and outages, and finds offences.

    Memory does not grow with their number: it holds the part of the database that fits, and one chunk while it is
    judged. One number for each group stays.
    """

    def __init__(
        self,
        given: Given,
        columns: ModelColumns,
        database: Database,
        *,
        examples: int = 5,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        self._given, self._columns = given, columns
        self._examples, self._chunk_rows = examples, chunk_rows
        self._database = database
        database.run(*(f"CREATE TABLE {name}({columns})" for name, columns in _TABLES.items()))
        self._clock = ArrivalClock(columns, given.committed)
        self._fallbacks = Fallbacks(database)
        self._judged_groups = JudgedGroups()
        self._kinds: dict[str, int] = {}
        self._start = RangeStart()
        self._lost, self._too_late = Finding(0), Finding(0)
        self._needed: int | None = None
        self._found = Findings(dict.fromkeys(("readings", "dropouts", "rejected", "dead_letters"), 0))
        self._carried = _Carried.nothing()

    def add_input(self, readings: Readings, rejects: Sequence[Reject], letters: Letters) -> None:
        """Add the readings and rejects of the next records, in order of arrival, and the `letters` of these records."""
        given, columns, counts = self._given, self._columns, self._found.counts
        step = readings.event_time_ms // columns.step_ms[readings.model]
        judged = given.judged.holds(step, readings.model)
        counts["readings"] += int(judged.sum())
        counts["dropouts"] += int(np.isnan(readings.value[judged]).sum())
        rejects = [reject for reject in rejects if reject.offset in given.judged_records]
        counts["rejected"] += sum(reject.count for reject in rejects)
        below = [reject for reject in rejects if reject.offset < given.committed]
        self._extend(self._lost, missing_rejects(letters, below, partition=given.partition, examples=self._examples))

        lettered = letters.holds(readings.offset, readings.position)
        taken = readings.where(~lettered)
        open_from = np.zeros(len(readings), np.int64)
        open_from[~lettered] = self._clock.open_from(taken)
        arrivals = arrivals_of(taken, open_from[~lettered], self._clock.closed_at_commit, given.committed, columns)
        self._judged_groups.add(arrivals)
        self._start.add(taken)
        records = given.judged_records
        late = arrivals.too_late & arrivals.committed
        late &= (taken.offset >= records.start) & (taken.offset < records.stop)
        self._extend(
            self._too_late,
            missing_late(taken.where(late), partition=given.partition, columns=columns, examples=self._examples),
        )
        # Of dead letters, `open_from` has no meaning.
        self._database.add(
            "readings", {**_columns(readings), "step": step, "open_from": open_from, "lettered": lettered}
        )

    def add_rows(self, rows: OutputRows) -> None:
        """Add the next output rows in the order of the topic."""
        self._fallbacks.add(rows)
        self._database.add("output", _columns(rows.where(self._given.judged.holds(rows.step, rows.model))))

    def add_outages(self, events: Iterable[OutageEvent]) -> None:
        """Add events of the outage topic."""
        model, step_ms = self._columns.model_of_group(), self._columns.step_ms
        places = [
            (each.group, each.ts_ms // int(step_ms[model[each.group]]), each.ts_ms, self._kind(each.kind))
            for each in events
        ]
        group, step, ts_ms, kind = np.array(places, np.int64).reshape(-1, 4).T
        judged = self._given.judged.holds(step, model[group])
        columns = {"group": group, "step": step, "ts_ms": ts_ms, "kind": kind}
        self._database.add("outages", {name: column[judged] for name, column in columns.items()})

    def findings(self, *, dead_letters: int, outages_known: bool) -> Findings:
        """Apply every rule; keep at most `examples` offences of each problem.

        Args:
            dead_letters: number of dead letters of the partition.
            outages_known: True if the outage topic is there and whole.
        """
        given = self._given
        self._found.counts["dead_letters"] = dead_letters
        judged_groups = self._judged_groups.codes if outages_known and self._outages_can_be_judged else None
        for bounds, tables in chunks(self._database, list(_TABLES), rows=self._chunk_rows):
            self._add(self._judge(bounds, tables, judged_groups))
        self._extend(self._lost, self._too_late)
        self._found.problems["missing_dead_letters"] = self._lost
        if given.commit is not None:
            self._found.add(check_commit(given.commit, self._needed, partition=given.partition, end=given.end))
        return self._found

    @property
    def _outages_can_be_judged(self) -> bool:
        return self._given.complete and self._given.judge_until is None

    def _judge(self, bounds: Bounds, tables: Sequence[Columns], judged_groups: Ints | None) -> Findings:
        """Apply the rules to one chunk."""
        given, columns, carried = self._given, self._columns, self._carried
        closed = self._clock.closed_at_commit
        readings, table = _made(Readings, tables[0]), tables[0]
        lettered, letters = table["lettered"], readings.where(table["lettered"])
        open_from = table["open_from"][~lettered]
        arrivals = arrivals_of(readings.where(~lettered), open_from, closed, given.committed, columns)
        rows = _made(OutputRows, tables[1])
        letter_step = letters.event_time_ms // columns.step_ms[letters.model]
        keys = Keys.over(
            given.partition, columns, arrivals.step, rows.step, letter_step, carried.speakers.step, carried.heard_step
        )
        row_key = keys.of(rows.group, rows.sensor, rows.step)
        letter_key = distinct(keys.of(letters.group, letters.sensor, letter_step))
        demanding = arrivals.where(given.judged.holds(arrivals.step, arrivals.readings.model))
        expected = expected_rows(demanding, keys)
        heard = distinct(
            np.append(
                carried.heard_cell * keys.span + (carried.heard_step - keys.base), slow_sensors_heard(arrivals, keys)
            )
        )
        self._note_needed(arrivals)

        found = self._judge_values(expected, letter_key, rows, row_key, keys)
        found.problems["holes_not_final"] = check_finals(heard, closed, rows, row_key, keys, examples=self._examples)
        found.add(check_duplicates(expected, rows, row_key, keys, fallbacks=self._fallbacks, examples=self._examples))
        found.add(
            check_silence(
                expected, carried.speakers, np.minimum(closed, given.judged.end), row_key, keys,
                bounds=bounds, committed=given.committed, examples=self._examples,
            )
        )  # fmt: skip
        if given.complete:
            read = distinct(
                np.append(keys.of(arrivals.readings.group, arrivals.readings.sensor, arrivals.step), letter_key)
            )
            found.problems["invented"] = check_invented(read, rows, row_key, keys, examples=self._examples)
        spoken = carried.spoken
        if judged_groups is not None:
            spoken = Spoken.of(arrivals, judged_groups, carried.spoken)
            due = expected_outages(spoken, closed, columns, bounds=bounds, judged=given.judged)
            found.add(
                check_outages(
                    self._announced(tables[2]), due, judged_groups, columns,
                    partition=given.partition, all_committed=given.committed == given.end, examples=self._examples,
                )
            )  # fmt: skip

        group, step = bounds.upper
        goes_on = (keys.cell(heard) // columns.width == group) & (keys.step(heard) >= step)
        self._carried = _Carried(
            last_speakers(expected, carried.speakers, keys, group=group, committed=given.committed),
            keys.cell(heard)[goes_on],
            keys.step(heard)[goes_on],
            spoken.last_of(group),
        )
        return found

    def _judge_values(
        self, expected: Expected, letter_key: Ints, rows: OutputRows, row_key: Ints, keys: Keys
    ) -> Findings:
        """The rules of observed rows."""
        given = self._given
        found = is_among(expected.key, distinct(row_key[rows.observed]))
        judged = np.ones(len(found), np.bool_)
        if given.judge_until is not None:
            judged = expected.first_offset < given.judge_until
        closed = keys.step(expected.key) < self._clock.closed_at_commit[keys.model(expected.key)]
        comparable = judged & found & (expected.last_offset < given.committed)
        comparable &= surely_whole(expected, None if given.complete else self._start.newest_ms, keys)
        # The windows may have taken some readings that became letters.
        comparable &= ~is_among(expected.key, letter_key)
        findings = check_presence(
            expected, found, judged, closed, keys, committed=given.committed, examples=self._examples
        )
        findings.problems["wrong"] = check_values(expected, comparable, rows, row_key, keys, examples=self._examples)
        return findings

    def _note_needed(self, arrivals: Arrivals) -> None:
        needed = needed_by_windows(arrivals, self._columns)
        if needed is not None:
            self._needed = needed if self._needed is None else min(self._needed, needed)

    def _kind(self, kind: str) -> int:
        return self._kinds.setdefault(kind, len(self._kinds))

    def _announced(self, table: Columns) -> set[OutageEvent]:
        kinds = list(self._kinds)
        columns = (table[name].tolist() for name in ("ts_ms", "group", "kind"))
        return {OutageEvent(ts_ms, group, kinds[kind]) for ts_ms, group, kind in zip(*columns, strict=True)}

    def _add(self, found: Findings) -> None:
        """Add the findings of a chunk; the examples kept are the first ones of all chunks in the rule's order."""
        self._found.add(found)
        for name, finding in self._found.problems.items():
            rank = self._by_time if name.startswith("outages_") else self._by_sensor
            finding.first = sorted(finding.first, key=rank)[: self._examples]

    def _extend(self, whole: Finding, finding: Finding) -> None:
        whole.count += finding.count
        whole.first = (whole.first + finding.first)[: self._examples]

    def _by_sensor(self, offence: Offence) -> tuple[int, int, int]:
        group = self._columns.index.group(offence.group or "")
        model = int(self._columns.model_of_group()[group])
        return group, self._columns.sensor_row(model, offence.sensor or ""), offence.ts_ms or 0

    def _by_time(self, offence: Offence) -> tuple[int, int]:
        return offence.ts_ms or 0, self._columns.index.group(offence.group or "")


def _columns(table: Readings | OutputRows) -> Columns:
    return {each.name: getattr(table, each.name) for each in fields(table)}


def _made(kind: type[_Table], columns: Columns) -> _Table:
    return kind(**{each.name: columns[each.name] for each in fields(kind)})
