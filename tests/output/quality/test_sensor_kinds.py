"""A valve, and a wind direction around north, in the stream: their errors and their intervals."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.form import Kind, fit
from glaim_stream.imputers import BlendedRung, ClosedFormImputer, Interpolation, Ladder
from glaim_stream.output.records import Method
from glaim_stream.pipeline import Pipeline
from tests.output.quality.streams import Partition, documents
from tests.pipeline.form_streams import NOW_MS
from tests.support import Record, catalogue, contract, json_record

ROWS, TRAINING = 4000, 2500
LAG = 4  # steps after which a late reading comes
VALVE, WIND = 2, 3
Doubles = NDArray[np.float64]


def weather(start: float = 0.0) -> Doubles:
    """Two numbers, a valve, and a direction around `start`, the least number of its circle, by about 40 degrees."""
    rng = np.random.default_rng(3)
    around = np.zeros((3, ROWS))
    for step in range(1, ROWS):
        around[:, step] = 0.9 * around[:, step - 1] + rng.normal(0, [1.0, 1.0, 17.0])
    valve = np.cumsum(rng.random(ROWS) < 0.15) % 2
    return np.vstack([20.0 + around[:2], valve[None], np.round(around[2], 1)[None] % 360.0 + start])


Stream = tuple[Pipeline, list[Record]]


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    return stream_of(weather(), tmp_path_factory.mktemp("models"))


def stream_of(values: Doubles, repository: Path) -> Stream:
    """Every fourth reading of valve and direction is missing; every second of these comes later."""
    out, held = [], defaultdict(list)
    known = values[None, :, :TRAINING]
    circle = {"unit": "deg", "min": -180.0, "max": 180.0} if values[WIND].min() < 0 else {"min": 0.0, "max": 360.0}
    ids = [{"id": f"s{sensor}"} for sensor in range(4)]
    rules = catalogue(sensors=[*ids[:WIND], ids[WIND] | circle], window=12, revise_after=2, max_gap=8)
    trained = contract(4, window=12)
    ranges = zip(trained.sensors, known[0].min(axis=1).tolist(), known[0].max(axis=1).tolist(), strict=True)
    sensors = [each.model_copy(update={"minimum": least, "maximum": most}) for each, least, most in ranges]
    trained = trained.model_copy(update={"sensors": sensors})
    fitted = fit(known, np.isfinite(known), start_ms=0, step_ms=1000, sensors=("s0", "s1", "s2", "s3"), steps=12)
    assert fitted.form.kinds[VALVE:] == (Kind.STATE, Kind.ANGLE)
    (repository / "m").mkdir()
    fitted.form.save(repository / "m")
    for step in range(TRAINING, ROWS):
        for sensor in range(4):
            reading = {"group": "g", "sensor": f"s{sensor}", "ts": step * 1000, "value": float(values[sensor, step])}
            if sensor < VALVE or (step + sensor) % 4:
                out.append(reading)
            elif (step + sensor) % 8:
                held[step + LAG].append(reading)
        out += held[step]
    pipeline = Pipeline(
        rules, {"m": trained}, Ladder([Interpolation()]),
        form_expert=BlendedRung(ClosedFormImputer(repository, rules.models)), score_share=1.0,
        quality=True,
    )  # fmt: skip
    return pipeline, [json_record(at, **each) for at, each in enumerate(out)]


@pytest.fixture(scope="module")
def partition(stream: Stream) -> Partition:
    pipeline, topic = stream
    return asyncio.run(Partition(pipeline, NOW_MS).feed(topic))


@dataclass(frozen=True)
class Filled:
    """Filled rows of a sensor, beside the truth."""

    value: Doubles
    lower: Doubles
    upper: Doubles
    truth: Doubles

    @property
    def held(self) -> NDArray[np.bool_]:
        return (self.lower <= self.truth) & (self.truth <= self.upper)


def filled(partition: Partition, sensor: int) -> Filled:
    rows = partition.every_row()
    chosen = (rows.sensor == sensor) & (rows.method == Method.GAUSSIAN) & (rows.ts_ms >= (TRAINING + 200) * 1000)
    assert chosen.sum() > 300
    truth = weather()[sensor, rows.ts_ms[chosen] // 1000]
    found = Filled(rows.value[chosen], rows.lower[chosen], rows.upper[chosen], truth)
    assert ((found.lower <= found.value) & (found.value <= found.upper)).all()
    return found


def live(partition: Partition, sensor: int, source: str, figure: str) -> float:
    """A figure of the records of live accuracy: `mae`, or `coverage`."""
    found = []
    for document in documents(partition.records, source).values():
        for entry in (each for each in document["sensors"] if each["sensor"] == f"s{sensor}"):
            of = entry["methods"]["published"] if figure == "mae" else entry | {"count": entry["intervals"]}
            if of["count"]:
                found.append((of["count"], of[figure]))
    counts, figures = np.transpose(found)
    assert counts.sum() > 100
    return float(np.average(figures, weights=counts))


def test_the_intervals_of_a_valve_lie_within_its_states_and_end_at_them_or_well_before(partition: Partition) -> None:
    found = filled(partition, VALVE)
    assert set(found.value.tolist()) == {0.0, 1.0}
    assert (found.lower >= 0.0).all()
    assert (found.upper <= 1.0).all()
    assert (found.upper > found.lower).all()
    reached = np.where(found.value == 0.0, found.upper, 1.0 - found.lower)
    assert ((reached <= 0.5) | (reached == 1.0)).all()
    assert found.held.mean() > 0.85
    assert live(partition, VALVE, "hidden", "coverage") > 0.85


def test_errors_and_intervals_of_a_direction_around_north_go_the_shorter_way(partition: Partition) -> None:
    found = filled(partition, WIND)
    off = np.abs((found.value - found.truth + 180.0) % 360.0 - 180.0)
    assert np.abs(found.value - found.truth).mean() > 3 * off.mean(), "without north in it, this test shows nothing"
    assert (found.lower >= 0.0).all()
    assert (found.upper <= 360.0).all()
    assert found.held.mean() > 0.85
    narrow = found.upper - found.lower < 180.0
    assert narrow.mean() > 0.2, "an interval that does not reach north tells something"
    assert found.held[narrow].mean() > 0.8
    for source in ("hidden", "late"):
        assert live(partition, WIND, source, "mae") < 2 * off.mean()  # of hidden cells, some are of a silent group
    assert live(partition, WIND, "hidden", "coverage") > 0.85


async def test_a_direction_from_minus_180_to_180_has_the_values_and_intervals_of_one_from_0_to_360(
    partition: Partition, tmp_path: Path
) -> None:
    pipeline, topic = stream_of(weather(-180.0), tmp_path)
    signed = (await Partition(pipeline, NOW_MS).feed(topic)).every_row()
    rows = partition.every_row()
    wind = rows.sensor == WIND
    assert np.isfinite(rows.lower[wind]).sum() > 300
    for name in ("value", "lower", "upper"):
        np.testing.assert_allclose(getattr(signed, name)[wind], getattr(rows, name)[wind] - 180.0, atol=1e-6)
    np.testing.assert_array_equal(signed.method, rows.method)


async def test_a_worker_that_was_killed_goes_on_to_the_bit(stream: Stream, partition: Partition) -> None:
    pipeline, topic = stream
    ended = 2 * len(topic) // 3
    first = await Partition(pipeline, NOW_MS).feed(topic[:ended])
    begin = first.windows.rebuild_from(ended)
    assert begin > 0, "it has forgotten something"
    successor = await (await first.rebuilt(topic[begin:ended])).feed(topic[ended:])
    every, again = partition.every_row(), successor.every_row()
    for name in ("ts_ms", "sensor", "value", "method", "lower", "upper"):
        np.testing.assert_array_equal(getattr(again, name), getattr(every, name)[-len(again) :])
    assert documents(successor.records).items() <= documents(partition.records).items()
