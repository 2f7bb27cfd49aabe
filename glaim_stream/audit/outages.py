"""Compares the outages that follow from the readings with the events on the outage topic. Pure.

The worker finds outages whenever a step closes. The audit knows all observed steps of a group at once: the group
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

from glaim_stream.audit.arrivals import Arrivals
from glaim_stream.audit.keys import Bools, Ints
from glaim_stream.audit.model_columns import ModelColumns
from glaim_stream.audit.report import Finding, Findings, Offence
from glaim_stream.decode.readings import Readings
from glaim_stream.errors import SettingsError
from glaim_stream.times import moment_ms


class _Message(msgspec.Struct):
    group: str
    kind: str
    ts: str
    by_clock: bool


@dataclass(frozen=True, order=True, slots=True)
class OutageEvent:
    """An event caused by event time: a group goes `dark` or `speaks`."""

    ts_ms: int
    group: int  # code
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
    arrivals: Arrivals,
    columns: ModelColumns,
    *,
    partition: int,
    all_committed: bool,
    examples: int,
) -> Findings:
    """Compare the announced events with those that follow from the readings.

    Args:
        announced: events of the outage topic.
        arrivals: the readings.
        columns: the catalogue.
        partition: number of the partition.
        all_committed: the whole input was processed; if not, a reading above the commit may cause an event.
        examples: maximum number of offences per finding.
    """
    used = arrivals.usable & arrivals.committed
    readings, on_time = arrivals.readings.where(used), arrivals.on_time[used]
    judged = judged_groups(readings, on_time)
    expected = expected_outages(readings, arrivals.step[used], judged, arrivals.closed_at_commit, columns)
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
    readings: Readings, step: Ints, judged: Ints, closed: Ints, columns: ModelColumns
) -> set[OutageEvent]:
    """Derive the events that the readings of one partition must have caused.

    Args:
        readings: all readings with a value that a worker has put into windows.
        step: step of each reading, int64 [n].
        judged: codes of the groups to audit.
        closed: int64 [models]; steps below it are closed.
        columns: the catalogue.
    """
    chosen = np.isin(readings.group, judged)
    if not chosen.any():
        return set()
    group, observed_step = np.unique(np.stack([readings.group[chosen].astype(np.int64), step[chosen]]), axis=1)
    model = columns.model_of_group()[group]
    dark_after = columns.max_gap[model] + 1  # steps
    first = np.append(True, group[1:] != group[:-1])
    last = np.append(first[1:], True)
    next_observed = np.append(observed_step[1:], 0)
    goes_dark = last | (next_observed - observed_step > dark_after)
    speaks = first | np.append(False, goes_dark[:-1])
    out: set[OutageEvent] = set()
    for kind, which, at in (("speaks", speaks, observed_step), ("dark", goes_dark, observed_step + dark_after)):
        due = which & (at < closed[model])
        ts_ms = at * columns.step_ms[model]
        out |= {OutageEvent(*each, kind) for each in zip(ts_ms[due].tolist(), group[due].tolist(), strict=True)}
    return out


def judged_groups(readings: Readings, on_time: Bools) -> Ints:
    """Codes of the groups without late readings and without readings requeued from the dead letters."""
    doubtful = np.unique(readings.group[~on_time | readings.requeued])
    return np.setdiff1d(np.unique(readings.group), doubtful).astype(np.int64)


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
