"""A reading that stands apart is published as it came, with its doubt, and has no part in any other row."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.vocabulary import Status
from glaim_stream.imputers import Interpolation
from glaim_stream.output import read_rows
from glaim_stream.pipeline.pipeline import Pipeline
from tests.support import STEP_MS, Record, catalogue, json_record

NOW_MS = 100_000_000
STEPS, SPIKE = 60, 123_456_789.0
SENSORS = [{"id": "s0"}, {"id": "s1"}]


def readings(*, spikes: dict[tuple[str, str, int], float]) -> list[Record]:
    """Two groups of two sensors; every seventh reading of a sensor is absent."""
    rng = np.random.default_rng(5)
    records = []
    for step in range(STEPS):
        for group in ("g0", "g1"):
            for place, sensor in enumerate(("s0", "s1")):
                value = 20 + 3 * np.sin(step / 8 + place) + rng.normal(0, 0.1)
                if (step + 3 * place) % 7 == 5 and step > 15:
                    continue
                value = spikes.get((group, sensor, step), value)
                records.append(json_record(len(records), group=group, sensor=sensor, ts=step * STEP_MS, value=value))
    return records


async def rows_of(records: Sequence[Record], *, batch: int = 1000, sensors: Any = SENSORS) -> list[dict[str, Any]]:
    rules = catalogue(sensors=sensors, window=32, max_gap=8, revise_after=4)
    pipeline = Pipeline(rules, {}, Interpolation(), score_share=1.0)
    windows, scores = pipeline.windows(), pipeline.scores()
    filled = []
    for start in range(0, len(records), batch):
        applied = pipeline.apply(windows, records[start : start + batch], now_ms=NOW_MS)
        assert applied.rejects == []
        filled += pipeline.settle(scores, await pipeline.query(applied.closed, applied.probes))
    filled += pipeline.settle(scores, await pipeline.query(windows.close_end().closed))
    return [row for message in pipeline.messages(filled) for row in read_rows(message.value).to_pylist()]


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["group"], row["sensor"], row["ts"], row["revision"]


async def test_a_wild_reading_leaves_every_other_row_as_it_was() -> None:
    place = ("g0", "s0", 30)
    calm = {key(row): row for row in await rows_of(readings(spikes={}))}
    wild = {key(row): row for row in await rows_of(readings(spikes={place: SPIKE}))}
    assert calm.keys() == wild.keys()
    doubted = [row for row in wild.values() if row["status"] == Status.UNCERTAIN_SENSOR_NOT_ACCURATE]
    assert [(row["value"], row["observed"], row["quality"], row["method"]) for row in doubted] == [
        (SPIKE, True, "uncertain", "observed")
    ]
    filled = 0
    for each, row in wild.items():
        if row not in doubted:
            assert row["value"] == pytest.approx(calm[each]["value"], rel=0.01), each
            filled += not row["observed"]
    assert filled > 40


async def test_without_the_rule_the_wild_reading_fills_holes() -> None:
    believed = [{"id": each, "plausibility": False} for each in ("s0", "s1")]
    rows = await rows_of(readings(spikes={("g0", "s0", 32): SPIKE}), sensors=believed)
    assert all(row["status"] != Status.UNCERTAIN_SENSOR_NOT_ACCURATE for row in rows)
    assert any(row["value"] > 1e6 and not row["observed"] for row in rows)


async def test_an_exempt_sensor_is_believed() -> None:
    exempt = [{"id": "s0", "plausibility": False}, {"id": "s1"}]
    rows = await rows_of(readings(spikes={("g0", "s0", 30): SPIKE}), sensors=exempt)
    assert all(row["status"] != Status.UNCERTAIN_SENSOR_NOT_ACCURATE for row in rows)


async def test_doubt_does_not_depend_on_the_batches() -> None:
    records = readings(spikes={("g0", "s0", 30): SPIKE, ("g1", "s1", 33): -400.0, ("g1", "s0", STEPS - 1): 99.0})
    whole = {key(row): row for row in await rows_of(records)}
    assert sum(row["status"] == Status.UNCERTAIN_SENSOR_NOT_ACCURATE for row in whole.values()) == 3
    for batch in (1, 7):
        assert {key(row): row for row in await rows_of(records, batch=batch)} == whole


@pytest.mark.parametrize(("limits", "doubted"), [({"min": 0, "max": 360}, [180.0]), ({}, [180.0, 357.0])])
async def test_wind_from_north_is_doubted_only_where_nothing_says_that_it_is_a_direction(
    limits: dict[str, float], doubted: list[float]
) -> None:
    rng = np.random.default_rng(5)
    wind = np.round((8.0 + 2.0 * rng.standard_normal(STEPS)) % 360.0, 1)
    wind[[24, 44]] = 180.0, 357.0
    records = [
        json_record(step, group="g0", sensor="s0", ts=step * STEP_MS, value=value)
        for step, value in enumerate(wind.tolist())
    ]
    rows = await rows_of(records, sensors=[{"id": "s0", **limits}, {"id": "s1"}])
    found = [row["value"] for row in rows if row["status"] == Status.UNCERTAIN_SENSOR_NOT_ACCURATE]
    assert found == doubted
