"""Fills the holes of long series offline: past and future of a hole are both known.

The closed form fills a hole, or interpolation if its error at hidden cells of the sensor is smaller. See
`glaim_stream.tables.fit` for the choice.
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
        groups: groups on even grids with the same step.
        sensors: names of the C sensors, in the order of the groups' values.
        form: fitted closed form, whose sensors are matched by name; None fits one to these series.
        train: function that trains a network, which fills if it is better than the closed form; see `Trainer`.
        max_gap: longest filled gap in steps. By default gaps of up to 48 steps are filled, and in longer ones the cells
            that the other sensors determine.
        timezone: time zone of daily habits.
        plausibility: keep readings that stand apart from their neighbours out of the fill.
        progress: called with the name of the task and the numbers of finished and of all parts.

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
