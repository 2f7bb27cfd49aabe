"""What is observed leaves as it came, bit for bit, and a meter's hole is filled with the meter's digits."""

import json
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glaim_stream.imputers import Imputed, Interpolation, Ladder, LastValue, WindowImputer, Windows
from glaim_stream.imputers.centring import Centred
from glaim_stream.imputers.protocol import requested_values
from glaim_stream.output import read_rows
from glaim_stream.pipeline.pipeline import Pipeline
from tests.support import STEP_MS, Record, catalogue, contract, json_record

NOW_MS = 10_000_000
METER, MOVE = 123_456_789.12, 0.01  # kWh, and what it counts in a step
EDGES = [-0.0, 0.0, 2.0**53, -(2.0**53), 1e308, -1.7976931348623157e308, 5e-324, 0.1, 123_456_789.12, 16_777_217.0]


class Float32Model:
    """A stub of a served model: the mean of each row of float32, as a model that moves with its input."""

    name = "triton"
    contract = contract(1)

    async def impute(self, windows: Windows) -> Imputed:
        sent = Centred.of(windows, self.contract)
        count = sent.observed.sum(axis=2, keepdims=True)
        mean = (sent.values * sent.observed).sum(axis=2, keepdims=True, dtype=np.float32) / np.maximum(count, 1)
        answer = np.repeat(mean.astype(np.float32), 3, axis=2)
        values = requested_values("m", answer, windows, sent=len(windows), sensors=1, emitted_steps=3)
        return sent.imputed(windows, values, "1")

    async def close(self) -> None:
        """Nothing to release."""


async def rows_of(
    records: Sequence[Record],
    imputer: WindowImputer,
    *,
    score_share: float = 1.0,
    sensor: Mapping[str, Any] = MappingProxyType({"resolution": MOVE}),
    **model: Any,
) -> list[dict[str, Any]]:
    """The rows that the messages of a partition contain, in their order."""
    rules = catalogue(sensors=[{"id": "s0", **sensor}], **model)
    pipeline = Pipeline(rules, {"m": contract(1)}, imputer, score_share=score_share)
    windows, scores = pipeline.windows(), pipeline.scores()
    applied = pipeline.apply(windows, records, now_ms=NOW_MS)
    assert applied.rejects == []
    filled = pipeline.settle(scores, await pipeline.query(applied.closed, applied.probes))
    filled += pipeline.settle(scores, await pipeline.query(windows.close_end().closed))
    return [row for message in pipeline.messages(filled) for row in read_rows(message.value).to_pylist()]


def bits(value: float) -> bytes:
    return struct.pack("d", value)


def records_of(values: Sequence[float], steps: Sequence[int]) -> list[Record]:
    return [
        json_record(number, group="g0", sensor="s0", ts=step * STEP_MS, value=value)
        for number, (step, value) in enumerate(zip(steps, values, strict=True))
    ]


@example([0.0, 0.0, 1.0, 5e-324, 0.0], "last", Float32Model())
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(EDGES), min_size=1, max_size=12),
    st.sampled_from(["last", "mean"]),
    st.sampled_from([Interpolation(), LastValue(), Float32Model()]),
)
@settings(max_examples=50)
@pytest.mark.filterwarnings("error")
async def test_observed_values_leave_bit_for_bit(values: list[float], bucket: str, imputer: WindowImputer) -> None:
    """One reading per step and no reading in every third step, so that windows of such values are imputed too."""
    steps = [number + number // 2 for number in range(len(values))]
    rows = await rows_of(records_of(values, steps), imputer, bucket=bucket)
    observed = {row["ts"].timestamp(): row["value"] for row in rows if row["observed"]}
    assert {second: bits(value) for second, value in observed.items()} == {
        step * STEP_MS / 1000: bits(value) for step, value in zip(steps, values, strict=True)
    }


async def test_a_late_zero_of_another_sign_is_a_correction() -> None:
    records = records_of([0.0, 1.0, 1.0, -0.0, -0.0], [0, 1, 2, 0, 0])
    rows = [row for row in await rows_of(records, Interpolation()) if row["ts"].timestamp() == 0]
    assert [(row["revision"], bits(row["value"])) for row in rows] == [(0, bits(0.0)), (3, bits(-0.0))]


@pytest.mark.parametrize("values", [[METER, METER + 0.01, METER + 0.05], [1e308, 1.5e308, 1.7e308], [5e-324] * 2])
async def test_the_mean_of_a_step_has_all_digits(values: list[float]) -> None:
    rows = await rows_of(records_of(values, [0] * len(values)), Interpolation(), bucket="mean")
    expected = METER + 0.02 if values[0] == METER else 1.4e308 if len(values) == 3 else None
    (value,) = [row["value"] for row in rows if row["ts"].timestamp() == 0 and row["revision"] == 0]
    assert np.isfinite(value)
    assert expected is None or value == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("sensor", "mean"),
    [
        ({"min": 0, "max": 360}, 0.0),
        ({"min": 0, "max": 360, "unit": "deg"}, 0.0),
        ({"min": 0, "max": 360, "unit": "kW"}, 180.0),
        ({"min": 0, "max": 400}, 180.0),
        ({"min": -180, "max": 400, "unit": "deg"}, 180.0),
        ({}, 180.0),
    ],
)
async def test_the_mean_of_wind_around_north_is_north(sensor: dict[str, Any], mean: float) -> None:
    records = records_of([350.0, 10.0, 90.0], [0, 0, 1])
    rows = await rows_of(records, Interpolation(), bucket="mean", sensor=sensor)
    assert [row["value"] for row in rows if row["observed"] and row["revision"] == 0] == [mean, 90.0]


