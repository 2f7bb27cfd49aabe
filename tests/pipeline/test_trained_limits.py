"""Filled values do not cross 0 where no reading did, neither in training nor in the window that is filled."""

from dataclasses import replace

import numpy as np
import pytest

from glaim_stream.imputers import BlendedRung, Imputed, Windows
from glaim_stream.output import Rows
from glaim_stream.pipeline.pipeline import Pipeline
from tests.pipeline.form_streams import NOW_MS, QUANTILES, Form, Offset, rows_of
from tests.support import Record, catalogue, contract, json_record

SENSORS = [{"id": f"s{index}"} for index in range(4)]
STEPS = 120


class RangedForm(Form):
    """A closed form that was fitted to readings between the two ends."""

    def __init__(self, least: float, most: float, offset: float) -> None:
        super().__init__(Offset(offset))
        self.range = np.full(4, least), np.full(4, most)

    async def impute(self, windows: Windows) -> Imputed:
        return replace(await super().impute(windows), trained_range=self.range)


def concentrations(*, lowest: float = 0.0) -> list[Record]:
    """Sensors near 0 that move together; each misses every fifth reading, and the first two go down to `lowest`."""
    random, out = np.random.default_rng(3), list[Record]()
    for step in range(STEPS):
        common = 0.4 * abs(random.standard_normal())
        for sensor in range(4):
            if (step + sensor) % 5:
                value = max(lowest, common + lowest * (sensor < 2))
                out.append(json_record(len(out), group="g0", sensor=f"s{sensor}", ts=step * 1000, value=value))
    return out


def pipeline(*, least: float, offset: float, form: Form | None = None, keep_sign: bool = True) -> Pipeline:
    sensors = [each | {"keep_sign": keep_sign} for each in SENSORS]
    rules = catalogue(sensors=sensors, window=12, revise_after=2, max_gap=8)
    trained = contract(4, window=12, residual_quantiles=QUANTILES)
    ranges = [each.model_copy(update={"minimum": least, "maximum": 9.0}) for each in trained.sensors]
    contracts = {"m": trained.model_copy(update={"sensors": ranges})}
    expert = None if form is None else BlendedRung(form)
    return Pipeline(rules, contracts, Offset(offset), form_expert=expert, score_share=1.0)


async def holes(pipeline: Pipeline, topic: list[Record]) -> Rows:
    rows = await rows_of(pipeline, topic)
    assert NOW_MS > STEPS * 1000
    return rows.where(~rows.observed & np.isfinite(rows.value))


@pytest.mark.parametrize("form", [None, RangedForm(0.0, 9.0, -1.0)])
async def test_no_concentration_is_negative_and_no_bound_is(form: Form | None) -> None:
    rows = await holes(pipeline(least=0.02, offset=-1.0, form=form), concentrations())
    assert len(rows.value) > 100
    assert rows.value.min() == 0.0
    lower, upper = rows.lower[np.isfinite(rows.lower)], rows.upper[np.isfinite(rows.upper)]
    assert len(lower)
    assert lower.min() == 0.0
    assert (rows.lower <= rows.value)[np.isfinite(rows.lower)].all()
    assert (upper >= 0.0).all()


@pytest.mark.parametrize(
    ("changes", "topic"),
    [
        ({"least": -0.5}, concentrations()),  # a reading of the training was negative
        ({"least": 0.02, "keep_sign": False}, concentrations()),  # switched off
        ({"least": 0.02, "form": RangedForm(-0.5, 9.0, -1.0)}, concentrations()),  # one of the form's training was
    ],
)
async def test_values_are_free_where_the_limit_is_not_one(changes: dict[str, object], topic: list[Record]) -> None:
    rows = await holes(pipeline(offset=-1.0, **changes), topic)  # type: ignore[arg-type]
    assert rows.value.min() < -0.3


async def test_the_first_frost_moves_the_limit_to_itself() -> None:
    rows = await holes(pipeline(least=0.02, offset=-9.0), concentrations(lowest=-2.0))
    frost = rows.sensor < 2
    assert -2.01 <= rows.value[frost].min() < -1.0
    assert rows.value[~frost].min() == 0.0


async def test_the_range_of_the_closed_form_counts_alone_where_there_is_no_contract() -> None:
    rules = catalogue(sensors=SENSORS, window=12, revise_after=2, max_gap=8)
    rows = await holes(Pipeline(rules, {}, RangedForm(0.0, 9.0, -1.0)), concentrations())
    assert rows.value.min() == 0.0
    assert np.nanmin(rows.lower) == 0.0
