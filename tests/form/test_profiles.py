"""Profiles of the day: phase from time and zone, three full periods, a gain on validation."""

from datetime import UTC, datetime

import numpy as np
import pytest

from glaim_stream.form.candidates import PROFILE
from glaim_stream.form.phase import DAY_MS, YEAR_MS, phase_for
from tests.form.samples import STEP_MS, STEPS, fitted, series, windows

HOUR_MS = 3_600_000
BERLIN = "Europe/Berlin"


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_the_phase_is_that_of_the_local_clock() -> None:
    phase = phase_for(HOUR_MS, BERLIN)
    assert phase is not None
    assert (phase.period_ms, phase.bins) == (DAY_MS, 24)
    before, after = at("2026-03-28T06:00"), at("2026-03-30T06:00")  # the clocks change on 29 March
    assert phase.of(np.array([before, after])).tolist() == [7, 8]


def test_phases_of_windows_are_those_of_their_steps() -> None:
    phase = phase_for(HOUR_MS, BERLIN)
    assert phase is not None
    ends = np.array([at("2026-03-29T05:00"), at("2026-03-29T05:00"), at("2026-01-01T00:00")])
    times = ends[:, None] - np.arange(STEPS - 1, -1, -1) * HOUR_MS
    assert (phase.of_windows(ends, STEPS, HOUR_MS) == phase.of(times)).all()


@pytest.mark.parametrize(
    ("step_ms", "period_ms"),
    [(420_000, DAY_MS), (HOUR_MS, DAY_MS), (6 * HOUR_MS, YEAR_MS), (7 * DAY_MS, YEAR_MS), (200 * DAY_MS, None)],
)
def test_the_period_suits_the_step(step_ms: int, period_ms: int | None) -> None:
    phase = phase_for(step_ms, "UTC")
    assert (phase and phase.period_ms) == period_ms
    if phase is not None:
        bins = phase.of(np.arange(0, period_ms, step_ms))
        assert set(np.unique(bins)) <= set(range(phase.bins))
        assert len(np.unique(bins)) >= phase.bins // 2


def habit(times_ms: np.ndarray, zone: str, seed: int = 4) -> np.ndarray:
    """One sensor that follows a sharp habit of the local day, with little else: [1, 2, N]."""
    phase = phase_for(STEP_MS, zone)
    assert phase is not None
    rng = np.random.default_rng(seed)
    working = np.isin(phase.of(times_ms), np.arange(32, 68))
    return (10.0 * working + rng.normal(size=(2, len(times_ms))))[None]


def test_a_profile_needs_three_full_periods_and_a_gain() -> None:
    start = at("2026-02-02T00:00")
    times = start + STEP_MS * np.arange(144 * 14)
    long, short = (
        fitted(habit(times[:rows], "UTC"), start_ms=start).report for rows in (144 * 14, 144 * 3)
    )  # a part of the rows is for validation
    assert long.weights.get(PROFILE, 0.0) > 0.8
    assert PROFILE not in short.errors
    without = fitted(series(144 * 7)).report
    assert without.weights.get(PROFILE, 0.0) < 0.7


def test_habits_of_the_local_day_survive_the_change_of_clocks() -> None:
    start = at("2026-03-02T00:00")
    times = start + STEP_MS * np.arange(144 * 35)  # the clocks change on 29 March
    values, change = habit(times, BERLIN), int((at("2026-03-29T01:00") - start) // STEP_MS)
    week = 7 * 144
    found = fitted(values[:, :, : change - week], start_ms=start, timezone=BERLIN)
    assert found.report.weights[PROFILE] > 0.8

    def error(first: int) -> float:
        cut, end_ms = windows(values[:, :, first : first + week], 400)
        observed = np.ones(cut.shape, np.bool_)
        observed[:, :, -4:] = False
        mean = found.form.fill(cut, observed, end_ms - windows(values, 1)[1] + times[STEPS - 1] + first * STEP_MS).mean
        return float(np.abs(mean - cut)[~observed].mean())

    assert error(change) < 1.1 * error(change - week)


def test_rows_that_are_missing_do_not_move_the_phase() -> None:
    start = at("2026-02-02T00:00")
    times = start + STEP_MS * np.arange(144 * 14)
    values = habit(times, "UTC")
    values[:, :, 500:577] = np.nan  # half a day and more of missing rows
    found = fitted(values, start_ms=start)
    profile = next(variant.transform.profile for variant in found.form.variants if variant.name == PROFILE)
    assert profile is not None
    assert profile[:, 40:60].min() > 0.5
    assert profile[:, 80:140].max() < 0.0


def test_a_step_of_seven_minutes_has_a_profile() -> None:
    step_ms, start = 420_000, at("2026-02-02T00:00")
    times = start + step_ms * np.arange(206 * 14)
    phase = phase_for(HOUR_MS, "UTC")
    assert phase is not None
    rng = np.random.default_rng(8)
    values = 10.0 * np.isin(phase.of(times), np.arange(6, 12)) + rng.normal(size=(1, 2, len(times)))
    assert fitted(values, start_ms=start, step_ms=step_ms).report.weights[PROFILE] > 0.8