@pytest.mark.parametrize(
    ("sensor", "mean"),
    [
        ({"min": -180, "max": 180, "unit": "deg"}, -175.0),
        ({"min": -180, "max": 180, "unit": "degC"}, 5.0),
        ({"min": -180, "max": 180}, 5.0),
    ],
)
async def test_the_mean_of_a_direction_around_180_is_there(sensor: dict[str, Any], mean: float) -> None:
    """Limits of -180 and 180 alone may be those of a temperature."""
    records = records_of([170.0, -160.0, 90.0], [0, 0, 1])
    rows = await rows_of(records, Interpolation(), bucket="mean", sensor=sensor)
    assert [row["value"] for row in rows if row["observed"] and row["revision"] == 0] == [mean, 90.0]


@pytest.mark.parametrize("imputer", [Interpolation(), LastValue(), Float32Model(), Ladder([Float32Model()])])
@pytest.mark.parametrize("level", [METER, 1e9 + 0.37, -METER])
async def test_a_hole_in_a_meter_is_filled_within_two_steps_of_it(imputer: WindowImputer, level: float) -> None:
    """The stub answers with the mean of six steps, the oldest of which is 0.05 away: it shows the digits, not skill."""
    steps = [step for step in range(40) if step % 7 != 5]
    rows = await rows_of(records_of([level + MOVE * step for step in steps], steps), imputer)
    holes = [row for row in rows if not row["observed"] and row["value"] is not None]
    assert len(holes) >= 8
    within = 0.02 if not isinstance(imputer, Ladder | Float32Model) else 0.04
    for row in holes:
        step = row["ts"].timestamp() * 1000 / STEP_MS
        assert abs(row["value"] - (level + MOVE * step)) <= within + 1e-6, row
        if row["lower"] is not None:
            assert row["lower"] <= row["value"] <= row["upper"]


async def test_a_meter_that_stands_still_is_filled_with_its_value() -> None:
    for imputer in (Interpolation(), LastValue(), Float32Model()):
        steps = [step for step in range(20) if step % 5 != 3]
        rows = await rows_of(records_of([METER] * len(steps), steps), imputer)
        filled = [row["value"] for row in rows if not row["observed"]]
        assert filled
        assert filled == pytest.approx([METER] * len(filled), abs=1e-6)


async def test_a_value_that_float32_cannot_hold_spoils_no_other_hole() -> None:
    records = [
        json_record(number, group=group, sensor="s0", ts=step * STEP_MS, value=value * (1 + step / 10))
        for number, (step, group, value) in enumerate(
            (step, group, value) for step in (0, 1, 2, 4, 5, 6, 7) for group, value in (("g0", 1e300), ("g1", 20.0))
        )
    ]
    rows = await rows_of(records, Ladder([Float32Model()]), score_share=0)
    methods = {row["group"]: row["method"] for row in rows if row["ts"].timestamp() == 3 and row["final"]}
    assert methods == {"g0": "interpolation", "g1": "model"}


def test_the_record_has_the_digits_that_the_test_means() -> None:
    document = json.loads(records_of([METER], [0])[0].value or b"")
    assert bits(document["value"]) == bits(METER)
