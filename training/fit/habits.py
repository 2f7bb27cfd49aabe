"""Normal behaviour of a run's sensors, learned from its training rows and written beside the present closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.errors import ModelError
from glaim_stream.core.times import text_of_ms
from glaim_stream.core.trust import Trust
from glaim_stream.form import ClosedForm
from glaim_stream.health import learn, with_habits
from glaim_stream.models import place_form, read_sealed_form, require_folder_released
from training import closed_form
from training.config import RunConfig
from training.data import GroupSeries, split
from training.export import destination

Say = Callable[[str], None]


def add_habits(
    config: RunConfig, series: GroupSeries, repository: str, say: Say, *, lose: float = 0.0, even_stamps: bool = False
) -> Path:
    """Learn the habits of the sensors from the training rows and write them beside the present closed form.

    The form stays as it is, to the bit; habits that it has are replaced.

    Args:
        config: The run with the closed form.
        series: All of the data; rows after the training part are not used.
        repository: The model repository, if it is not the run's own.
        say: Receives a line on the outcome.
        lose: Share of the readings to leave out first, one at a time, as a stream loses them.
        even_stamps: True if the sensors of the stream stamp at even distances. Rows have no stamps of their own, so
            clocks are not judged otherwise.

    Returns:
        The model's folder.

    Raises:
        ModelError: There is no closed form, it belongs to other training rows, or there are too few rows.
    """
    spec = destination(config, series.sensors, series.step_s, repository)
    folder = Path(spec.directory) / spec.name
    require_folder_released(folder)
    path, content = folder / FORM_FILE, read_sealed_form(folder, Trust())
    if content is None:
        raise ModelError(f"expected a closed form at {path}, found none; --model gaussian fits one")
    form = ClosedForm.from_bytes(content, str(path))
    train = split(series, config.data, config.model.window).train
    step_ms = round(train.step_s * 1000)
    until_ms = int(train.times_ms[-1]) + step_ms
    for what, expected, found in (
        ("of sensors", list(train.sensors), list(form.sensors)),
        ("of a step of", f"{step_ms} ms", f"{form.step_ms} ms"),
        ("of readings until", text_of_ms(until_ms), "unknown" if form.until_ms is None else text_of_ms(form.until_ms)),
    ):
        if expected != found:
            raise ModelError(f"expected a closed form {what} {expected}, as the training rows are, found {found}")
    groups = closed_form.lossy(closed_form.health_series(train), lose, seed=config.train.seed)
    if even_stamps:
        groups = [replace(each, offset=np.zeros(each.values.shape)) for each in groups]
    place_form(folder, with_habits(content, learn(groups, form.sensors, form=form)))
    say(f"closed form {form.digest[:8]} has the habits of the sensors now: {path}")
    return folder
