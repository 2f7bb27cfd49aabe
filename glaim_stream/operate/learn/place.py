"""One learning at a time: fits a closed form, tries it, and replaces the form in use if the new one is better.

A form that lost a sensor, or that was not tried on one (`silent`), does not replace it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Model
from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.errors import ModelError
from glaim_stream.form import (
    INTERPOLATION,
    LAST_VALUE,
    ClosedForm,
    FormSeries,
    Report,
    fit,
    rows_needed,
    with_decimals,
)
from glaim_stream.health import GridSeries, form_with_habits
from glaim_stream.models import keep_form, open_store, place_form, require_folder_released
from glaim_stream.operate.learn.silent import silent_sensors
from glaim_stream.operate.learn.trial import Errors, better, errors_of, held_out

NEW, IN_USE = "new", "in use"


@dataclass(frozen=True)
class Learned:
    """The outcome of a learning.

    form: the new closed form; None if none was fitted, because there are no unseen rows for a trial.
    chosen: True if it replaces the form in use; written unless the run is a dry one.
    reason: reason for the choice.
    held: number of the newest rows on which it was tried.
    errors: errors of the trial; empty without one.
    problem: reason why the former file cannot be used; empty if it can, or if there was none.
    no_habits: reason why the form has no habits of the sensors beside it; empty if it has, or if none was fitted.
    """

    form: ClosedForm | None
    report: Report | None
    chosen: bool
    reason: str
    held: int = 0
    errors: Errors = field(default_factory=dict)
    problem: str = ""
    no_habits: str = ""


def learn(
    series: FormSeries,
    model: Model,
    folder: Path,
    *,
    groups: Sequence[GridSeries] = (),
    decimals: NDArray[np.int8] | None = None,
    timezone: str = "UTC",
    force: bool = False,
    untried: bool = False,
    dry_run: bool = False,
) -> Learned:
    """Fit a closed form and place it in the model's folder if it beats what is in use, for all its sensors.

    The form is fitted on the rows before the trial and placed as it was tried. So both forms of the next learning have
    not seen its newest rows, even if it begins less than a window later. A second process waits for the first.

    Args:
        series: rows of the model's groups.
        model: the model's entry in the catalogue.
        folder: the model's folder in the repository; created if it is absent.
        groups: readings from which the habits of the sensors are learned; these are placed with the form.
        decimals: decimals of the sensors' readings, int8 [C], which are placed with the form; None: not known.
        timezone: time zone of daily habits.
        force: place the form in any case, also without a trial.
        untried: place the first form without a trial while there are too few rows for one.
        dry_run: write nothing.

    Raises:
        ModelError: there are too few rows, or the model is held after a rollback.
    """
    if not dry_run:
        folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        if not dry_run:
            require_folder_released(folder)
        old, problem = in_use(folder, model)
        done = replace(_tried(series, model, old, timezone=timezone, force=force, untried=untried), problem=problem)
        if done.chosen and not dry_run:
            assert done.form is not None
            content, no_habits = form_with_habits(done.form, groups)
            if decimals is not None:
                content = with_decimals(content, decimals)
            require_folder_released(folder)  # again: a rollback may have come meanwhile
            try:
                keep_form(open_store(str(folder.absolute().parent)), folder.name)
            except (OSError, ModelError) as error:  # the new form matters more
                done = replace(done, reason=f"{done.reason}; the form before could not be kept: {error}")
            place_form(folder, content)
            done = replace(done, no_habits=no_habits)
    return done


def in_use(folder: Path, model: Model) -> tuple[ClosedForm | None, str]:
    """The closed form that workers use, or None, and the reason why its file cannot be used, if so."""
    if not target(folder).exists():
        return None, ""
    try:
        form = ClosedForm.load(folder)
    except ModelError as error:
        return None, str(error)
    if (list(form.sensors), form.steps, form.step_ms) != (model.sensor_ids, model.window, model.step_ms):
        return None, f"{target(folder)} has other sensors, another window or another step than the catalogue"
    return form, ""


def _tried(
    series: FormSeries, model: Model, old: ClosedForm | None, *, timezone: str, force: bool, untried: bool
) -> Learned:
    steps = model.window
    held = held_out(series, steps, None if old is None else old.until_ms)
    more = steps - held
    if more > 0:
        if old is not None and not force:
            reason = f"too few rows that the form in use has not seen: {more} more are needed"
            return Learned(None, None, False, reason)
        if not (force or untried):
            least = rows_needed(steps) + steps
            raise ModelError(
                f"a closed form for windows of {steps} steps and its trial need {least} rows, found {series.steps}: "
                f"{more} more are needed"
            )
        held = 0
    rows = series.rows(0, series.steps - held)
    fitted = fit(
        rows.values, rows.observed, start_ms=rows.start_ms, step_ms=rows.step_ms, sensors=model.sensor_ids,
        steps=steps, timezone=timezone, directions=model.directions,
    )  # fmt: skip
    if not held:
        return Learned(fitted.form, fitted.report, True, "not tried: there are too few rows that no form has seen")
    forms = {NEW: fitted.form} | ({} if old is None else {IN_USE: old})
    errors = errors_of(forms, series, held, steps)
    rivals = (INTERPOLATION, LAST_VALUE) if old is None else (IN_USE,)
    losses = [rival for rival in rivals if not better(errors, NEW, rival)]
    names = " and ".join("the form in use" if rival == IN_USE else rival for rival in losses or rivals)
    reason = f"{'not ' if losses else ''}better than {names} on the newest {held} rows"
    silent = silent_sensors(fitted.form, old, series, held) if old is not None else None
    if silent:
        reason = f"{reason}; {silent}" + ("" if force else ": --force places it all the same")
    return Learned(fitted.form, fitted.report, force or not (losses or silent), reason, held, errors)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process learns for this folder.

    Some network disks have no locks on folders. There two processes at once place two whole forms, one after the other.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def target(folder: Path) -> Path:
    """The file that `learn` writes."""
    return folder / FORM_FILE
