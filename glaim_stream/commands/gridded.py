"""Readings as series on an even grid, with the place of each stamp in its step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError
from glaim_stream.files import Grid, put
from glaim_stream.health import GridSeries

Ints = NDArray[np.int64]

MOST_CELLS = 200_000_000  # cells of all series: 8 bytes for a value, 8 for its stamp's place and 1 for its mask


@dataclass(frozen=True)
class Gridded:
    """Series of all groups, each with all sensors.

    shared: number of readings whose step had a later reading of the same sensor.
    """

    sensors: tuple[str, ...]
    groups: list[GridSeries]
    shared: int


def gridded(
    cells: Sequence[tuple[str, str]], cell: NDArray[np.int32], time_ms: Ints, value: NDArray[np.floating], step_ms: int
) -> Gridded:
    """Place readings on a grid on which each sensor's usual stamp is the middle of a step.

    So stamps that jitter around their usual place do not fall into the neighbouring step, and the place of a stamp is
    its distance from the usual one.

    Args:
        cells: group and sensor of each cell code.
        cell: int32 [n], cell codes.
        time_ms: int64 [n], epoch milliseconds.
        value: float [n].
        step_ms: distance of two steps.

    Raises:
        SettingsError: there is no reading, or the series have more than MOST_CELLS cells.
    """
    if not len(cell):
        raise SettingsError("expected readings, found none")
    sensors = tuple(dict.fromkeys(sensor for _, sensor in cells))
    names = tuple(dict.fromkeys(group for group, _ in cells))
    moved = time_ms - _usual_offset(cell, time_ms, step_ms, len(cells))[cell] + step_ms // 2
    grid = Grid.streamed(moved, step_ms)
    shape = (len(names) * len(sensors), grid.steps)
    if shape[0] * shape[1] > MOST_CELLS:
        raise SettingsError(
            f"{len(names):,} groups of {len(sensors):,} sensors in {grid.steps:,} steps of {step_ms:,} ms are more "
            f"than {MOST_CELLS:,} cells: choose a time with --since and --until, or correct the times"
        )
    row = np.array([names.index(group) * len(sensors) + sensors.index(sensor) for group, sensor in cells], np.int64)
    order = np.argsort(time_ms, kind="stable")  # the latest reading of a step counts
    place = row[cell[order]], grid.rows[order]
    values, observed, offset = np.zeros(shape), np.zeros(shape, np.bool_), np.zeros(shape)
    put(values, place, value[order].astype(np.float64))
    observed[place] = True
    put(offset, place, (moved[order] % step_ms - step_ms // 2) / step_ms)
    first, groups = grid.start_ms // step_ms, []
    for number, name in enumerate(names):
        mine = slice(number * len(sensors), (number + 1) * len(sensors))
        groups.append(GridSeries(name, first, step_ms, values[mine], observed[mine], offset[mine]))
    return Gridded(sensors, groups, len(cell) - int(observed.sum()))


def _usual_offset(cell: NDArray[np.int32], time_ms: Ints, step_ms: int, count: int) -> Ints:
    """The usual distance of each cell's stamps from a multiple of the step, int64 [cells]: their mean on a circle."""
    angle = 2 * np.pi * (time_ms % step_ms) / step_ms
    east, north = (np.bincount(cell, each, count) for each in (np.cos(angle), np.sin(angle)))
    usual: Ints = np.rint(np.arctan2(north, east) / (2 * np.pi) * step_ms).astype(np.int64)
    return usual
