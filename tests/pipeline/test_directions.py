"""Wind around north in a stream without a closed form: holes are filled along the shorter arc, errors go that way."""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.angles import around, on_circle
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import Kind, with_directions
from glaim_stream.imputers import Imputed, Interpolation, Ladder, WindowImputer, Windows
from glaim_stream.output import read_rows
from glaim_stream.pipeline.fallbacks import messages_with_fallbacks
from glaim_stream.pipeline.pipeline import Pipeline
from tests.support import STEP_MS, Record, catalogue, json_record

NOW_MS = 100_000_000
STEPS, HOLES = 60, (20, 21, 33, 41)
NORTH = {"id": "s0", "min": 0, "max": 360}
SOUTH = {"id": "s0", "min": -180, "max": 180, "unit": "deg"}


def wind(sides: tuple[float, float] = (348.0, 12.0)) -> list[Record]:
    """On one side of north and on the other, 10 to 14 degrees away, with holes."""
    step = np.arange(STEPS)
    degrees = np.round(np.where(step % 2 == 0, *sides) + 2.0 * np.sin(step), 1).tolist()
    kept = [place for place in range(STEPS) if place not in HOLES]
    return [
        json_record(offset, group="g0", sensor="s0", ts=place * STEP_MS, value=degrees[place])
        for offset, place in enumerate(kept)
    ]


def pipeline_of(sensor: dict[str, Any], imputer: WindowImputer) -> Pipeline:
    rules = catalogue(sensors=[sensor, {"id": "s1"}], window=32, max_gap=8, revise_after=4)
    return Pipeline(rules, {}, imputer, score_share=1.0)


def filled_values(messages: Any) -> list[float]:
    rows = [row for message in messages for row in read_rows(message.value).to_pylist()]
    return [row["value"] for row in rows if row["sensor"] == "s0" and row["method"] == "interpolation"]


@pytest.mark.parametrize("imputer", [Interpolation(), Ladder([Interpolation()])], ids=["interpolation", "ladder"])
async def test_holes_of_wind_around_north_are_filled_near_north(imputer: WindowImputer) -> None:
    pipeline = pipeline_of(NORTH, imputer)
    windows, scores = pipeline.windows(), pipeline.scores()
    applied = pipeline.apply(windows, wind(), now_ms=NOW_MS)
    answers = await pipeline.query(applied.closed, applied.probes)
    values = filled_values(pipeline.messages(pipeline.settle(scores, answers)))
    assert len(values) >= len(HOLES)
    assert np.abs(around(np.array(values))).max() < 15.0
    assert [each.kinds for each in answers] == [[Kind.ANGLE, Kind.NUMBER]]


@pytest.mark.parametrize("imputer", [Interpolation(), Ladder([Interpolation()])], ids=["interpolation", "ladder"])
async def test_holes_of_wind_from_minus_180_to_180_are_filled_near_its_ends(imputer: WindowImputer) -> None:
    pipeline = pipeline_of(SOUTH, imputer)
    windows, scores = pipeline.windows(), pipeline.scores()
    applied = pipeline.apply(windows, wind((168.0, -168.0)), now_ms=NOW_MS)
    answers = await pipeline.query(applied.closed, applied.probes)
    values = np.array(filled_values(pipeline.messages(pipeline.settle(scores, answers))))
    assert len(values) >= len(HOLES)
    assert ((np.abs(values) > 165.0) & (np.abs(values) <= 180.0)).all()
    assert [each.kinds for each in answers] == [[Kind.ANGLE, Kind.NUMBER]]


async def test_without_limits_nothing_says_that_it_is_wind() -> None:
    pipeline = pipeline_of({"id": "s0"}, Interpolation())
    windows, scores = pipeline.windows(), pipeline.scores()
    applied = pipeline.apply(windows, wind(), now_ms=NOW_MS)
    answers = await pipeline.query(applied.closed, applied.probes)
    assert max(filled_values(pipeline.messages(pipeline.settle(scores, answers)))) > 100.0
    assert [each.kinds for each in answers] == [None]


async def test_the_fallback_of_an_internal_error_knows_directions_too() -> None:
    pipeline = pipeline_of(NORTH, Interpolation())
    windows = pipeline.windows()
    applied = pipeline.apply(windows, wind(), now_ms=NOW_MS)

    async def broken() -> Any:
        raise RuntimeError("a defect")

    faults: list[Exception] = []
    messages = await messages_with_fallbacks(pipeline, applied.closed, broken(), pipeline.scores(), faults.append)
    assert [str(each) for each in faults] == ["a defect"]
    assert np.abs(around(np.array(filled_values(messages)))).max() < 15.0


def test_what_the_catalogue_declares_comes_before_what_the_form_recognised() -> None:
    turns = np.array([True, False])
    assert with_directions([Kind.NUMBER, Kind.STATE], turns) == [Kind.ANGLE, Kind.STATE]
    assert with_directions([Kind.NUMBER, Kind.STATE], None) == [Kind.NUMBER, Kind.STATE]
    assert with_directions(None, turns) == [Kind.ANGLE, Kind.NUMBER]
    assert with_directions(None, None) is None


def north_wind(steps: np.ndarray) -> np.ndarray:
    """Up to 8 degrees on either side of north."""
    return (360.0 + 8.0 * np.sin(1.7 * steps)) % 360.0


def south_wind(steps: np.ndarray) -> np.ndarray:
    """Up to 8 degrees on either side of -180 and 180."""
    return north_wind(steps) - 180.0


class Beside:
    """A network that is 4 degrees beside the wind, in turns on this side and on the other."""

    def __init__(self, wind: Callable[[np.ndarray], np.ndarray]) -> None:
        self._wind = wind

    async def impute(self, windows: Windows) -> Imputed:
        assert windows.end_ms is not None
        steps = windows.end_ms[:, None] // STEP_MS - np.arange(windows.steps - 1, -1, -1)
        values = np.zeros((len(windows), 2, windows.steps))
        beside = self._wind(steps) + np.where(steps % 2, -4.0, 4.0)
        values[:, 0] = on_circle(beside, np.full(beside.shape, self._wind is south_wind))
        return Imputed(values, np.full(values.shape, Method.MODEL, np.int8), ["1"] * len(windows))


@pytest.mark.parametrize(("sensor", "wind", "middle"), [(NORTH, north_wind, 0.0), (SOUTH, south_wind, 180.0)])
async def test_a_network_and_the_baseline_are_mixed_near_the_ends_of_the_circle(
    sensor: dict[str, Any], wind: Callable[[np.ndarray], np.ndarray], middle: float
) -> None:
    pipeline, offsets = pipeline_of(sensor, Beside(wind)), count()
    windows, scores, values = pipeline.windows(), pipeline.scores(), list[float]()
    for step in range(100):
        wind_now = float(wind(np.array(step)))
        readings = [
            json_record(next(offsets), group=f"g{group}", sensor="s0", ts=step * STEP_MS, value=wind_now)
            for group in range(4) if (step + 3 * group) % 5 or step < 20
        ]  # fmt: skip
        applied = pipeline.apply(windows, readings, now_ms=NOW_MS)
        answers = await pipeline.query(applied.closed, applied.probes)
        values += mixed_values(pipeline.messages(pipeline.settle(scores, answers)))
    assert len(values) > 100
    assert np.abs(around(np.array(values) - middle)).max() < 20.0
    assert min(values) >= sensor["min"]
    assert max(values) <= sensor["max"]


def mixed_values(messages: Any) -> list[float]:
    rows = [row for message in messages for row in read_rows(message.value).to_pylist()]
    return [row["value"] for row in rows if row["method"] == "blend"]
