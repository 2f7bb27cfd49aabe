"""Compares the outages that follow from the readings with the events on the outage topic. Pure.

The worker finds outages whenever a step closes. The audit sees the observed steps of a group in order: the group
`speaks` at the first of them, goes `dark` `max_gap` + 1 steps after an observed step if none follows until then, and
`speaks` again at the next one. Only groups without late readings are audited, because a late reading may delay or
revoke an event, depending on when it arrived. Events of the wall clock (`by_clock`) do not follow from the topic and
are not audited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import moment_ms
from glaim_stream.operate.audit.arrivals import Arrivals
from glaim_stream.operate.audit.chunks import Bounds
from glaim_stream.operate.audit.judged_steps import JudgedSteps
from glaim_stream.operate.audit.keys import Bools, Ints
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.report import Finding, Findings, Offence


class _Message(msgspec.Struct):
    group: str
    kind: str
    ts: str
    by_clock: bool


@dataclass(frozen=True, order=True, slots=True)
class OutageEvent:
    """An event caused by event time: a group goes `dark` or `speaks`."""

    ts_ms: int
    group: int  # group code
    kind: str


def read_outages(messages: Iterable[bytes | None], columns: ModelColumns) -> set[OutageEvent]:
    """Read the events caused by event time from messages of the outage topic; skip messages of other producers."""
    decoder = msgspec.json.Decoder(_Message)
    events = set()
    for message in messages:
        try:
            event = decoder.decode(message or b"")
            ts_ms = moment_ms(event.ts)
        except (msgspec.MsgspecError, UnicodeError, SettingsError):
            continue
        group = columns.index.group(event.group)
        if group >= 0 and not event.by_clock:
            events.add(OutageEvent(ts_ms, group, event.kind))
    return events


def check_outages(
    announced: set[OutageEvent],
    expected: set[OutageEvent],
    judged: Ints,
    columns: ModelColumns,
    *,
    partition: int,
    all_committed: bool,
    examples: int,
) -> Findings:
    """Compare the announced events with those that follow from the readings.

    Args:
        announced: events of the outage topic.
        expected: events from `expected_outages`.
        judged: codes of the groups to audit.
        columns: the catalogue.
        partition: number of the partition.
        all_committed: the whole input was processed; if not, a reading above the commit may cause an event.
        examples: maximum number of offences per finding.
    """
    absent = sorted(expected - announced)
    codes = set(judged.tolist())
    invented = sorted(each for each in announced - expected if each.group in codes) if all_committed else []
    return Findings(
        {"outages": len(announced), "outages_judged": len(expected)},
        {
            "outages_absent": _finding(absent, "no outage event: the group %s", columns, partition, examples),
            "outages_invented": _finding(
                invented, "no reading explains this event: the group %s", columns, partition, examples
            ),
        },
    )


def expected_outages(
    spoken: Spoken, closed: Ints, columns: ModelColumns, *, bounds: Bounds, judged: JudgedSteps
) -> set[OutageEvent]:
    """Derive the events that the readings of a chunk must have caused.

    Args:
        spoken: steps at which the groups to audit were observed, including those before the chunk.
        closed: int64 [models]; steps below it are closed.
        columns: the catalogue.
        bounds: bounds of the events that are due.
        judged: steps whose events are due.
    """
    group, step = spoken.group, spoken.step
    model = columns.model_of_group()[group]
    dark_after = columns.max_gap[model] + 1  # steps
    first = np.append(True, group[1:] != group[:-1])[: len(group)]
    last = np.append(first[1:], True)[: len(group)]
    next_observed = np.append(step[1:], 0)[: len(group)]
    goes_dark = last | (next_observed - step > dark_after)
    speaks = first | np.append(False, goes_dark[:-1])[: len(group)]
    out: set[OutageEvent] = set()
    for kind, which, at in (("speaks", speaks, step), ("dark", goes_dark, step + dark_after)):
        due = which & (at < closed[model]) & judged.holds(at, model)
        # An event beyond the chunk is due in a later one, unless a reading there revokes it.
        due &= (at >= bounds.first_step(group)) & (at < bounds.end_step(group))
        ts_ms = at * columns.step_ms[model]
        out |= {OutageEvent(*each, kind) for each in zip(ts_ms[due].tolist(), group[due].tolist(), strict=True)}
    return out


@dataclass(frozen=True, slots=True)
class Spoken:
    """Steps at which groups were observed: each pair once, ascending."""

    group: Ints
    step: Ints

    @classmethod
    def of(cls, arrivals: Arrivals, judged: Ints, before: Spoken | None = None) -> Spoken:
        """The steps of readings of the judged groups, after those `before`."""
        used = used_readings(arrivals) & np.isin(arrivals.readings.group, judged)
        pairs = np.stack([arrivals.readings.group[used].astype(np.int64), arrivals.step[used]])
        if before is not None:
            pairs = np.concatenate([np.stack([before.group, before.step]), pairs], axis=1)
        return cls(*np.unique(pairs, axis=1)) if pairs.shape[1] else cls(*pairs)

    def last_of(self, group: int) -> Spoken:
        """The last step of one group."""
        of_group = np.flatnonzero(self.group == group)[-1:]
        return Spoken(self.group[of_group], self.step[of_group])


def used_readings(arrivals: Arrivals) -> Bools:
    """True for readings that a worker has put into windows; bool [n]."""
    return arrivals.usable & arrivals.committed


class JudgedGroups:
    """The groups without late readings and without readings requeued from the dead letters."""

    def __init__(self) -> None:
        self._heard: set[int] = set()
        self._doubtful: set[int] = set()

    def add(self, arrivals: Arrivals) -> None:
        """Include the next readings."""
        used = used_readings(arrivals)
        group = arrivals.readings.group
        self._heard.update(np.unique(group[used]).tolist())
        doubtful = used & (~arrivals.on_time | arrivals.readings.requeued)
        self._doubtful.update(np.unique(group[doubtful]).tolist())

    @property
    def codes(self) -> Ints:
        """Codes of the groups, ascending."""
        return np.array(sorted(self._heard - self._doubtful), np.int64)


def _finding(
    events: Sequence[OutageEvent], detail: str, columns: ModelColumns, partition: int, examples: int
) -> Finding:
    verbs = {"dark": "went dark", "speaks": "became active"}
    first = [
        Offence(
            partition, columns.index.names[each.group], "", each.ts_ms, detail=detail % verbs.get(each.kind, each.kind)
        )
        for each in events[:examples]
    ]
    return Finding(len(events), first)
