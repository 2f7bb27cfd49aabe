"""Series through the windows of a worker: the events that it would publish about the health of their sensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glaim_stream.core.catalogue import Catalogue, parse_catalogue
from glaim_stream.core.readings import Readings
from glaim_stream.health import Event, GridSeries, Habits, LiveHabits
from glaim_stream.windows import PartitionWindows, SensorEvent, history_steps

WINDOW = 96
LOOK_BACK = history_steps(WINDOW, scored=True) + WINDOW  # steps before those that are scored
_BATCH = 4096  # steps that are fed at once


def found_live(habits: Habits, series: GridSeries, warm_up: int, sensors: Sequence[str]) -> list[Event]:
    """Return the beginnings that a worker publishes for a series, in the order of time.

    Args:
        habits: habits of the sensors; they may not know the group.
        series: the readings; each arrives before the next step ends.
        warm_up: number of first steps whose events do not count; those before the last LOOK_BACK of them are left out.
        sensors: names of the sensors.
    """
    live = LiveHabits(habits)
    windows = PartitionWindows(_catalogue(series), group_names=[series.group], habits=lambda model: live)
    windows.rebuilding = True  # no rows are needed, and the events are the same
    start = max(0, warm_up - LOOK_BACK)
    found = list[SensorEvent]()
    for first in range(start, series.steps, _BATCH):
        given = _readings(series, first, min(first + _BATCH, series.steps))
        found += windows.feed(given, arrival_ms=0).health
    from_ms = (series.first + warm_up) * series.step_ms
    return [
        Event(
            each.kind,
            series.group,
            tuple(sensors[place] for place in each.sensors),
            each.ts_ms if each.since_ms is None else each.since_ms,
            each.ts_ms,
            each.statistic / each.threshold,
        )
        for each in found
        if each.kind is not None and each.ts_ms >= from_ms
    ]


def _catalogue(series: GridSeries) -> Catalogue:
    model = {
        "name": "m",
        "sensors": [{"id": f"s{number}"} for number in range(len(series.values))],
        "step_s": series.step_ms / 1000,
        "window": WINDOW,
        "lateness_s": 0,
        "max_gap": 48,
        "revise_after": 8,
    }
    return parse_catalogue({"models": [model], "groups": [{"model": "m", "pattern": "*"}]}, source="health_live")


def _readings(series: GridSeries, start: int, end: int) -> Readings:
    """The readings of some steps in the order of time."""
    step, sensor = np.nonzero(series.observed[:, start:end].T)
    step += start
    count = len(step)
    time_ms = (series.first + step) * series.step_ms
    if series.offset is not None:
        time_ms += np.rint((series.offset[sensor, step] + 0.5) * (series.step_ms - 1)).astype(np.int64)
    order = np.argsort(time_ms, kind="stable")
    sensor, step, time_ms = sensor[order], step[order], time_ms[order]
    none = np.zeros(count, np.int32)
    return Readings(
        none, none, sensor.astype(np.int32), time_ms, series.values[sensor, step], np.arange(count) + start, none,
        none.astype(np.int8), time_ms, none.astype(np.bool_),
    )  # fmt: skip
