"""Readings become series as the windows grid them, and what must not be learned is left out and counted."""

from typing import Any

import numpy as np
import pytest

from glaim_stream.core.budget import DEFAULT
from glaim_stream.core.errors import ModelError
from glaim_stream.form import FormSeries
from glaim_stream.operate.learn import collect
from glaim_stream.operate.learn.collect import Collector
from tests.support import catalogue, json_record

NOW_MS = 1_760_000_000_000
STEP_MS = 60_000
START_MS = NOW_MS // STEP_MS * STEP_MS - 100 * STEP_MS


def collected(
    readings: list[dict[str, Any]], *, from_table: bool = False, **entry: Any
) -> tuple[FormSeries, Collector]:
    sensors = [{"id": "a", "min": 0, "max": 100}, {"id": "b"}]
    rules = catalogue(**({"sensors": sensors, "window": 8, "step_s": 60, "max_gap": 4, "revise_after": 2} | entry))
    collector = Collector(rules, "m", DEFAULT)
    collector.from_table = from_table
    records = [json_record(offset, **reading) for offset, reading in enumerate(readings)]
    collector.add(records, now_ms=NOW_MS)
    return collector.series(), collector


def reading(step: int, value: float | None, *, sensor: str = "a", after_ms: int = 0, **more: Any) -> dict[str, Any]:
    return {"group": "g1", "sensor": sensor, "ts": START_MS + step * STEP_MS + after_ms, "value": value, **more}


def test_cells_hold_the_newest_reading_of_their_step() -> None:
    given = [reading(2, 3.0, after_ms=500), reading(2, 1.0, after_ms=400), reading(0, 5.0), reading(2, 7.0, sensor="b")]
    series, collector = collected(given)
    assert (series.start_ms, series.step_ms) == (START_MS, STEP_MS)
    np.testing.assert_array_equal(series.values, [[[5, 0, 3], [0, 0, 7]]])
    np.testing.assert_array_equal(series.observed, [[[1, 0, 1], [0, 0, 1]]])
    assert (collector.readings, collector.left_out) == (4, {})


def test_cells_hold_the_mean_where_the_catalogue_says_so() -> None:
    series, _ = collected([reading(0, 1.0), reading(0, 4.0, after_ms=1), reading(1, 3.0)], bucket="mean")
    np.testing.assert_array_equal(series.values[0, 0], [2.5, 3.0])


def test_the_mean_of_directions_is_that_of_the_windows() -> None:
    sensors = [{"id": "a", "min": 0, "max": 360, "unit": "deg"}, {"id": "b"}]
    wind = [reading(0, 350.0), reading(0, 20.0, after_ms=1), reading(1, 360.0)]
    numbers = [reading(0, 350.0, sensor="b"), reading(0, 20.0, sensor="b", after_ms=1)]
    series, _ = collected(wind + numbers, bucket="mean", sensors=sensors)
    np.testing.assert_array_equal(series.values[0], [[5.0, 360.0], [185.0, 0.0]])


