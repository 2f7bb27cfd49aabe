"""The time of a run on data without a configuration: `--minutes` covers the training and all that follows it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from glaim_stream.form import ClosedForm
from training.checkpoint import Checkpoint
from training.data import GroupSeries, WindowSet, split
from training.errors import NetworkTooSlow
from training.evaluate import BASELINES, evaluate, model_fill, restore

_TRAINED = 0.7  # share of the time that is over when training ends
_LEAST = 0.1  # least share of the time that a training needs; with less there is none
_PROBED = 16  # windows that tell how long a score takes
# Work after the training, in windows of a case of the scores: 5 cases on the test part, 5 on validation, residuals of
# up to 13 ages in 2 places on a tenth of them, and the page.
_PARTS = 14
_USED = 0.8  # share of the rest of the time; loading, scripting and writing take some
MOST, FEWEST = 6000, 60  # windows of a case


@dataclass(frozen=True)
class TimeBudget:
    """Minutes of a run from its start; 0: no budget."""

    minutes: float
    began_s: float = field(default_factory=time.monotonic)

    def spent_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began_s

    def training_ends_s(self) -> float | None:
        """Return the moment of `time.monotonic` at which training ends; None without a budget.

        Raises:
            NetworkTooSlow: what came before has left too little time.
        """
        if not self.minutes:
            return None
        if _TRAINED * 60 * self.minutes - self.spent_s() < _LEAST * 60 * self.minutes:
            raise NetworkTooSlow(
                f"no network: {self.spent_s():.0f} s of {60 * self.minutes:.0f} s were over before its training; more "
                "--minutes allow one"
            )
        return self.began_s + _TRAINED * 60 * self.minutes

    def windows(self, best: Checkpoint, form: ClosedForm | None, series: GroupSeries) -> int:
        """Return the number of windows of a case for which the time suffices, by scoring a few of them."""
        if not self.minutes:
            return MOST
        config, model, scale = restore(best)
        part = split(series, config.data, config.model.window).validation
        windows = WindowSet(scale.apply(part.values), config.model.window, 1, config.train.minimum_observed)
        began = time.monotonic()
        evaluate(
            windows, {"model": model_fill(model), **BASELINES}, series.sensors, scale, most=_PROBED,
            seed=config.train.seed, form=form, times_ms=part.times_ms,
        )  # fmt: skip
        each_s = (time.monotonic() - began) / max(1, min(_PROBED, len(windows))) / 5
        left_s = _USED * (60 * self.minutes - self.spent_s())
        return int(min(MOST, max(FEWEST, left_s / (_PARTS * each_s))))


def spent(directory: Path, budget: TimeBudget) -> str:
    """Return a line on the time that a run took."""
    return f"{directory}: {budget.spent_s() / 60:.1f} minutes in all" + (
        f", of {budget.minutes:g} that were given" if budget.minutes else ""
    )
