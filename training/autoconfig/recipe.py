"""Recipes for data without a configuration: network size and number of steps by the amount of data and the time.

All of them suit a stream: deployment masks, a network that corrects the closed form, averaged weights, and a learning
rate that reaches its minimum when the time is over. Where a window has too many cells for a closed form within the
network, it corrects the interpolation. The network is the largest of a few for which the time allows enough steps; the
time of a step is measured on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from glaim_stream.form import MOST_CELLS
from training.errors import NetworkTooSlow

MINUTES = 10.0  # training time by default
WINDOWS = (96, 48, 24)
SHARES = (0.7, 0.15, 0.15)
# (d_model, layers, ffn), the largest first. The shipped models are the second and the third of them.
NETWORKS = ((64, 2, 128), (32, 2, 128), (32, 1, 96), (16, 1, 64))
ENOUGH_STEPS = 4000  # the shipped models took 4,800 and 6,400 steps; a larger network with fewer steps is worse
FEW_WINDOWS = 5000  # below, the largest network and training without dropout overfit
MOST_PASSES = 60  # passes over all windows, each with new gaps
_STARTS = frozenset({"cascade", "own_form", "residual", "use_prior", "use_gate"})  # given together or not at all
_FORM_WINDOWS = 12  # windows of rows: a fold then leaves four windows of training rows to its form
BUSY = 0.55  # share of the time for steps; the rest goes into the closed form, validation, scores, export and report

LEAST_STEPS = 60
_SHORT_S = 30.0  # time of the fewest steps below which no training is refused
StepTime = Callable[[Mapping[str, Any], int], float]  # ([model], batch size) -> seconds a step


@dataclass(frozen=True)
class Recipe:
    """Tables of a run's configuration, and a description of the choice."""

    tables: Mapping[str, Mapping[str, Any]]
    summary: str


def window_of(rows: int) -> int:
    """Return the longest window that fits twice into the validation and the test part; else the longest of all."""
    part = int(min(SHARES) * rows)
    return next((window for window in WINDOWS if part >= 2 * window), WINDOWS[0])


def choose(
    rows: int, windows: int, window: int, sensors: int, step_time: StepTime, *, minutes: float, cuda: bool = False,
    steps: bool = True, stated: Collection[str] = (),
) -> Recipe:  # fmt: skip
    """Choose the settings that were not given.

    Args:
        rows: Rows of the whole series.
        windows: Windows to train on, of all groups.
        window: Steps of a window.
        sensors: Number of sensors of a group.
        step_time: Measures the seconds of a step of a network.
        minutes: Time of the whole run.
        cuda: True on a GPU, where larger batches cost nothing.
        steps: Choose the number of steps; False if it was given, and then nothing is measured.
        stated: Settings of [model] that were given.

    Raises:
        NetworkTooSlow: the time does not suffice for the fewest steps of the smallest network.
    """
    batch = 32 if cuda else 8
    start = _start(rows, window, sensors, stated)
    chosen, per_step = _network(NETWORKS[2], window, windows, start), 0.0
    if steps:
        # Start with the smallest: where even that is slow, a step of a larger one would take minutes.
        for size in reversed(NETWORKS[1:] if windows < FEW_WINDOWS else NETWORKS):
            network = _network(size, window, windows, start)
            taken = step_time(network, batch)
            if per_step and minutes * 60 * BUSY / taken < ENOUGH_STEPS:
                break
            chosen, per_step = network, taken
            if LEAST_STEPS * per_step > minutes * 60 * BUSY:
                break
        if LEAST_STEPS * per_step > max(minutes * 60 * BUSY, _SHORT_S):
            needed = LEAST_STEPS * per_step / BUSY / 60
            raise NetworkTooSlow(
                f"no network: at {per_step:.3g} s a step here, its fewest {LEAST_STEPS} steps take some {needed:.0f} "
                f"minutes, scores included (--minutes {minutes:g}); the closed form is fitted alone"
            )
    train: dict[str, Any] = {
        "batch_size": batch, "learning_rate": 2e-3, "schedule": "cosine", "clip_norm": 1.0, "balance": 0.5,
        "mae_weight": 0.5, "validation_windows": 400,
    }  # fmt: skip
    summary = f"network of width {chosen['d_model']}, {chosen['layers']} layer(s), windows of {window} steps"
    if steps:
        total = max(LEAST_STEPS, min(int(minutes * 60 * BUSY / per_step), MOST_PASSES * windows // batch))
        a_pass = max(1, windows // batch)
        epochs = max(3, min(40, total // 150), -(-total // a_pass))
        iterations = max(1, total // epochs)
        total = epochs * iterations
        train |= {
            "epochs": epochs, "iterations": iterations, "patience": epochs, "warmup": min(200, total // 20),
            "ema": 0.998 if total > 2000 else 0.98, "max_minutes": 1.5 * minutes,
        }  # fmt: skip
        summary += (
            f"; {total} steps of {batch} windows in {epochs} epochs, {per_step * 1000:.0f} ms a step here: "
            f"some {total * per_step / BUSY / 60:.1f} minutes (--minutes {minutes:g})"
        )
    tables = {
        "data": {"split": list(SHARES)},
        "model": chosen,
        "masks": {"pattern": "deployment"},
        "train": train,
        "export": {"version": 0, "emitted_steps": min(16, window)},
    }
    return Recipe(tables, summary)


def _start(rows: int, window: int, sensors: int, stated: Collection[str]) -> dict[str, Any]:
    """The part that the network corrects: the closed form, if the rows suffice for its folds, or the interpolation."""
    if _STARTS & set(stated):
        return {}
    if window * sensors <= MOST_CELLS and rows >= _FORM_WINDOWS * window:
        return {"cascade": True, "own_form": True}
    return {"residual": True}


def _network(size: tuple[int, int, int], window: int, windows: int, start: Mapping[str, Any]) -> dict[str, Any]:
    d_model, layers, ffn = size
    return {
        "window": window, "d_model": d_model, "layers": layers, "ffn": ffn, "heads": 4, "d_psi": 32,
        "large_kernel": min(71, window - 1 + window % 2), "dropout": 0.1 if windows < FEW_WINDOWS else 0.0,
        "norm_eps": 0.01, **start,
    }  # fmt: skip
