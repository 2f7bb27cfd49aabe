"""Whatever the sensors, their settings and the imputer are: what the published rows say of their values holds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.imputers import BlendedRung, Imputed, WindowImputer, Windows
from glaim_stream.output import read_rows
from glaim_stream.pipeline.pipeline import Pipeline
from tests.pipeline.form_streams import AWAY, NOW_MS, Form, Offset
from tests.support import Record, catalogue, contract, json_record

STEPS, GROUPS, WINDOW, BATCH = 60, 2, 12, 40
RESOLUTION = 0.01  # of the contract, where the catalogue has none


@dataclass(frozen=True)
class Sensor:
    """A sensor, and how it behaves: `frozen`, `switched` between 0 and 1, or `moving`."""

    kind: str
    level: float
    resolution: float | None
    low: float | None  # below the level
    high: float | None  # above it
    max_interval: float | None
    keep_sign: bool
    half: float  # of the contract's intervals

    @property
    def limits(self) -> tuple[float, float]:
        """Below and above every reading; infinite without a limit."""
        low, high = sorted(self.reading(noise) for noise in (-1.0, 1.0))
        return (-np.inf if self.low is None else low - self.low, np.inf if self.high is None else high + self.high)

    @property
    def room(self) -> float:
        """How wide a band can be: a sensor that never crosses 0 has no value beyond it."""
        least, most = sorted(self.reading(noise) for noise in (-1.0, 1.0))
        kept = self.keep_sign and least < most
        low, high = self.limits
        return min(high, 0.0 if kept and most <= 0 else np.inf) - max(low, 0.0 if kept and least >= 0 else -np.inf)

    def reading(self, noise: float) -> float:
        """A reading at a noise between -1 and 1."""
        return {"frozen": self.level, "switched": float(noise > 0.3), "moving": self.level + 4 * noise}[self.kind]

    @property
    def entry(self) -> dict[str, Any]:
        """What the catalogue says of it."""
        low, high = self.limits
        limits = {"min": low if np.isfinite(low) else None, "max": high if np.isfinite(high) else None}
        settings = {"resolution": self.resolution, "max_interval": self.max_interval, "keep_sign": self.keep_sign}
        return {name: value for name, value in (limits | settings).items() if value is not None}


@dataclass(frozen=True)
class Plant:
    """Sensors, an imputer of the model, a closed form with a deviation, and how readings arrive."""

    sensors: tuple[Sensor, ...]
    offset: float | None  # of the model's values; None: the model is away
    deviation: float | None  # of the closed form; None: there is none
    form_alone: bool
    scored: bool
    late: int  # of ten holes, how many are told of later
    seed: int

    def pipeline(self) -> Pipeline:
        entries = [{"id": f"s{at}"} | each.entry for at, each in enumerate(self.sensors)]
        rules = catalogue(sensors=entries, window=WINDOW, revise_after=2, max_gap=5, lateness_s=0)
        halves = [[each.half] for each in self.sensors]
        quantiles = {"gap_ages": [1]} | {
            f"{place}_{side}": [[sign * half] for (half,) in halves]
            for place in ("newest", "interior")
            for side, sign in (("lower", -1.0), ("upper", 1.0))
        }
        trained = contract(len(self.sensors), window=WINDOW, residual_quantiles=quantiles)
        ranges = [
            each.model_copy(update={"minimum": sensor.reading(-1.0), "maximum": sensor.reading(1.0)})
            for each, sensor in zip(trained.sensors, self.sensors, strict=True)
        ]
        form = None if self.deviation is None else Deviating(self.deviation)
        imputer: WindowImputer = AWAY if self.offset is None else Offset(self.offset)
        return Pipeline(
            rules, {"m": trained.model_copy(update={"sensors": ranges})}, form if form and self.form_alone else imputer,
            form_expert=BlendedRung(form) if form and not self.form_alone else None,
            score_share=1.0 if self.scored else 0.0, upgrades=True,
        )  # fmt: skip

    def records(self) -> list[Record]:
        """Readings step by step; a part of those that are missing comes three steps late."""
        random, sent = np.random.default_rng(self.seed), list[dict[str, Any]]()
        told_later: dict[int, list[dict[str, Any]]] = {}
        silent = random.random((GROUPS, len(self.sensors))) < 0.2  # for a stretch that no value is filled in
        for step in range(STEPS):
            noise = random.uniform(-1, 1, (GROUPS, len(self.sensors)))
            hidden = (random.random(noise.shape) < 0.25) | (silent & (20 < step < 35))
            for group, sensor in np.ndindex(noise.shape):
                value = self.sensors[sensor].reading(noise[group, sensor])
                each = {"group": f"g{group}", "sensor": f"s{sensor}", "ts": step * 1000, "value": value}
                if not hidden[group, sensor]:
                    sent.append(each)
                elif random.integers(10) < self.late:
                    told_later.setdefault(step + 3, []).append(each)
            sent += told_later.pop(step, [])
        return [json_record(at, **each) for at, each in enumerate(sent)]


class Deviating(Form):
    """A closed form with a deviation of one's own."""

    def __init__(self, deviation: float) -> None:
        super().__init__(Offset(0.0))
        self.deviation = deviation

    async def impute(self, windows: Windows) -> Imputed:
        found = await super().impute(windows)
        return replace(found, deviation=np.full(found.values.shape, self.deviation))


