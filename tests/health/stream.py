"""Series of the simulated plant as readings of a partition, fed to its windows, and the events of sensor health."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.readings import Readings
from glaim_stream.health.live import LiveHabits
from glaim_stream.health.series import GridSeries
from glaim_stream.windows import PartitionWindows, SensorEvent
from tests.health.plant import STEP_MS, habits, plant
from tests.support import catalogue


@lru_cache(maxsize=1)
def live_habits() -> LiveHabits:
    return LiveHabits(habits())


@lru_cache(maxsize=4)
def rules(window: int = 96, max_gap: int = 48) -> Catalogue:
    sensors = [{"id": name} for name in plant()[0]]
    return catalogue(
        sensors=sensors, groups="pump-*", window=window, step_s=60, lateness_s=120, max_gap=max_gap, revise_after=8
    )


def names() -> list[str]:
    return [each.group for each in plant()[1]]


def windows(*, known: LiveHabits | None = None) -> PartitionWindows:
    found = live_habits() if known is None else known
    return PartitionWindows(rules(), group_names=names(), habits=lambda model: found)


def readings(series: Sequence[GridSeries], order: NDArray[np.int64] | None = None, first_offset: int = 0) -> Readings:
    """One record a reading, in the order of time unless another order is given."""
    codes, values, after_ms = [], [], []
    for each in series:
        sensor, step = np.nonzero(each.observed)
        codes.append(np.stack([np.full(len(sensor), names().index(each.group)), sensor, step + each.first]))
        values.append(each.values[sensor, step])
        offset = np.zeros(each.values.shape) if each.offset is None else each.offset
        after_ms.append(np.rint(offset[sensor, step] * STEP_MS).astype(np.int64))
    (group, sensor, step), value = np.concatenate(codes, axis=1), np.concatenate(values)
    time_ms = step * STEP_MS + np.concatenate(after_ms)
    place = np.argsort(time_ms, kind="stable")
    if order is not None:
        place = place[order]
    count = len(place)
    time_ms = time_ms[place]
    none = np.zeros(count, np.int32)
    return Readings(
        none, group[place].astype(np.int32), sensor[place].astype(np.int32), time_ms, value[place],
        first_offset + np.arange(count), none, none.astype(np.int8), np.maximum.accumulate(time_ms),
        none.astype(np.bool_),
    )  # fmt: skip


def events_of(made: PartitionWindows, given: Readings, cuts: Iterable[int] = ()) -> list[SensorEvent]:
    """Feed readings in batches."""
    found: list[SensorEvent] = []
    for start, end in pairwise(sorted({0, len(given), *(cut for cut in cuts if cut < len(given))})):
        found += made.feed(given.where(np.arange(start, end)), arrival_ms=0).health
    return found


def described(event: SensorEvent) -> tuple[str, str, tuple[str, ...]]:
    kind = "end" if event.kind is None else str(event.kind)
    return event.detector, kind, tuple(plant()[0][place] for place in event.sensors)


def events_with_rebuild(given: Readings, split: int) -> list[SensorEvent]:
    """The events of readings where the windows are rebuilt before the reading `split`, which finds the same faults."""
    before = windows()
    early = events_of(before, given.where(np.arange(split)))
    rebuilt = windows()
    rebuilt.rebuilding = True
    events_of(rebuilt, given.where(np.arange(before.rebuild_from(split), split)))
    rebuilt.rebuilding = False
    assert rebuilt.faulty_sensors() == before.faulty_sensors()
    return early + events_of(rebuilt, given.where(np.arange(split, len(given))))
