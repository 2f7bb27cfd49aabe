"""The live figures beside the offline score: errors on readings that were withheld from the whole stream.

The shipped network and closed form fill a simulated plant. A share of the readings is withheld, as a benchmark does,
and what was published for them is scored against the truth with numpy alone. Live accuracy knows the others only.
What the metrics say is compared with the sums over the records.
"""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from deploy.cache import CHECKOUT
from glaim_stream.build import create_pipeline
from glaim_stream.core.settings import Settings
from glaim_stream.core.times import moment_ms
from glaim_stream.core.vocabulary import PROVISIONAL
from glaim_stream.feed.plant import SENSORS, START_MS, STEP_MS, simulate
from glaim_stream.windows import AGES, STRETCH
from tests.output.quality.streams import Partition, documents
from tests.output.quality.sums import assert_metrics_agree, pooled_regret, print_regret, scraped
from tests.support import Record, json_record

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]  # quicker: tests/output/quality/test_records.py

GROUPS, STEPS = 4, 12 * STRETCH
WARM = 4 * STRETCH  # the experts' weights and the intervals follow the errors from there on
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


def holes() -> Bools:
    """Which readings are withheld, bool [G, C, T]: gaps as long as the probes' are, a sixth of all cells."""
    random = np.random.default_rng(12)
    out = np.zeros((GROUPS, len(SENSORS), STEPS), np.bool_)
    for cells in out.reshape(-1, STEPS):
        start = int(random.integers(40))
        while start < STEPS:
            length = int(random.choice(AGES))
            cells[start : start + length] = True
            start += length + int(random.integers(8, 50))
    return out


def stream(values: Doubles, withheld: Bools) -> list[Record]:
    out: list[Record] = []
    for step in range(STEPS):
        for group in range(GROUPS):
            row = {
                sensor.id: float(values[group, place, step])
                for place, sensor in enumerate(SENSORS)
                if not withheld[group, place, step]
            }
            out.append(json_record(len(out), group=f"pump-{group}", ts=START_MS + step * STEP_MS, values=row))
    return out


def last_values(values: Doubles, withheld: Bools) -> Doubles:
    """The last value before each cell that was not withheld, [G, C, T]."""
    last = values.copy()
    for place in np.ndindex(values.shape[:2]):
        known = np.flatnonzero(~withheld[place])
        for first, following in pairwise([*known.tolist(), STEPS]):
            last[place][first:following] = values[place][first]
    return last


def skill(published: dict[str, float], of_baseline: dict[str, float]) -> float:
    """Errors as a share of the baseline's: the geometric mean over the sensors."""
    return float(np.exp(np.mean([np.log(published[name] / of_baseline[name]) for name in of_baseline])))


async def test_live_accuracy_agrees_with_the_score_on_withheld_readings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("glaim_stream.pipeline.pipeline.FEWEST_WINDOWS", 16)  # probes at a step, so that they suffice
    settings = Settings(
        catalogue=CHECKOUT / "deploy" / "catalogues" / "plant.yaml", model_repository=CHECKOUT / "model_repo",
        imputer="local", quality_topic="quality",
    )  # fmt: skip
    pipeline, ladder = create_pipeline(settings, quality=True)
    values = simulate(STEPS / 1440 + 0.01, groups=GROUPS, seed=5).values[:, :, :STEPS].astype(np.float64)
    withheld = holes()
    topic = stream(values, withheld)
    # Some steps after the last stretch that is over, the metrics have almost the same cells as the records.
    until = GROUPS * (STEPS - STRETCH + 3)
    partition = await Partition(pipeline, now_ms=START_MS + STEPS * STEP_MS).feed(topic[:until], batch=200)
    counted, recorded = scraped("plant-pump"), list(documents(partition.records).values())
    await partition.feed(topic[until:], batch=200)
    await ladder.close()

    rows = partition.every_row()
    names = np.array([int(name.removeprefix("pump-")) if name else -1 for name in pipeline.index.names])
    cell = names[rows.group], rows.sensor, (rows.ts_ms - START_MS) // STEP_MS
    judged = ~rows.observed & np.isfinite(rows.value) & (cell[2] >= WARM)
    truth = values[cell]
    by_last = last_values(values, withheld)[cell]
    ages = {"1": (1,), "2-4": (2, 4), "5-16": (8, 16)}  # those of the probes
    offline: dict[str, dict[str, float]] = {"published": defaultdict(float), "baseline": defaultdict(float)}
    first = judged & (rows.revision == PROVISIONAL)
    for place, sensor in enumerate(SENSORS):
        for each in (age for of_class in ages.values() for age in of_class):
            at = first & (rows.sensor == place) & (rows.gap_age == each)
            weight = 0.5 if each > 1 else 1.0
            offline["published"][sensor.id] += weight * np.abs(rows.value - truth)[at].mean()
            offline["baseline"][sensor.id] += weight * np.abs(by_last - truth)[at].mean()
    drawn = first & np.isfinite(rows.lower)
    held = float(((rows.lower <= truth) & (truth <= rows.upper))[drawn].mean())

    sums: dict[tuple[str, str, str], Doubles] = defaultdict(lambda: np.zeros(2))
    intervals, holding = 0, 0.0
    for document in documents(partition.records).values():
        if moment_ms(document["from"]) < START_MS + WARM * STEP_MS:
            continue
        for figures in document["sensors"]:
            if figures["position"] == "edge":
                for kind, method in (("published", "published"), ("baseline", "last_value")):
                    figure = figures["methods"][method]
                    sums[kind, figures["sensor"], figures["gap_age"]] += figure["count"] * np.array([1, figure["mae"]])
                intervals += figures["intervals"]
                holding += figures["intervals"] * (figures["coverage"] or 0.0)
    live: dict[str, dict[str, float]] = {"published": defaultdict(float), "baseline": defaultdict(float)}
    for (kind, name, age), (count, error) in sums.items():
        if age in ages:
            live[kind][name] += error / count
    expected, found = (skill(each["published"], each["baseline"]) for each in (offline, live))
    print(f"error beside the baseline's: live {found:.3f}, offline {expected:.3f}")
    print(f"coverage: live {holding / intervals:.3f} of {intervals}, offline {held:.3f} of {int(drawn.sum())}")
    assert intervals > 1000
    assert 0.1 < expected < 0.8, "something is to be measured"
    assert found == pytest.approx(expected, rel=0.1)
    assert holding / intervals == pytest.approx(held, abs=0.03)

    assert len(recorded) == len(documents(partition.records))
    assert_metrics_agree(counted, recorded, rel=0.03)
    regret, means, count = pooled_regret(recorded)
    print_regret(regret, means, count)
    assert count > 5000
    assert regret < 0.05, "the closed form alone is as good on this plant"
