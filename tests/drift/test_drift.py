"""On drifting streams, no sensor's blend is worse than the better of model and baseline by more than a margin.

Readings take the path of live ones: windows, probes, weights, rows. Errors are measured on withheld cells.
"""

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.catalogue import Catalogue, parse_catalogue, read_catalogue
from glaim_stream.core.contract import read_contract
from glaim_stream.core.settings import PROBED_SHARE
from glaim_stream.feed.plant import SENSORS, simulate
from glaim_stream.imputers import Imputed, Interpolation, Ladder, Windows
from glaim_stream.imputers.local import LocalImputer
from glaim_stream.output import Method
from tests.drift.harness import CachingImputer, Stream, errors, gaps

CHECKOUT = Path(__file__).parents[2]
SHARE = PROBED_SHARE
MARGIN = 0.35  # relative to MAE, per sensor, provisional and final separately; see docs/decisions/blend.md
MEAN_MARGIN = 0.05  # mean over all sensors
SINGLE_GROUP_MEAN_MARGIN = 0.25  # over the sensors when there is only one group
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


class Gaussian:
    """A fitted linear model: the mean of missing values given the values observed at this step and the previous one."""

    def __init__(self, training: np.ndarray) -> None:
        """Fit to rows [T, C] without gaps."""
        pairs = np.concatenate([training[1:], training[:-1]], axis=1)
        self._mean, covariance = pairs.mean(axis=0), np.cov(pairs.T)
        self._covariance = covariance + 1e-3 * np.diag(np.diag(covariance))

    async def impute(self, windows: Windows) -> Imputed:
        """See Imputer."""
        seen, values = windows.observed, windows.values.astype(np.float64)
        sensors = values.shape[1]
        out = values[..., -windows.steps :].copy()
        for row in range(len(windows)):
            for place in range(windows.steps):
                at = values.shape[2] - windows.steps + place
                known = np.concatenate([seen[row, :, at], seen[row, :, at - 1]])
                given = np.concatenate([values[row, :, at], values[row, :, at - 1]])
                unknown = np.flatnonzero(~known[:sensors])
                if len(unknown):
                    between = self._covariance[np.ix_(unknown, known)]
                    within = self._covariance[np.ix_(known, known)]
                    known_off = given[known] - self._mean[known]
                    out[row, unknown, place] = self._mean[unknown] + between @ np.linalg.solve(within, known_off)
        return Imputed(out.astype(np.float32), np.full(out.shape, Method.MODEL, np.int8), ["1"] * len(windows))


@pytest.mark.parametrize(
    ("file", "most", "each_within"), [("exchange_rate.csv", 1200, MARGIN), ("national_illness.csv", 500, None)]
)
async def test_the_blend_keeps_up_with_the_better_method_on_drifting_data_sets(
    file: str, most: int, each_within: float | None
) -> None:
    """With one group, each sensor has few scored cells: Illness withholds 7 to 64, so a single gap can decide."""
    data = Path(os.environ.get("GLAIM_DATA", "data")) / file
    if not data.is_file():
        pytest.skip(f"GLAIM_DATA has no {file}")
    with data.open() as lines:
        header, *rows = list(csv.reader(lines))
    table = np.array([row[1:] for row in rows], np.float64)
    fitted, streamed = table[:-most], table[-most:]
    values = streamed.T[None]
    stream = Stream(["all"], header[1:], 1000, values, gaps(values.shape, 4))
    ways: dict[str, Any] = {"model": (CachingImputer(Gaussian(fitted)), 0.0), "baseline": (INTERPOLATION, 0.0)}
    ways["blend"] = (ways["model"][0], SHARE)
    found = await errors(stream, _catalogue(header[1:]), {}, ways, after=100)
    worst = excess(found)
    assert worst.mean() < SINGLE_GROUP_MEAN_MARGIN, worst
    assert each_within is None or worst.max() < each_within, worst
    worse = np.maximum(found["model"], found["baseline"])
    assert (found["blend"] < worse).mean() > 0.85


def _catalogue(sensors: list[str]) -> Catalogue:
    model = {"name": "m", "sensors": [{"id": sensor} for sensor in sensors], "step_s": 1, "max_gap": 24}
    return parse_catalogue(
        {"models": [model], "groups": [{"model": "m", "ids": ["all"]}], "max_ahead_s": 1e9}, source="test"
    )
