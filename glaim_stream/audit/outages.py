"""The rule of outages: the groups that go dark and speak again, against the outage topic. Pure.

The worker looks at its windows whenever a step closes. Here the steps at which a group was heard are known at once:
it speaks at the first of them, is dark `max_gap` + 1 steps after one that no other follows by then, and speaks again
at the next. Only groups are judged all of whose readings came before their step closed: a late one may put an event
off, or take it back, and by how much depends on when it came. What the wall clock claimed (`by_clock`) is no function
of the topic and is not judged.
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
    """An event that event time brings about: a group goes `dark` or `speaks`."""

    ts_ms: int
    group: int  # code
    kind: str


def read_outages(messages: Iterable[bytes | None], columns: ModelColumns) -> set[OutageEvent]:
    """Events by event time among messages of the outage topic; messages of others are skipped."""
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
    """Hold the announced events against those that follow from the readings.

    Args:
        announced: events of the outage topic.
        arrivals: the readings.
        columns: the catalogue.
        partition: number of the partition.
        all_committed: the whole input was worked on; if not, an event may come from a reading above the commit.
        examples: the most offences of a finding.
    """
    heard = arrivals.usable & arrivals.committed
    readings, on_time = arrivals.readings.where(heard), arrivals.on_time[heard]
    judged = judged_groups(readings, on_time)
    expected = expected_outages(readings, arrivals.step[heard], judged, arrivals.closed_at_commit, columns)
    absent = sorted(expected - announced)
    codes = set(judged.tolist())
    invented = sorted(each for each in announced - expected if each.group in codes) if all_committed else []
    return Findings(
        {"outages": len(announced), "outages_judged": len(expected)},
        {
            "outages_absent": _finding(absent, "no event of the outage topic: it %s", columns, partition, examples),
            "outages_invented": _finding(
                invented, "an event that no reading explains: it %s", columns, partition, examples
            ),
        },
    )


def expected_outages(
    readings: Readings, step: Ints, judged: Ints, closed: Ints, columns: ModelColumns
) -> set[OutageEvent]:
    """Events that the readings of one partition must have brought about.

    Args:
        readings: all that a worker has put into windows, with a value.
        step: of each, int64 [n].
        judged: codes of the groups to look at.
        closed: [models] steps below it are closed.
        columns: the catalogue.
    """
    chosen = np.isin(readings.group, judged)
    if not chosen.any():
        return set()
    group, heard = np.unique(np.stack([readings.group[chosen].astype(np.int64), step[chosen]]), axis=1)
    model = columns.model_of_group()[group]
    patience = columns.max_gap[model] + 1
    first = np.append(True, group[1:] != group[:-1])
    last = np.append(first[1:], True)
    next_heard = np.append(heard[1:], 0)
    falls_silent = last | (next_heard - heard > patience)
    speaks = first | np.append(False, falls_silent[:-1])
    out: set[OutageEvent] = set()
    for kind, which, at in (("speaks", speaks, heard), ("dark", falls_silent, heard + patience)):
        due = which & (at < closed[model])
        ts_ms = at * columns.step_ms[model]
        out |= {OutageEvent(*each, kind) for each in zip(ts_ms[due].tolist(), group[due].tolist(), strict=True)}
    return out


def judged_groups(readings: Readings, on_time: Bools) -> Ints:
    """Codes of the groups of which no reading came late or was sent back from the dead letters."""
    doubtful = np.unique(readings.group[~on_time | readings.requeued])
    return np.setdiff1d(np.unique(readings.group), doubtful).astype(np.int64)


def _finding(
    events: Sequence[OutageEvent], detail: str, columns: ModelColumns, partition: int, examples: int
) -> Finding:
    verbs = {"dark": "went dark", "speaks": "speaks"}
    first = [
        Offence(
            partition, columns.index.names[each.group], "", each.ts_ms, detail=detail % verbs.get(each.kind, each.kind)
        )
        for each in events[:examples]
    ]
    return Finding(len(events), first)
