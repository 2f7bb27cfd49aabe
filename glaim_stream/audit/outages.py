"""Which groups must have been told dark and speaking again, held against the outage topic. Pure.

The worker looks at its windows whenever a step closes. Here the steps at which a group was heard are known at once:
it speaks at the first of them, is dark `max_gap` + 1 steps after one that no other follows by then, and speaks again
at the next. Judged are groups all of whose readings came before their step closed: a late one may put an event off, or
take it back, and by how much depends on when it came. What the wall clock claimed (`by_clock`) is no function of the
topic and is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from glaim_stream.audit.columns import Cells
from glaim_stream.audit.report import Finding, Offence
from glaim_stream.decode.readings import Readings
from glaim_stream.errors import SettingsError
from glaim_stream.times import moment_ms

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class _Event(msgspec.Struct):
    group: str
    kind: str
    ts: str
    by_clock: bool


@dataclass(frozen=True, order=True, slots=True)
class Told:
    """An event of the outage topic that event time brought about, or must have."""

    ts_ms: int
    group: int  # code
    kind: str


def told_outages(messages: Iterable[bytes | None], cells: Cells) -> set[Told]:
    """Events by event time among messages of the outage topic; those of others are passed over."""
    decoder = msgspec.json.Decoder(_Event)
    told = set()
    for message in messages:
        try:
            event = decoder.decode(message or b"")
            ts_ms = moment_ms(event.ts)
        except (msgspec.MsgspecError, UnicodeError, SettingsError):
            continue
        group = cells.index.group(event.group)
        if group >= 0 and not event.by_clock:
            told.add(Told(ts_ms, group, event.kind))
    return told


def expected_outages(readings: Readings, step: Ints, on_time: Bools, closable: Ints, cells: Cells) -> set[Told]:
    """Events that the readings of one partition must have brought about, of the groups that `judged_groups` names.

    Args:
        readings: all that a worker has put into windows, with a value.
        step: of each, int64 [n].
        on_time: it came before its step closed, bool [n].
        closable: steps below it are closed, int64 by model.
        cells: the catalogue.
    """
    judged = judged_groups(readings, on_time)
    chosen = np.isin(readings.group, judged)
    if not chosen.any():
        return set()
    pairs = np.unique(np.stack([readings.group[chosen].astype(np.int64), step[chosen]]), axis=1)
    group, heard = pairs
    model = cells.model_of_group()[group]
    patience = cells.max_gap[model] + 1
    first = np.append(True, group[1:] != group[:-1])
    after = np.append(heard[1:], 0)
    last = np.append(first[1:], True)
    silent = last | (after - heard > patience)  # nothing follows in time
    speaks = first | np.append(False, silent[:-1])
    out: set[Told] = set()
    for kind, which, at in (("speaks", speaks, heard), ("dark", silent, heard + patience)):
        which = which & (at < closable[model])
        ts_ms = at * cells.step_ms[model]
        out |= {Told(*each, kind) for each in zip(ts_ms[which].tolist(), group[which].tolist(), strict=True)}
    return out


def judged_groups(readings: Readings, on_time: Bools) -> Ints:
    """Codes of the groups of which no reading came late or was sent back from the dead letters."""
    doubtful = np.unique(readings.group[~on_time | readings.requeued])
    return np.setdiff1d(np.unique(readings.group), doubtful).astype(np.int64)


def outage_findings(
    expected: set[Told], told: set[Told], judged: Ints, cells: Cells, *, partition: int, whole: bool, examples: int
) -> dict[str, Finding]:
    """What is absent and, where all of the input was worked on (`whole`), what no reading explains."""
    codes = set(judged.tolist())
    absent = sorted(expected - told)
    invented = sorted(each for each in told - expected if each.group in codes) if whole else []
    return {
        "outages_absent": _finding(absent, "the outage topic does not say that it %s", cells, partition, examples),
        "outages_invented": _finding(invented, "the outage topic says that it %s", cells, partition, examples),
    }


def _finding(events: Sequence[Told], detail: str, cells: Cells, partition: int, examples: int) -> Finding:
    words = {"dark": "went dark", "speaks": "speaks"}
    first = [
        Offence(
            partition, cells.index.names[each.group], "", each.ts_ms, detail=detail % words.get(each.kind, each.kind)
        )
        for each in events[:examples]
    ]
    return Finding(len(events), first)
