"""Axes other than dates: depths of a well log, or seconds since the start of a measurement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import NO_TIME
from glaim_stream.files.numbers import floats_of
from glaim_stream.files.stamps import Stamps
from glaim_stream.files.times import Times

_ELAPSED = re.compile(
    r"^(elapsed|time|t|seconds?|secs?|s|minutes?|hours?|zeit|elapsed[ _]time|time[ _]elapsed)([ _]*[\[(/_ ].*)?$", re.I
)
_UNIT = re.compile(r"[\[(/]\s*([A-Za-zµ]+)\s*[\])]?$")


def elapsed_column(numbers: Mapping[str, Any]) -> str:
    """The column that counts from the start of a measurement, found by its name and numbers; "" without one."""
    for column, cells in numbers.items():
        if _ELAPSED.match(column.strip()):
            values = floats_of(cells)
            if len(values) > 1 and bool((np.diff(values) > 0).all()):  # comparisons with NaN are false
                return column
    return ""


def unit_in(column: str) -> str:
    """The unit in the name of a column, such as `Time (s)`; "" without one."""
    found = _UNIT.search(column.strip())
    return found[1] if found else ""


def along_axis(numbers: Mapping[str, Any], column: str, name: str) -> tuple[Times, Stamps, tuple[float, float]]:
    """Depths or elapsed times as times: the least one is time 0, and d units take 1000 d milliseconds.

    Also returns the depth at time 0, and the depth per millisecond.

    Raises:
        SettingsError: the column holds fewer than two depths.
    """
    cells = numbers.get(column)
    depth = np.empty(0) if cells is None else floats_of(cells)
    known = np.isfinite(depth)
    steps = np.diff(np.unique(depth[known]))
    if not len(steps):
        raise SettingsError(f"{name}: expected depths in the column {column!r}, found no two different ones")
    step, least = float(np.median(steps)), float(depth[known].min())
    step_ms = max(1, round(1000 * step))
    ms = np.full(len(depth), NO_TIME, np.int64)
    ms[known] = np.rint((depth[known] - least) / step * step_ms)
    return Times(column, (column,), ()), Stamps(ms, True, "depth"), (least, step / step_ms)
