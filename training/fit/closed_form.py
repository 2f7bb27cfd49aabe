"""The closed form of a run: fitted and exported before the training, and the bar that its network must pass."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from glaim_stream.core.contract import FORM_FILE
from glaim_stream.form import ClosedForm
from glaim_stream.health import form_with_habits
from glaim_stream.models import place_form
from training import closed_form
from training.autoconfig import Shown, catalogue
from training.checkpoint import Checkpoint
from training.config import RunConfig, data_path
from training.data import GroupSeries, WindowSet, fit_scale, split
from training.errors import DataError
from training.evaluate import BASELINES, evaluate, model_fill, restore
from training.export import destination

METRICS = ("mse", "mae")
RIVALS = ("interpolation", "last_value")
_WORTH = 0.03  # gain below which a network does not repay what serves it
_WINDOWS = 600  # validation windows of a case
Say = Callable[[str], None]


@dataclass(frozen=True)
class Exported:
    """A fitted closed form, the seconds of its fit, and the model's folder that holds it, if it was exported."""

    form: ClosedForm
    seconds: float
    folder: Path | None


def fit_and_export(
    config: RunConfig, series: GroupSeries, repository: str, say: Say, *, export: bool
) -> Exported | None:
    """Fit the closed form to the training rows and write it into the model's folder; None if they are too few.

    Args:
        config: The run.
        series: All of the data; rows after the training part are not used.
        repository: The model repository, if it is not the run's own.
        say: Receives a line on the outcome.
        export: True to write it.
    """
    start_s = time.perf_counter()
    train = split(series, config.data, config.model.window).train
    try:
        form = closed_form.fit(train, config.model.window, directions=config.data.directions).form
    except DataError as error:
        say(str(error))
        return None
    seconds = time.perf_counter() - start_s
    if not export:
        say(f"closed form {form.digest[:8]} fitted in {seconds:.1f} s")
        return Exported(form, seconds, None)
    spec = destination(config, series.sensors, series.step_s, repository)
    folder = Path(spec.directory) / spec.name
    content, no_habits = form_with_habits(form, closed_form.health_series(train))
    place_form(folder, content)
    say(f"closed form {form.digest[:8]} fitted in {seconds:.1f} s: {folder / FORM_FILE} can be served now")
    if no_habits:
        say(f"it has no habits of the sensors, so their health is not judged live: {no_habits}")
    return Exported(form, seconds, folder)


@dataclass(frozen=True)
class FormComparison:
    """Errors on hidden cells of validation windows: geometric means of ratios over cases, MSE and MAE.

    network: the network's errors over the closed form's.
    form: the closed form's errors over those of the better baseline.
    spread: two standard errors of the logarithm of `network`, from its differences between cases and metrics.
    """

    network: float
    form: float
    spread: float = 0.0

    def verdict(self) -> str:
        """A sentence on the network's gain, which says what it costs where the gain is small or may be chance."""
        low, high = (self.network * math.exp(sign * self.spread) for sign in (-1, 1))
        said = (
            f"on validation: the network's error is {self.network:.2f} times the closed form's "
            f"({low:.2f} to {high:.2f} by its differences between cases)"
        )
        if self.network >= 1 or (self.network <= 1 - _WORTH and high < 1):
            return said
        why = f"is below {_WORTH:.0%}" if high < 1 else "may be chance"
        return (
            f"{said}. The gain {why}, and a network needs a Triton or torch beside the workers: it is hardly worth it. "
            "The closed form needs neither (--imputer gaussian)"
        )


def compare(best: Checkpoint, form: ClosedForm, series: GroupSeries, most: int = _WINDOWS) -> FormComparison:
    """Compare a trained network with the closed form, and that with the baselines, on windows of validation rows."""
    config, model, scale = restore(best)
    validation = split(series, config.data, config.model.window).validation
    windows = WindowSet(scale.apply(validation.values), config.model.window, 1, config.train.minimum_observed)
    cases = evaluate(
        windows, {"model": model_fill(model), **BASELINES}, series.sensors, scale, most=min(most, _WINDOWS),
        seed=config.train.seed, form=form, times_ms=validation.times_ms,
    )  # fmt: skip
    methods = [case["methods"] for case in cases.values() if case["cells"]]
    network, spread = _ratio(methods, "model", ("gaussian",))
    return FormComparison(network, _ratio(methods, "gaussian", RIVALS)[0], spread)


def _ratio(cases: Sequence[Mapping[str, Any]], method: str, rivals: Sequence[str]) -> tuple[float, float]:
    """Geometric mean of a method's errors over the least of its rivals', and two standard errors of its logarithm."""
    logs = [
        math.log((case[method][metric] + 1e-6) / (min(case[rival][metric] for rival in rivals) + 1e-6))
        for case in cases
        for metric in METRICS
    ]
    if not logs or not all(map(math.isfinite, logs)):
        return math.inf, 0.0
    return math.exp(fmean(logs)), 2 * stdev(logs) / math.sqrt(len(logs))


def write_catalogue(config: RunConfig, series: GroupSeries, folder: Path, directory: Path) -> list[str]:
    """Write groups.yaml for a model that is a closed form alone; return the commands that put it to work."""
    scale = fit_scale(split(series, config.data, config.model.window).train)
    ranges = zip(series.sensors, series.units, scale.minimum, scale.maximum, strict=True)
    file = directory / "groups.yaml"
    file.write_text(
        catalogue(
            folder.name, series.step_s, config.model.window, config.export.emitted_steps,
            [
                Shown(sensor, unit, float(low), float(high), sensor in config.data.directions)
                for sensor, unit, low, high in ranges
            ],
            series.groups, config.data.bucket, f"the closed form of {folder.name}",
        )
    )  # fmt: skip
    return [
        f"wrote {file}; check its comments, then",
        f"  glaim-stream worker --imputer gaussian --catalogue {file} --model-repository {folder.parent}",
    ]


_LONG_NAMES = {"group": "group", "sensor": "sensor", "value": "value"}  # the columns that `glaim-stream replay` expects


def replay_lines(config: RunConfig, repository: Path, directory: Path, imputer: str) -> list[str]:
    """Return the lines that name the command, or the reason why there is none.

    Args:
        config: The run.
        repository: The model repository that holds the model.
        directory: The run's directory, with groups.yaml.
        imputer: The worker's imputer for the model, `local` or `gaussian`.
    """
    data = config.data
    columns = {"group": data.group, "sensor": data.sensor, "value": data.value} if data.sensor else {}
    renamed = [name for role, name in columns.items() if name and name != _LONG_NAMES[role]]
    if renamed or (data.group and not data.sensor):
        return []  # the command has no flags for these columns
    flags = ["--time", data.time] if data.time else []
    if data.separator and data.separator != ".":
        flags += ["--separator", data.separator]
    if not (data.separator or data.group or data.sensor):
        flags += ["--name", data.group_name]
    for value in (*(f"{number:g}" for number in data.sentinels), *data.no_value):
        flags += ["--missing", value]
    for name, given, default in (
        ("--timezone", data.timezone, "UTC"), ("--date-order", data.date_order, ""), ("--decimal", data.decimal, ""),
    ):  # fmt: skip
        if given != default:
            flags += [name, given]
    file = data_path(data.file)
    command = [
        "glaim-stream", "replay", str(file), *flags, "--imputer", imputer,
        "--catalogue", str(directory / "groups.yaml"), "--model-repository", str(repository),
        "--out", str(directory / "filled.parquet"),
    ]  # fmt: skip
    return ["or fill the file itself:", f"  {shlex.join(command)}"]
