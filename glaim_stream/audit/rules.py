"""What a partition's input promises, held against its output. Pure; deliberately not the worker's own windows.

The worker walks through time with ring buffers. Here everything is known at once, so each rule is a sort and a
comparison of columns: two ways to the same truth, of which one is short enough to be believed.

Two offsets decide what can be asked. Below the group's commit everything must be answered; what lies at or after it
is `pending`. Event time up to the commit, less the allowed lateness, closes steps; what is not closed is `open`.
"""

from __future__ import annotations

import numpy as np

from glaim_stream.audit.books import PartitionBooks
from glaim_stream.audit.columns import UNTOLD_MS
from glaim_stream.audit.keys import Bools, Expected, Ints, PartitionAudit, among, distinct, ramps, starts
from glaim_stream.times import text_of_ms
from glaim_stream.vocabulary import QUALITIES, UPGRADED, Method
from glaim_stream.windows.clock import NEVER_MS
from glaim_stream.windows.history import HORIZON


class PartitionRules(PartitionBooks):
    """Audits one partition."""

    def run(self) -> PartitionAudit:
        """Apply every rule."""
        given, readings, cells = self._given, self._readings, self._cells
        # A reading stamped ahead of its record moves the clock no further than the record's own time.
        newest_ms = np.maximum.accumulate(np.minimum(readings.event_time_ms, readings.produced_ms))
        done = readings.offset < self._committed
        horizon_ms = int(newest_ms[done][-1]) if done.any() else NEVER_MS
        closable = (newest_ms - cells.lateness_ms[readings.model]) // cells.step_ms[readings.model]
        too_late = self._step < closable - cells.window[readings.model]
        self._closable = (horizon_ms - cells.lateness_ms) // cells.step_ms  # by model, at the commit
        self._letters_of(too_late & done)
        self._commit_of(readings, done & ~too_late)
        usable = ~too_late & ~np.isnan(readings.value)
        expected = self._expected(usable, self._step >= closable)
        cadence = cells.cadence[readings.model, readings.sensor]
        hole_at = self._step // cadence * cadence + cadence - 1  # where the hole of its interval would lie
        in_time = usable & (cadence > 1) & (hole_at >= closable)
        self._read_in_time = distinct(self._key(readings.group, readings.sensor, hole_at)[in_time])
        self._count(readings=len(given.readings), dropouts=int(np.isnan(given.readings.value).sum()))
        self._presence_and_value(expected)
        self._doubled(expected)
        self._holes(expected)
        if given.complete:
            self._invented(expected)
            self._outages(usable & done, self._step >= closable)
        return self.audit

    def _presence_and_value(self, expected: Expected) -> None:
        given, rows = self._given, self._given.rows
        key = self._key(rows.group, rows.sensor, rows.step)
        newest = np.lexsort((np.arange(len(key)), rows.revision, key))
        last = np.append(starts(key[newest])[1:], len(key))[: len(key)] - 1 if len(key) else np.empty(0, np.int64)
        newest = newest[last]  # the last word on each key, keys ascending
        seen = distinct(key[rows.observed])
        found = among(expected.key, seen)
        judged = np.ones(len(found), np.bool_)
        if given.judge_until is not None:
            judged = expected.first_offset < given.judge_until
        processed = expected.first_offset < self._committed
        closed = self._step_of(expected.key) < self._closable[self._model_of(expected.key)]
        missing = judged & processed & closed & ~found
        self._problem("missing", int(missing.sum()), self._keys(expected, missing, "no observed row in the output"))
        self._count(
            keys=int(judged.sum()),
            found=int((judged & found).sum()),
            open=int((judged & ~found & processed & ~closed).sum()),
            pending=int((judged & ~found & ~processed).sum()),
        )
        sure = judged & found & (expected.last_offset < self._committed) & self._surely_whole(expected)
        faulted = self._key(
            self._lettered.group,
            self._lettered.sensor,
            self._lettered.event_time_ms // self._cells.step_ms[self._lettered.model],
        )
        sure &= ~among(expected.key, distinct(faulted))  # its windows may have taken some of its readings
        place = np.searchsorted(key[newest], expected.key[sure])
        row = newest[place]
        told, value = rows.value[row], expected.value[sure]
        same = (told == value) | (expected.mean[sure] & np.isclose(told, value, rtol=1e-6, atol=0))
        stamp_ms, quality = rows.stamp_ms[row], rows.quality[row]
        same &= (stamp_ms == UNTOLD_MS) | ((stamp_ms == expected.stamp_ms[sure]) & (quality == expected.quality[sure]))
        wrong = np.zeros(len(found), np.bool_)
        wrong[sure] = ~same | ~rows.observed[row]
        place = np.cumsum(sure) - 1
        self._problem(
            "wrong",
            int(wrong.sum()),
            [
                self._offence(
                    int(expected.key[each]),
                    int(expected.first_offset[each]),
                    f"input gives {_said(expected.value[each], expected.stamp_ms[each], expected.quality[each])}, "
                    f"the newest row says {_said(told[place[each]], stamp_ms[place[each]], quality[place[each]])}",
                )
                for each in np.flatnonzero(wrong)[: self._examples].tolist()
            ],
        )

    def _doubled(self, expected: Expected) -> None:
        """Rows of one (group, sensor, ts, revision) must be the same; the later one wins where they may differ."""
        rows = self._given.rows
        self._count(rows=len(rows))
        if len(rows) == 0:
            return
        key = self._key(rows.group, rows.sensor, rows.step)
        order = np.lexsort((np.arange(len(key)), rows.revision, key))
        same = (np.diff(key[order]) == 0) & (np.diff(rows.revision[order]) == 0)
        earlier, later = order[:-1][same], order[1:][same]
        resolution = self._cells.resolution[rows.model[earlier], rows.sensor[earlier]]
        near = np.abs(rows.value[earlier].astype(np.float64) - rows.value[later])
        close = near <= np.where(resolution > 0, resolution * 1.001, 1e-5 * np.abs(rows.value[later]))
        close |= near <= np.abs(np.spacing(rows.value[later]))
        equal = (rows.value[earlier] == rows.value[later]) | (
            np.isnan(rows.value[earlier]) & np.isnan(rows.value[later])
        )
        alike = np.where(rows.observed[earlier], equal, equal | close)
        for column in (rows.observed, rows.final, rows.gap_age):
            alike &= column[earlier] == column[later]
        untold = (rows.stamp_ms[earlier] == UNTOLD_MS) | (rows.stamp_ms[later] == UNTOLD_MS)
        alike &= untold | (rows.stamp_ms[earlier] == rows.stamp_ms[later])
        alike &= untold | (rows.quality[earlier] == rows.quality[later])
        differs = np.flatnonzero(~alike)
        earlier, later = earlier[differs], later[differs]
        # A step that the wall clock closed is not a function of the topic: a worker that reads the topic again closes
        # it by event time, and what follows for that key counts differently.
        by_clock = ~rows.final[earlier] | ~rows.final[later]
        by_clock |= np.isin(key[earlier], key[earlier][by_clock])
        # The same for readings: the clock may publish a step before its last reading.
        by_clock |= rows.observed[earlier] & rows.observed[later] & self._both_read(expected, key, earlier, later)
        imputed = ~rows.observed[earlier] & ~rows.observed[later]
        other_method = ~by_clock & imputed & (rows.method[earlier] != rows.method[later])
        other_method |= ~by_clock & imputed & self._otherwise_filled(earlier, later)
        conflicting = ~by_clock & ~other_method
        self._count(
            identical_duplicates=int(alike.sum()),
            closed_by_clock_duplicates=int(by_clock.sum()),
            other_method_duplicates=int(other_method.sum()),
        )
        self._problem(
            "conflicting",
            int(conflicting.sum()),
            [
                self._offence(
                    int(key[first]),
                    None,
                    f"revision {int(rows.revision[first])} says {float(rows.value[first])!r} "
                    f"and {float(rows.value[second])!r}",
                )
                for first, second in zip(
                    earlier[conflicting][: self._examples].tolist(),
                    later[conflicting][: self._examples].tolist(),
                    strict=True,
                )
            ],
        )

    def _otherwise_filled(self, earlier: Ints, later: Ints) -> Bools:
        """Where imputed rows may differ though their methods are called alike.

        An upgrade is made when the model is back, which is not in the topic. And a blend's weights follow from the
        model's errors of the last HORIZON steps: while a lower rung stood in they were not known, and a rebuild knows
        them.
        """
        rows = self._given.rows
        out: Bools = np.equal(rows.revision[later], UPGRADED)
        mixed = np.flatnonzero((rows.method[earlier] == Method.BLEND) & (rows.method[later] == Method.BLEND))
        stood_in = np.isin(rows.method, (Method.INTERPOLATION, Method.LAST_VALUE))
        for model in np.unique(rows.model[later[mixed]]).tolist():
            steps = np.unique(rows.step[stood_in & (rows.model == model)])
            here = mixed[rows.model[later[mixed]] == model]
            step = rows.step[later[here]]
            first = step - HORIZON - int(self._cells.window[model])
            last = step + int(self._cells.revise_after[model])
            out[here] |= np.searchsorted(steps, last, side="right") > np.searchsorted(steps, first)
        return out

    def _both_read(self, expected: Expected, key: Ints, earlier: Ints, later: Ints) -> Bools:
        """Where both values are readings of a key that has several (or its means)."""
        rows = self._given.rows
        out = np.zeros(len(earlier), np.bool_)
        place = np.searchsorted(expected.key, key[earlier])
        for each, at in enumerate(place.tolist()):
            if at < len(expected.key) and expected.key[at] == key[earlier[each]] and expected.count[at] > 1:
                start = int(expected.start[at])
                readings = expected.sorted_value[start : start + int(expected.count[at])]
                told = rows.value[[earlier[each], later[each]]]
                out[each] = bool(expected.mean[at]) or bool(np.isin(told, readings).all())
        return out

    def _holes(self, expected: Expected) -> None:
        """Each step at which a sensor was silent has a row, and a final one once its right context is there."""
        rows, cells = self._given.rows, self._cells
        key = self._key(rows.group, rows.sensor, rows.step)
        due = rows.step + cells.revise_after[rows.model] < self._closable[rows.model]
        waiting = distinct(key[~rows.final & ~rows.observed & due])
        waiting = waiting[~among(waiting, distinct(key[rows.final]))]
        # The wall clock may have called a slow sensor silent before its reading came: event time knows of no hole.
        waiting = waiting[~among(waiting, self._read_in_time)]
        self._problem(
            "holes_not_final",
            len(waiting),
            [
                self._offence(each, None, "a provisional row and no final one")
                for each in waiting[: self._examples].tolist()
            ],
        )
        if len(expected.key) == 0:
            return
        # From a reading that came in time, a sensor's next max_gap steps have rows: its group is alive that long.
        step, model = self._step_of(expected.key), self._model_of(expected.key)
        until = np.append(np.where(np.diff(self._cell_of(expected.key)) == 0, step[1:], np.iinfo(np.int64).max), 0)
        until[-1] = np.iinfo(np.int64).max
        until = np.minimum(np.minimum(until, self._closable[model]), step + 1 + cells.max_gap[model])
        known = expected.on_time & (expected.first_offset < self._committed)
        silent = np.where(known, np.maximum(until - step - 1, 0), 0)
        gap = 1 + ramps(silent)
        silent_key = np.repeat(expected.key, silent) + gap
        cell = self._cell_of(silent_key)
        cadence = cells.cadence[self._model_of(silent_key), cell % cells.width]
        silent_key = silent_key[((self._step_of(silent_key) + 1) % cadence == 0) & (gap >= cadence)]
        absent = silent_key[~among(silent_key, distinct(key))]
        self._count(silent_steps=len(silent_key))
        self._problem(
            "holes_absent",
            len(absent),
            [self._offence(each, None, "a silent sensor without a row") for each in absent[: self._examples].tolist()],
        )

    def _invented(self, expected: Expected) -> None:
        """An observed row must come from a reading, be it one that became a dead letter as well."""
        rows = self._given.rows
        key = self._key(rows.group, rows.sensor, rows.step)
        every = self._given.readings
        read = distinct(self._key(every.group, every.sensor, every.event_time_ms // self._cells.step_ms[every.model]))
        stray = distinct(key[rows.observed])
        stray = stray[~among(stray, read)]
        self._problem(
            "invented",
            len(stray),
            [
                self._offence(each, None, "an observed row without a reading")
                for each in stray[: self._examples].tolist()
            ],
        )


def _said(value: np.float32, stamp_ms: np.int64, quality: np.int8) -> str:
    """What stands for a step, in words."""
    time = "no time" if stamp_ms == UNTOLD_MS else text_of_ms(int(stamp_ms))
    return f"{float(value)!r} ({QUALITIES[quality]}, {time})"
