"""Fills the holes of groups with a fit of their sensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError
from glaim_stream.form import LARGEST
from glaim_stream.tables.bands import bands
from glaim_stream.tables.choice import choose
from glaim_stream.tables.fitted import Fitted
from glaim_stream.tables.groups import FilledGroup, Group, Progress
from glaim_stream.tables.holes import Holes
from glaim_stream.tables.lines import lines

Bools = NDArray[np.bool_]

SILENT = "the sensor has no reading"
UNUSABLE = f"the sensor has no finite reading below {LARGEST:g}, or none that is believed"


def apply(
    fitted: Fitted, groups: Sequence[Group], *, max_gap: int | None = None, progress: Progress | None = None
) -> tuple[FilledGroup, ...]:
    """Fill groups.

    Args:
        fitted: fit of the same sensors.
        groups: series on even grids with the step of the fit.
        max_gap: longest gap in steps that is filled; see `glaim_stream.tables.choice` for the default.
        progress: called with the name of the task and the numbers of finished and of all parts.

    Raises:
        SettingsError: `max_gap` is less than 1.
    """
    if max_gap is not None and max_gap < 1:
        raise SettingsError(f"expected a longest gap of at least 1 step, found {max_gap}")
    out = []
    for group in groups:
        out.append(_filled(fitted, group, max_gap))
        if progress is not None:
            progress("filling", len(out), len(groups))
    return tuple(out)


def _filled(fitted: Fitted, group: Group, max_gap: int | None) -> FilledGroup:
    holes = Holes.of(group, max_gap)
    line = lines(holes.values, holes.observed, fitted.kinds)
    mean, deviation = np.full(holes.values.shape, np.nan), np.full(holes.values.shape, np.nan)
    if fitted.forms and holes.missing.any():
        mean, deviation = fitted.answers(holes.values, int(group.times_ms[0]), holes.wanted)
    choice = choose(fitted, group.name, holes, line, mean, deviation)
    limits = fitted.limits.widened([holes.values])
    made = limits.keep(np.where(choice.by_form, mean, line.values))
    filled = np.where(choice.filled, made, group.values)
    lower, upper = bands(fitted, holes, choice, line, filled, deviation, limits)
    method = choice.methods(fitted, line, holes.missing)
    left = _reasons(holes.missing & ~choice.filled, group, holes)
    return FilledGroup(group.name, filled, lower, upper, method, left, group.doubts)


def _reasons(left: Bools, group: Group, holes: Holes) -> dict[str, int]:
    none = left & ~holes.observed.any(axis=1, keepdims=True)
    silent = none & np.isnan(group.values).all(axis=1, keepdims=True)
    unknown = left & ~none & holes.short
    long = left & ~none & ~holes.short
    because = "" if holes.stated else ", and the other sensors tell too little about it"
    reasons = Counter(
        {
            SILENT: int(silent.sum()),
            UNUSABLE: int((none & ~silent).sum()),
            f"in a gap of more than {holes.longest} steps{because}": int(long.sum()),
            "no method has a value": int(unknown.sum()),
        }
    )
    return {reason: number for reason, number in reasons.items() if number}
