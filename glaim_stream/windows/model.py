"""The windows of one model's groups in one partition: the step that a reading goes into, and its corrections."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.angles import are_circles
from glaim_stream.core.budget import DEFAULT
from glaim_stream.core.catalogue import Model
from glaim_stream.core.readings import Readings
from glaim_stream.health import FEWEST_JUDGED_STEPS, LiveHabits, Plausibility, Range
from glaim_stream.windows.cadence import SlowSensors
from glaim_stream.windows.clock import ClosingOffsets
from glaim_stream.windows.closed import Closed, correct
from glaim_stream.windows.closing import OpenSteps
from glaim_stream.windows.history import error_steps
from glaim_stream.windows.holes import Rules
from glaim_stream.windows.probes import Prober, Sampling
from glaim_stream.windows.rings import ReadingCells, Rings
from glaim_stream.windows.sensor_health import HealthTracker

Ints = NDArray[np.int64]


class ModelWindows(OpenSteps):
    """The windows of one model's groups in one partition."""

    def __init__(
        self,
        model: Model,
        model_index: int,
        max_ahead_ms: int,
        *,
        shared_clock: bool,
        sampling: Sampling | None,
        clock_kept: bool = False,
        trained_range: Range | None = None,
        slice_bytes: int = DEFAULT.slice_bytes,
        habits: Callable[[str], LiveHabits | None] | None = None,
        group_names: Sequence[str] = (),
    ) -> None:
        """Start empty.

        Args:
            model: the window rules.
            model_index: index of the model in the catalogue.
            max_ahead_ms: greatest distance of a reading's time beyond the partition's newest event time.
            shared_clock: whether other models' readings move the clock too.
            sampling: choice of the groups to probe; None: no group. A rebuild has to repeat the probes of the last
                `error_steps`, so with probes offsets are remembered for longer.
            clock_kept: see Rules.
            trained_range: least and largest reading of each sensor in training, for judging readings; None: unknown.
            slice_bytes: size of the closed steps at which their rows are handed over.
            habits: gives the habits of a model's sensors, by which their health is judged; None: it is not judged.
            group_names: names by group code; may grow. Needed for sensor health only.
        """
        # A reading may lie this many steps beyond the newest closed one: lateness and skew rounded up, and one more.
        ahead = -(-(model.lateness_ms + max_ahead_ms) // model.step_ms) + 1
        judges_health = habits is not None and model.window >= FEWEST_JUDGED_STEPS
        rings = Rings(
            len(model.sensors),
            model.window,
            ahead,
            mean=model.bucket == "mean",
            directions=model.directions,
            offsets_back=error_steps(
                scored=sampling is not None or judges_health,
                quality=sampling is not None and sampling.quality,
            ),
        )
        judged = np.array([sensor.plausibility for sensor in model.sensors])
        rules = Rules(
            model.window,
            model.revise_after,
            model.max_gap,
            model.step_ms,
            model_index,
            Plausibility(judged, trained_range, _directions(model, trained_range)) if judged.any() else None,
            clock_kept,
        )
        cadences = np.array(model.cadences, np.int64)
        slow, health = None, None
        if (cadences > 1).any():
            slow = SlowSensors(rings, cadences, revise_after=model.revise_after, ahead=ahead, max_gap=model.max_gap)
        if habits is not None and judges_health:
            health = HealthTracker(rings, rules, partial(habits, model.name), group_names)
        super().__init__(
            rings,
            rules,
            lateness_ms=model.lateness_ms,
            idle_timeout_ms=round(model.idle_timeout_s * 1000),
            ahead=ahead,
            slow=slow,
            prober=None if sampling is None else Prober(rings, rules, sampling),
            health=health,
            slice_bytes=slice_bytes,
        )
        self.model, self.model_index = model, model_index
        self._closing_offsets = None
        if shared_clock:
            self._closing_offsets = ClosingOffsets(model.window, model.step_ms, model.lateness_ms)

    def feed(
        self, readings: Readings, newest_ms: Ints, all_newest_ms: Ints, all_offsets: Ints
    ) -> Generator[Closed | None, None, tuple[Closed | None, NDArray[np.bool_], int]]:
        """Apply a batch. When many steps close, their rows are yielded in slices of whole steps, possibly without rows.

        Args:
            readings: readings of this model, n of the batch's m.
            newest_ms: int64 [n], the partition's newest event time after each of them.
            all_newest_ms: int64 [m], the newest event time after every reading of the batch, of other models too.
            all_offsets: int64 [m], offset of every reading of the batch.

        Returns:
            The rows of the last slice, whether each reading was too late (bool [n]), and the number of superseded ones.
        """
        too_late = np.zeros(len(readings), np.bool_)
        if len(all_newest_ms) == 0:
            return None, too_late, 0
        first, last = self._closable(all_newest_ms[[0, -1]]).tolist()
        if self.rings.closable is None:
            self.rings.start(first)
        if self._closing_offsets is not None:
            self._closing_offsets.record(self.rings.closable or 0, last, all_newest_ms, all_offsets)
        superseded = 0
        parts: list[Closed | None] = []
        step = readings.event_time_ms // self.model.step_ms
        closable = self._closable(newest_ms)
        for start, end in _runs(closable):
            yield from self._close_until(int(closable[start]), parts)
            segment = slice(start, end)
            late = step[segment] < self.rings.oldest_step
            too_late[segment] = late
            corrections, unused = self._insert(readings, step, np.arange(start, end)[~late])
            superseded += unused
            parts += corrections
        yield from self._close_until(last, parts)
        return self._slice(parts), too_late, superseded

    def _insert(self, readings: Readings, step: Ints, chosen: Ints) -> tuple[list[Closed | None], int]:
        """Put readings into their steps.

        Returns:
            Rows for the cells of published steps that changed, and the number of readings that changed nothing.
        """
        rings = self.rings
        if len(chosen) == 0 or rings.closable is None:
            return [], 0
        rings.note_offsets(step[chosen], readings.offset[chosen])
        if self._closing_offsets is not None:
            closed = step[chosen][step[chosen] < rings.closable]
            rings.note_offsets(closed, self._closing_offsets.of(closed))
        row = rings.rows(readings.group[chosen])  # first of all, because rows are numbered in order of arrival
        empty = np.isnan(readings.value[chosen])
        if empty.any():
            rings.put_dropouts(row[empty], readings.sensor[chosen[empty]], step[chosen[empty]])
            chosen = chosen[~empty]
        late = step[chosen] < self._unpublished(rings.closable)
        superseded = len(chosen)
        open_cells = self._put(readings, step, chosen[~late])
        superseded -= open_cells.taken
        self._owed.add(open_cells.filled)
        corrections: list[Closed | None] = []
        # A cell that is corrected twice gets two rows, whether or not both readings arrived in one batch.
        for part in self._without_repeats(readings, step, chosen[late]):
            cells = self._put(readings, step, part)
            if self._judge is not None:
                self._judge.forget(cells.row)
            superseded -= cells.taken
            # A worker that starts with a corrected catalogue rebuilds its windows with readings that were rejected
            # before and appear in no row. When these are requeued they change nothing but have to be published.
            corrected = cells.where(cells.changed | readings.requeued[part])
            self._owed.correct(len(corrected.row))
            corrections.append(correct(rings, self.rules, corrected))
        return corrections, superseded

    def _put(self, readings: Readings, step: Ints, chosen: Ints) -> ReadingCells:
        return self.rings.put(
            self.rings.rows(readings.group[chosen]),
            readings.sensor[chosen],
            step[chosen],
            (readings.event_time_ms[chosen] - step[chosen] * self.model.step_ms).astype(np.int32),
            readings.value[chosen],
            readings.quality[chosen],
        )

    def _without_repeats(self, readings: Readings, step: Ints, chosen: Ints) -> Iterator[Ints]:
        """Cut the chosen readings into stretches in which each cell occurs once."""
        if len(chosen) == 0:
            return
        rows = self.rings.rows(readings.group[chosen])
        codes = self.rings.cell_codes(rows, readings.sensor[chosen], step[chosen])
        order = np.argsort(codes, kind="stable")
        again = codes[order[1:]] == codes[order[:-1]]
        before = np.full(len(codes), -1)
        before[order[1:][again]] = order[:-1][again]  # index of the previous reading of the same cell
        newest = np.maximum.accumulate(before)
        start = 0
        while start < len(chosen):
            end = int(np.searchsorted(newest, start))  # the first reading whose cell occurs in this stretch already
            yield chosen[start:end]
            start = end


def _directions(model: Model, trained_range: Range | None) -> NDArray[np.bool_] | None:
    """The sensors [C] that are directions in degrees, by their limits or their range in training; None: no sensor."""
    if trained_range is None:
        return model.directions
    found = are_circles(*trained_range)
    found = found if model.directions is None else found | model.directions
    return found if found.any() else None


def _runs(values: Ints) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each run of equal values."""
    if len(values) == 0:
        return
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    yield from zip([0, *edges.tolist()], [*edges.tolist(), len(values)], strict=True)
