"""Fills the holes of long series offline: past and future of a hole are both known.

A hole is filled by the closed form, or by interpolation where that has the smaller error at cells of the sensor that
were hidden on purpose. See `glaim_stream.tables.fit` for the choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from glaim_stream.form import ClosedForm
from glaim_stream.tables.apply import apply
from glaim_stream.tables.fit import fit
from glaim_stream.tables.groups import FilledGroup, Group, Progress, Result, Trainer

__all__ = ["FilledGroup", "Group", "Result", "fill_groups"]


def fill_groups(
    groups: Sequence[Group],
    *,
    sensors: Sequence[str],
    form: ClosedForm | None = None,
    train: Trainer | None = None,
    max_gap: int | None = None,
    timezone: str = "UTC",
    plausibility: bool = True,
    progress: Progress | None = None,
) -> Result:
    """Fill the holes of groups that share their sensors.

    Args:
        groups: on even grids of the same step.
        sensors: names of the C sensors, in the order of the groups' values.
        form: a fitted closed form, whose sensors are matched by name; None fits one to these series.
        train: trains a network that fills if it is better than the closed form; see `Trainer`.
        max_gap: longest gap in steps that is filled. By default gaps of up to 48 steps are filled, and in longer ones
            the cells about which the other sensors say something.
        timezone: zone of the habits of the day.
        plausibility: whether readings that stand apart from those around them are kept out of the fill.
        progress: called with the name of the task, the number of its parts that are done, and of all its parts.

    Raises:
        SettingsError: the groups have different sensors or steps, or `max_gap` is less than 1.
    """
    if plausibility:
        groups = [each.judged() for each in groups]
    fitted = fit(groups, sensors=sensors, form=form, train=train, timezone=timezone, progress=progress)
    only = fitted.forms[0] if fitted.forms else None
    filled = apply(fitted, groups, max_gap=max_gap, progress=progress)
    return Result(
        form=only if isinstance(only, ClosedForm) and len(fitted.forms) == 1 else None,
        forms=fitted.forms,
        report=fitted.report,
        groups=filled,
        expected_error=fitted.expected_error,
        line_error=fitted.line_error,
        hidden=fitted.hidden,
        chosen=fitted.chosen,
        refused=fitted.refused,
        long_gap_error=fitted.long_gap_error,
    )
