"""A stream whose models have a closed form, both simulated: pipelines, records and rows of one partition."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pytest

from glaim_stream.blend import ModelScores
from glaim_stream.imputers import BlendedRung, Imputed, Interpolation, Ladder, WindowImputer, Windows
from glaim_stream.output import Method, Rows
from glaim_stream.pipeline.pipeline import Pipeline
from tests.support import Neighbours, Record, catalogue, contract, json_record

NOW_MS = 10**9
RULES = catalogue(sensors=4, window=12, revise_after=2, max_gap=8)
QUANTILES = {
    "gap_ages": [1],
    "newest_lower": [[-7.0]] * 4, "newest_upper": [[7.0]] * 4,
    "interior_lower": [[-7.0]] * 4, "interior_upper": [[7.0]] * 4,
}  # fmt: skip
AWAY = Ladder([Interpolation()])


def with_factors_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the half-widths of contract and closed form as they are."""
    reach = type(ModelScores(1).reach)
    monkeypatch.setattr(reach, "latest", lambda self, weights, sensor, level: np.ones(len(sensor)))


class Offset(Neighbours):
    """A model whose values are all too high."""

    def __init__(self, offset: float) -> None:
        self.offset = offset

    async def impute(self, windows: Windows) -> Imputed:
        found = await super().impute(windows)
        return replace(found, values=found.values + self.offset)


class Form:
    """A closed form with the values of an imputer and a deviation of 2; absent, failing, or all declined on demand."""

    name = "gaussian"

    def __init__(self, imputer: WindowImputer, version: str = "01234567", *, unmixable: Sequence[int] = ()) -> None:
        self.imputer, self.version, self.unmixable = imputer, version, list(unmixable)
        self.outcome: Exception | None = None
        self.declines = False

    async def impute(self, windows: Windows) -> Imputed:
        if self.outcome is not None:
            raise self.outcome
        values = (await self.imputer.impute(windows)).values
        method = np.full(values.shape, Method.NONE if self.declines else Method.GAUSSIAN, np.int8)
        version = [f"gaussian-{self.version}"] * len(windows)
        unmixable = np.zeros(values.shape[:2], np.bool_)
        unmixable[:, self.unmixable] = True
        deviation = np.full(values.shape, np.nan if self.declines else 2.0)
        return Imputed(values, method, version, deviation, unmixable=unmixable if self.unmixable else None)

    async def close(self) -> None:
        pass


def records(steps: int, *, groups: int = 3, constant: bool = True) -> list[Record]:
    """Sensors that move together by about 100 per step; with `constant`, the first one has a constant value."""
    random, out = np.random.default_rng(5), list[Record]()
    for step in range(steps):
        for group in range(groups):
            common = 100.0 * random.standard_normal()
            for sensor in range(4):
                if not (step > 40 and (step + 3 * group) % 7 < 2 and sensor == group % 4):
                    value = 1000.0 * sensor + common if sensor or not constant else 7.0
                    out.append(
                        json_record(len(out), group=f"g{group}", sensor=f"s{sensor}", ts=step * 1000, value=value)
                    )
    return out


def pipeline_of(
    imputer: WindowImputer,
    form: Form | None,
    share: float = 1.0,
    networks: Collection[str] | None = None,
) -> Pipeline:
    contracts = {"m": contract(4, window=12, residual_quantiles=QUANTILES)}
    expert = None if form is None else BlendedRung(form)
    return Pipeline(RULES, contracts, imputer, form_expert=expert, score_share=share, upgrades=True, networks=networks)


async def rows_of(pipeline: Pipeline, topic: list[Record], batch: int = 50) -> Rows:
    """All rows that one partition emits."""
    windows, scores, parts = pipeline.windows(), pipeline.scores(), list[Rows]()
    for start in range(0, len(topic), batch):
        applied = pipeline.apply(windows, topic[start : start + batch], now_ms=NOW_MS)
        upgrades = pipeline.upgrades(windows, scores)
        answers = await pipeline.query(applied.closed, applied.probes, upgrades)
        parts += [rows for _, rows in pipeline.settle(scores, answers)]
    return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in Rows.__slots__))
