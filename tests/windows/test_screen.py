"""The screen leaves out only windows without doubtful readings: the rows are those of windows without a screen."""

from dataclasses import fields
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.health import Plausibility
from glaim_stream.windows import Applied, PartitionWindows
from glaim_stream.windows import screen as screen_module
from glaim_stream.windows.closed import Closed
from glaim_stream.windows.holes import LookBack
from glaim_stream.windows.screen import Screen
from tests.support import STEP_MS, Event, catalogue, columns

Doubles = NDArray[np.float64]
WINDOW = 24
SENSORS = 6


def series(kind: str, steps: int, rng: np.random.Generator) -> Doubles:
    """One sensor's readings."""
    noise = rng.normal(0, 1, steps)
    if kind == "constant":
        return np.full(steps, rng.choice([0.0, 0.1, 1e300, -5e-324, 101_325.7]))
    if kind == "far from zero":
        return 1e9 + noise * 10.0 ** rng.integers(-8, 3)
    if kind == "size":
        return noise * 10.0 ** rng.choice([-300, -170, -101, 50, 99, 110, 154, 307])
    if kind == "rain":
        return np.where(rng.random(steps) < 0.1, noise * noise, 0.0)
    if kind == "valve":
        return (rng.random(steps) < 0.1).astype(np.float64)
    if kind == "drift":
        return np.cumsum(noise)
    return 50 + noise


KINDS = ["constant", "far from zero", "size", "rain", "valve", "drift", "noise"]