async def published(plant: Plant) -> list[dict[str, Any]]:
    """The rows of all messages, in their order."""
    pipeline, rows = plant.pipeline(), list[dict[str, Any]]()
    windows, scores, topic = pipeline.windows(), pipeline.scores(), plant.records()
    for start in range(0, len(topic), BATCH):
        applied = pipeline.apply(windows, topic[start : start + BATCH], now_ms=NOW_MS)
        assert applied.rejects == []
        upgrades = pipeline.upgrades(windows, scores)
        answers = await pipeline.query(applied.closed, applied.probes, upgrades)
        for message in pipeline.messages(pipeline.settle(scores, answers)):
            rows += read_rows(message.value).to_pylist()
    return rows


def assert_consistent(rows: Sequence[dict[str, Any]], plant: Plant) -> None:
    for row in rows:
        lower, value, upper = row["lower"], row["value"], row["upper"]
        sensor = plant.sensors[int(row["sensor"][1:])]
        low, high = sensor.limits
        assert (lower is None) == (upper is None), row
        if row["observed"] or row["method"] == "none":
            assert lower is None, row
        assert (value is None) == (row["method"] == "none"), row
        if value is not None:
            assert low <= value <= high, row
        if lower is not None:
            resolution = min(sensor.resolution or RESOLUTION, sensor.room)
            assert low <= lower <= value <= upper <= high, row
            assert upper - lower >= resolution * (1 - 1e-6), row
            assert sensor.max_interval is None or upper - lower <= sensor.max_interval, row


SENSORS = st.builds(
    Sensor,
    kind=st.sampled_from(["frozen", "switched", "moving"]),
    level=st.sampled_from([0.0, 7.0, -3.5, 1234.5]),
    resolution=st.sampled_from([None, 7e-5, 0.25, 1.0, 3.0]),
    low=st.sampled_from([None, 0.0, 0.001, 1.7]),
    high=st.sampled_from([None, 0.002, 2.0]),
    max_interval=st.sampled_from([None, None, 0.5, 8.0]),
    keep_sign=st.booleans(),
    half=st.sampled_from([0.0, 1e-6, 0.3, 7.0]),
)
PLANTS = st.builds(
    Plant,
    sensors=st.lists(SENSORS, min_size=2, max_size=4).map(tuple),
    offset=st.sampled_from([0.0, 0.004, -2.5, 1e6, None]),
    deviation=st.sampled_from([None, 0.0, 1e-6, 2.0, 1e5]),
    form_alone=st.booleans(),
    scored=st.booleans(),
    late=st.integers(0, 5),
    seed=st.integers(0, 2**16),
)


@given(PLANTS)
@settings(max_examples=25)
async def test_a_band_holds_its_value_within_the_limits_and_is_as_wide_as_the_resolution(plant: Plant) -> None:
    assert_consistent(await published(plant), plant)


async def test_rows_of_every_kind_are_among_those_that_are_looked_at() -> None:
    steady = Sensor("moving", 1234.5, 0.25, 1.7, 2.0, None, keep_sign=True, half=0.3)
    sensors = (steady, replace(steady, max_interval=0.5), Sensor("frozen", 7.0, None, None, None, None, True, 0.0))
    plant = Plant(sensors, 0.004, 2.0, form_alone=False, scored=True, late=4, seed=1)
    rows = await published(plant)
    assert_consistent(rows, plant)
    banded = [row for row in rows if row["lower"] is not None]
    assert {row["sensor"] for row in banded} == {"s0", "s2"}
    assert len(banded) > 30
    assert min(row["upper"] - row["lower"] for row in banded if row["sensor"] == "s2") < 0.5, "frozen, and narrow"
    withheld = [row for row in rows if row["sensor"] == "s1" and row["method"] == "none" and row["gap_age"] <= 5]
    assert len(withheld) > 5
    assert any(row["method"] == "none" and row["gap_age"] > 5 for row in rows), "silent for longer than max_gap"
    assert any(row["observed"] and row["revision"] >= 3 for row in rows), "a late reading"