@pytest.mark.parametrize("bucket", ["last", "mean"])
def test_places_of_stamps_are_those_of_the_latest_readings(bucket: str) -> None:
    given = [
        reading(0, 1.0, after_ms=30_000),
        reading(0, 2.0, after_ms=6_000),
        reading(2, 3.0),
        reading(1, 1, sensor="b"),
    ]
    _, collector = collected(given, bucket=bucket)
    offset = collector.groups[0].offset
    assert offset is not None
    np.testing.assert_array_equal(offset, [[0.5, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("after_ms", [0, 250])
def test_even_stamps_of_a_table_tell_nothing_of_clocks_and_those_of_messages_do(after_ms: int) -> None:
    given = [reading(step, 1.0 + step, after_ms=7 + step % 2 * after_ms) for step in range(20)]
    for from_table, known in ((False, True), (True, after_ms > 0)):
        _, collector = collected(given, from_table=from_table)
        assert (collector.groups[0].offset is not None) == known


def test_several_even_readings_a_step_of_a_table_are_even() -> None:
    given = [reading(step, 1.0 + step, after_ms=ms) for step in range(20) for ms in (0, 20_000, 40_000)]
    _, collector = collected(given, from_table=True)
    assert collector.groups[0].offset is None


def test_what_is_doubtful_is_left_out_and_counted() -> None:
    given = [
        reading(0, 1.0),
        reading(0, 2.0),  # the later one of two readings of one time counts
        reading(1, 50.0, quality="uncertain"),
        reading(2, 60.0, quality="bad"),
        reading(3, None),
        reading(4, 101.0),
        reading(5, 4.0),
        reading(5, 4.0),
        reading(5, 4.0),
        reading(6, 5.0),
        reading(6, 6.0, quality="uncertain"),  # takes the place of the good one, so that nothing is left
        reading(0, 1.0, sensor="c"),
    ]
    series, collector = collected(given)
    np.testing.assert_array_equal(series.observed[0, 0], [1, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(series.values[0, 0], [2, 0, 0, 0, 0, 4])
    assert collector.left_out == {
        "duplicates": 4,
        "of uncertain quality": 2,
        "bad or without a value": 2,
        "rejected: out-of-limits": 1,
        "rejected: unknown-sensor": 1,
    }


def test_stuck_sensors_are_left_out_and_counted() -> None:
    noise = np.random.default_rng(1).uniform(1, 99, 90).round(3)
    noise[30:50] = 40.0
    series, collector = collected([reading(step, value) for step, value in enumerate(noise.tolist())])
    assert collector.left_out == {"of stuck sensors": 19}
    assert np.flatnonzero(~series.observed[0, 0]).tolist() == list(range(31, 50))


def test_old_rows_that_do_not_fit_the_memory_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "MOST_CELLS", 20)
    stray = {"group": "g1", "sensor": "a", "ts": 0, "value": 1.0}  # would make the series decades long
    series, collector = collected([stray, *(reading(step, float(step)) for step in range(5))])
    assert series.steps == 5  # they begin with the first reading that is kept
    assert series.values[0, 0, -5:].tolist() == [0, 1, 2, 3, 4]
    assert collector.left_out == {"older than the rows that fit the memory": 1}


@pytest.mark.parametrize("given", [[], [reading(0, 1.0, quality="uncertain")]])
def test_nothing_to_learn_is_an_error(given: list[dict[str, Any]]) -> None:
    with pytest.raises(ModelError, match="expected readings"):
        collected(given)


def test_with_more_readings_than_the_memory_holds_fewer_groups_are_learned() -> None:
    rules = catalogue(sensors=[{"id": "a"}], window=8, step_s=60, max_gap=4, revise_after=2)
    collector = Collector(rules, "m", DEFAULT, most=100)
    records = [
        json_record(step * 16 + group, **(reading(step, float(step)) | {"group": f"g{group}"}))
        for step in range(40)
        for group in range(16)
    ]
    for begin in range(0, len(records), 50):
        collector.add(records[begin : begin + 50], now_ms=NOW_MS)
    series = collector.series()
    assert series.values.shape == (2, 1, 40)  # each of them whole
    assert series.observed.all()
    assert collector.left_out == {"of groups beyond the memory": 14 * 40}


def test_one_group_is_learned_whatever_the_memory() -> None:
    rules = catalogue(sensors=[{"id": "a"}], window=8, step_s=60, max_gap=4, revise_after=2)
    collector = Collector(rules, "m", DEFAULT, most=10)
    collector.add([json_record(step, **reading(step, 1.0 + step)) for step in range(40)], now_ms=NOW_MS)
    assert collector.series().values.shape == (1, 1, 40)


def test_readings_that_stand_apart_are_left_out_unless_their_sensor_is_exempt() -> None:
    given = [reading(step, 50 + 0.1 * (step % 7)) for step in range(60)]
    given[30] = reading(30, 99.0)
    series, collector = collected(given)
    assert np.flatnonzero(~series.observed[0, 0]).tolist() == [30]
    assert (series.values[0, 0, 30], collector.left_out["that stand apart from the others"]) == (0, 1)
    series, collector = collected(given, sensors=[{"id": "a", "plausibility": False}, {"id": "b"}])
    assert series.observed[0, 0].all()
    assert not collector.left_out


def test_times_far_from_all_others_stretch_no_series() -> None:
    given = [reading(step, float(step % 50)) for step in range(80)]
    wrong = [{**reading(0, 7.0), "ts": START_MS - years * 31_557_600_000} for years in (24, 24, 55)]
    wrong[1]["ts"] += 1
    series, collector = collected([*wrong, *given])
    assert (series.start_ms, series.steps) == (START_MS, 80)
    assert (collector.readings, collector.left_out["with times far from all others"]) == (80, 3)


@pytest.mark.parametrize("bucket", ["last", "mean"])
def test_decimals_are_those_of_the_readings_and_not_of_their_means(bucket: str) -> None:
    random = np.random.default_rng(2)
    given = [reading(step, round(random.uniform(1, 99), 1), after_ms=ms) for step in range(40) for ms in (0, 7, 400)]
    given += [reading(step, random.uniform(1, 99), sensor="b") for step in range(40)]
    _, collector = collected(given, bucket=bucket)
    assert collector.decimals.tolist() == [1, -1]