def spiked(values: Doubles, rng: np.random.Generator) -> Doubles:
    """The same with a few spikes and a shift of all sizes."""
    values = values.copy()
    with np.errstate(over="ignore"):
        for step in rng.integers(0, len(values), len(values) // 20 + 1):
            values[step] += rng.normal() * 10.0 ** rng.integers(-2, 12)
        if rng.random() < 0.3:
            values[rng.integers(len(values)) :] += 100
    return np.clip(values, -1e308, 1e308)


def history(seed: int, steps: int) -> list[list[Event]]:
    """Readings of three groups by step: holes, silences, repetitions, late and corrected readings, dropouts."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(KINDS, (3, SENSORS))
    values = [[spiked(series(kind, steps, rng), rng) for kind in row] for row in kinds]
    arrivals: list[list[Event]] = [[] for _ in range(steps)]
    for group in range(3):
        silent = int(rng.integers(steps)) if rng.random() < 0.4 else steps
        for step in range(steps):
            if silent <= step < silent + 40:
                continue
            for sensor in range(SENSORS):
                if rng.random() < 0.1:
                    continue
                time_ms = step * STEP_MS + int(rng.integers(STEP_MS))
                value = float("nan") if rng.random() < 0.03 else float(values[group][sensor][step])
                late = int(rng.integers(1, WINDOW)) if rng.random() < 0.04 else 0
                arrivals[min(steps - 1, step + late)].append(Event(time_ms, value, group, sensor, produced_ms=10**9))
                if rng.random() < 0.02:  # corrected, up to a window later
                    again = min(steps - 1, step + int(rng.integers(WINDOW)))
                    arrivals[again].append(Event(time_ms, value + 1e3, group, sensor, produced_ms=10**9))
    for each in arrivals:
        rng.shuffle(each)  # type: ignore[arg-type]
    return arrivals


class EveryWindow(Screen):
    """A screen that lets every window be judged."""

    def suspects(self, lookback: LookBack) -> NDArray[np.bool_]:
        return np.ones(len(lookback.observed), np.bool_)


def windows_of(seed: int, *, screened: bool) -> PartitionWindows:
    rng = np.random.default_rng(seed)
    sensors = [{"id": f"s{index}", "plausibility": bool(index or seed % 2)} for index in range(SENSORS)]
    if seed % 3 == 0:
        sensors[2]["cadence_s"] = 3
    ranged = (np.full(SENSORS, 40.0), np.full(SENSORS, 60.0)) if rng.random() < 0.5 else None
    windows = PartitionWindows(
        catalogue(sensors=sensors, window=WINDOW, bucket=str(rng.choice(["last", "mean"])), lateness_s=2, max_gap=6),
        trained_ranges=[ranged],
    )
    if not screened:
        judge = windows.models[0]._judge
        assert judge is not None
        judge.screen = EveryWindow(windows.models[0].rings, judge._rule)
    return windows


def assert_same(one: Applied, other: Applied) -> None:
    assert len(one.closed) == len(other.closed)
    for mine, theirs in zip(one.closed, other.closed, strict=True):
        for column in fields(Closed):
            found, expected = np.asarray(getattr(mine, column.name)), np.asarray(getattr(theirs, column.name))
            assert found.tobytes() == expected.tobytes(), column.name


def compare(seed: int) -> int:
    """Feed the same readings to windows with and without a screen, and compare all that they close.

    Returns:
        The number of doubtful readings.
    """
    rng = np.random.default_rng(seed)
    screened, unscreened = windows_of(seed, screened=True), windows_of(seed, screened=False)
    doubted = 0
    waiting: list[Event] = []
    for step, events in enumerate(history(seed, 120)):
        waiting += events
        if rng.random() < 0.3:
            continue  # so that batches close several steps
        if rng.random() < 0.02:
            waiting = [Event(each.time_ms + 30 * STEP_MS, *_rest(each)) for each in waiting]  # steps without readings
        for windows in (screened, unscreened):
            windows.rebuilding = 60 <= step < 70
        results = [windows.feed(columns(waiting), arrival_ms=0) for windows in (screened, unscreened)]
        assert_same(*results)
        doubted += sum(int(closed.doubted.sum()) for closed in results[0].closed)
        if rng.random() < 0.05:
            now_ms = int(rng.integers(5_000, 12_000))
            assert_same(screened.close_idle(now_ms), unscreened.close_idle(now_ms))
        waiting = []
    return doubted


def test_rows_and_windows_do_not_depend_on_the_screen() -> None:
    assert sum(compare(seed) for seed in range(12)) > 0


def _rest(event: Event) -> tuple[float, int, int, int, int, int | None]:
    return event.value, event.group, event.sensor, event.model, event.quality, event.produced_ms


def judged_windows(values: Doubles) -> int:
    """How many windows of one group [C, steps] are judged as its steps close."""
    windows = PartitionWindows(catalogue(sensors=len(values), window=96))
    judged = 0

    def count(rule: Plausibility, window: Doubles, observed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        nonlocal judged
        judged += len(window)
        return np.zeros(observed.shape, np.bool_)

    with mock.patch.object(Plausibility, "doubtful", count):
        for step, column in enumerate(values.T.tolist()):
            windows.feed(columns([Event(step * STEP_MS, v, sensor=s) for s, v in enumerate(column)]), arrival_ms=0)
    return judged


@pytest.mark.parametrize("offset", [0.0, 1e3, -2e4])
def test_windows_of_ordinary_readings_are_judged_once_in_a_window_of_steps(offset: float) -> None:
    rng = np.random.default_rng(1)
    values = offset + np.stack([rng.uniform(20, 30, 400), np.sin(np.arange(400) / 15), np.full(400, 7.0)])
    assert judged_windows(values) <= 400 // 96 + 2


def test_a_window_with_a_spike_is_judged_at_each_step() -> None:
    values = np.random.default_rng(2).uniform(20, 30, (1, 300))
    values[0, 130] = 300.0
    assert judged_windows(values) >= 96


def test_a_screen_that_is_too_coarse_changes_rows() -> None:
    """Shows that the property above can fail."""

    def compare_many() -> None:
        for seed in range(20):
            compare(seed)

    with mock.patch.object(screen_module, "_MARGIN", 0.5), pytest.raises(AssertionError):
        compare_many()
