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
_PARTS, _SCORED = 14, 5  # and those of the test part
_USED = 0.8  # share of the rest of the time; loading, scripting and writing take some
# CPU time after the training whatever the number of windows, and with the fewest: beside other work each second of it
# takes several. 12 groups x 7,000 rows x 6 sensors took 19 s with 346 windows (Intel Xeon, 2 cores, 2026-11-30).
_FIXED_CPU_S, _LEAST_CPU_S = 6.0, 12.0
_MOST_RESERVED = 0.5  # share of the time that slowness keeps from training at the most
MOST, FEWEST = 6000, 60  # windows of a case


@dataclass(frozen=True)
class TimeBudget:
    """Minutes of a run from its start; 0: no budget."""

    minutes: float
    began_s: float = field(default_factory=time.monotonic)
    worked_s: float = field(default_factory=time.process_time)  # CPU time of the process before the run

    def spent_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began_s

    def training_ends_s(self) -> float | None:
        """Return the moment of `time.monotonic` at which training ends; None without a budget.

        It ends sooner where other work has the cores, as the scores after it take as much longer as the work before.

        Raises:
            NetworkTooSlow: what came before has left too little time.
        """
        if not self.minutes:
            return None
        whole_s = 60 * self.minutes
        reserved_s = _LEAST_CPU_S * slowness(self.spent_s(), time.process_time() - self.worked_s)
        ends_s = whole_s - min(max((1 - _TRAINED) * whole_s, reserved_s), _MOST_RESERVED * whole_s)
        if ends_s - self.spent_s() < _LEAST * whole_s:
            raise NetworkTooSlow(
                f"no network: {self.spent_s():.0f} s of {60 * self.minutes:.0f} s were over before its training; more "
                "--minutes allow one"
            )
        return self.began_s + ends_s

    def windows(self, best: Checkpoint, form: ClosedForm | None, series: GroupSeries) -> int:
        """Return the number of windows of a case for which the time suffices, by scoring a few of them."""
        if not self.minutes:
            return MOST
        config, model, scale = restore(best)
        part = split(series, config.data, config.model.window).validation
        windows = WindowSet(scale.apply(part.values), config.model.window, 1, config.train.minimum_observed)
        began, worked = time.monotonic(), time.process_time()
        evaluate(
            windows, {"model": model_fill(model), **BASELINES}, series.sensors, scale, most=_PROBED,
            seed=config.train.seed, form=form, times_ms=part.times_ms,
        )  # fmt: skip
        took_s = time.monotonic() - began
        each_s = took_s / max(1, min(_PROBED, len(windows))) / 5
        left_s = _USED * (60 * self.minutes - self.spent_s())
        left_s -= _FIXED_CPU_S * slowness(took_s, time.process_time() - worked)
        return int(min(MOST, max(FEWEST, left_s / (_PARTS * each_s))))

    def fewer(self, most: int, took_s: float) -> int:
        """Return the number of windows for what follows the scores of the test part, if these took so many seconds."""
        if not self.minutes:
            return most
        left_s = _USED * (60 * self.minutes - self.spent_s())
        return int(min(most, max(FEWEST, most * left_s * _SCORED / ((_PARTS - _SCORED) * max(took_s, 1e-3)))))


def slowness(took_s: float, worked_s: float) -> float:
    """Return the seconds that a second of CPU time takes beside other work, 1 at least."""
    return max(1.0, took_s / max(worked_s, 1e-3))


def spent(directory: Path, budget: TimeBudget) -> str:
    """Return a line on the time that a run took."""
    return f"{directory}: {budget.spent_s() / 60:.1f} minutes in all" + (
        f", of {budget.minutes:g} that were given" if budget.minutes else ""
    )
