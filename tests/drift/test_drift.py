"""On a drifting stream, no sensor's blend is worse than the better of model and baseline by more than a margin.

Readings take the path of live ones: windows, probes, weights, rows. Errors are measured on withheld cells.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.contract import read_contract
from glaim_stream.core.settings import PROBED_SHARE
from glaim_stream.feed.plant import SENSORS, simulate
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.imputers.local import LocalImputer
from tests.drift.harness import CachingImputer, Stream, errors, gaps

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
