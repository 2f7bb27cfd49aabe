"""On a drifting stream, no sensor's blend is worse than the better of model and baseline by more than a margin.

Readings take the path of live ones: windows, probes, weights, rows. Errors are measured on withheld cells.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Catalogue, read_catalogue
from glaim_stream.core.contract import Contract, read_contract
from glaim_stream.core.settings import PROBED_SHARE
from glaim_stream.feed.plant import SENSORS, simulate
from glaim_stream.imputers import Imputed, Interpolation, Ladder, WindowImputer, Windows
from glaim_stream.imputers.local import LocalImputer
from glaim_stream.pipeline import Pipeline
from tests.support import Record

Floats = NDArray[np.float64]


class CachingImputer:
    """An imputer with a cache of windows, because two runs differ in few of them."""

    def __init__(self, imputer: WindowImputer) -> None:
        self._imputer = imputer
        self._known: dict[bytes, tuple[NDArray[np.float32], NDArray[np.int8], str]] = {}

    async def impute(self, windows: Windows) -> Imputed:
        """Impute the windows that are not in the cache."""
        keys = [
            hashlib.blake2b(values.tobytes() + seen.tobytes()).digest()
            for values, seen in zip(windows.values, windows.observed, strict=True)
        ]
        new = [place for place, key in enumerate(keys) if key not in self._known]
        for start in range(0, len(new), 64):
            part = new[start : start + 64]
            chosen = Windows(windows.model, windows.values[part], windows.observed[part], windows.steps)
            answer = await self._imputer.impute(chosen)
            self._known |= {
                keys[place]: (answer.values[row], answer.method[row], answer.version[row])
                for row, place in enumerate(part)
            }
        values, methods, versions = zip(*(self._known[key] for key in keys), strict=True)
        return Imputed(np.stack(values), np.stack(methods), list(versions))


@dataclass(frozen=True)
class Stream:
    """A stream of values float64 [G, C, T]; hidden, bool of the same shape, marks cells withheld from the pipeline."""

    groups: Sequence[str]
    sensors: Sequence[str]
    step_ms: int
    values: Floats
    hidden: NDArray[np.bool_]

    def records(self) -> list[Record]:
        """One record per group and step."""
        out = []
        for step in range(self.values.shape[2]):
            for row, group in enumerate(self.groups):
                shown = np.flatnonzero(~self.hidden[row, :, step])
                if len(shown):
                    values = {self.sensors[sensor]: float(self.values[row, sensor, step]) for sensor in shown}
                    document = {"group": group, "ts": step * self.step_ms, "values": values}
                    out.append(Record(json.dumps(document).encode(), len(out)))
        return out


def gaps(
    shape: tuple[int, int, int], seed: int, *, sensor_rate: float = 0.06, group_rate: float = 0.01
) -> NDArray[np.bool_]:
    """Draw gaps of single sensors (1 to 12 steps) and whole groups (1 to 6 steps) at these shares of hidden cells."""
    rng = np.random.default_rng(seed)
    hidden = np.zeros(shape, np.bool_)
    for rate, longest, wide in ((sensor_rate / 6, 12, False), (group_rate / 3, 6, True)):
        begins = rng.random((shape[0], 1 if wide else shape[1], shape[2])) < rate
        length = rng.integers(1, longest + 1, begins.shape)
        for group, sensor, step in np.argwhere(begins).tolist():
            until = step + int(length[group, sensor, step])
            hidden[group, slice(None) if wide else sensor, step:until] = True
    hidden[:, :, :8] = False
    return hidden


async def errors(
    stream: Stream,
    catalogue: Catalogue,
    contracts: Mapping[str, Contract],
    ways: Mapping[str, tuple[WindowImputer, float]],
    *,
    after: int,
) -> dict[str, Floats]:
    """MAE of each way (imputer and score share) by sensor and revision, [C, 2]: provisional and final.

    Scored are the withheld cells from step `after` on that every way has filled.
    """
    names = {name: row for row, name in enumerate(stream.groups)}
    found: dict[str, Floats] = {}
    for way, (imputer, share) in ways.items():
        pipeline = Pipeline(catalogue, contracts, imputer, score_share=share)
        windows, scores = pipeline.windows(), pipeline.scores()
        imputed = np.full((*stream.values.shape, 2), np.nan)
        records = stream.records()
        for start in range(0, len(records), 200):
            applied = pipeline.apply(windows, records[start : start + 200], now_ms=10**9)
            assert applied.rejects == []
            for _, rows in pipeline.settle(scores, await pipeline.query(applied.closed, applied.probes)):
                group = np.array([names[pipeline.index.names[code]] for code in rows.group.tolist()], np.int64)
                place = (group, rows.sensor, rows.ts_ms // stream.step_ms, rows.revision)
                imputed[tuple(each[~rows.observed] for each in place)] = rows.value[~rows.observed]
        found[way] = imputed
    scored = stream.hidden & np.all([np.isfinite(imputed).all(axis=-1) for imputed in found.values()], axis=0)
    scored[:, :, :after] = False
    out = {}
    for way, imputed in found.items():
        error = np.where(scored[..., None], np.abs(imputed - stream.values[..., None]), 0.0)
        out[way] = error.sum(axis=(0, 2)) / np.maximum(scored.sum(axis=(0, 2)), 1)[:, None]
    return out


CHECKOUT = Path(__file__).parents[2]
SHARE = PROBED_SHARE
MARGIN = 0.35  # relative to MAE, per sensor, provisional and final separately; see docs/decisions/blend.md
MEAN_MARGIN = 0.05  # mean over all sensors
INTERPOLATION = Ladder([Interpolation()])


def drifting_plant(groups: int, steps: int, seed: int) -> Stream:
    """Simulate pumps that have changed since the training.

    The motor is replaced halfway, one transmitter drifts, the room temperature alternates, and for a while the pump
    vibrates more.
    """
    plant = simulate(steps / 1440, groups=groups, seed=seed)
    values = plant.values.astype(np.float64)
    row = {sensor: place for place, sensor in enumerate(plant.sensor_ids)}
    at = np.arange(steps)
    values[:, row["motor_current"]] *= np.where(at > steps / 2, 1.5, 1.0)
    values[:, row["discharge_pressure"]] += 6.0 * at / steps
    values[:, row["bearing_temperature"]] += 25.0 * ((at // 300) % 2)
    values[:, row["vibration"]] += 8.0 * ((at > 0.4 * steps) & (at < 0.8 * steps))
    low, high = ([[getattr(sensor, name)] for sensor in SENSORS] for name in ("minimum", "maximum"))
    values = np.clip(values, low, high)
    return Stream(plant.groups, plant.sensor_ids, 60_000, values, gaps(values.shape, seed))


def excess(found: dict[str, np.ndarray]) -> np.ndarray:
    """Relative excess of the blend's error over that of the better single method, [C, 2]."""
    return found["blend"] / np.minimum(found["model"], found["baseline"]) - 1


@pytest.mark.slow
async def test_the_blend_keeps_up_with_the_better_method_on_a_drifting_plant() -> None:
    """The seed was not used before the margin was fixed; a least-squares blend was 57 % worse than one method there."""
    pytest.importorskip("torch", reason="the extra `local` is not installed")
    catalogue = read_catalogue(CHECKOUT / "deploy" / "catalogues" / "plant.yaml")
    contracts = {"plant-pump": read_contract(CHECKOUT / "model_repo" / "plant-pump")}
    model = CachingImputer(LocalImputer(CHECKOUT / "model_repo", contracts))
    ways: dict[str, Any] = {"model": (model, 0.0), "baseline": (INTERPOLATION, 0.0), "blend": (model, SHARE)}
    found = await errors(drifting_plant(6, 700, seed=106), catalogue, contracts, ways, after=200)
    model_wins = found["model"] < found["baseline"]
    assert model_wins.any()
    assert not model_wins.all(), "the test needs sensors where the model wins and others where it loses"
    worst = excess(found)
    assert worst.max() < MARGIN, worst
    assert worst.mean() < MEAN_MARGIN
