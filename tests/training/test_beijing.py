"""Twelve real stations with real gaps, and the model shipped for them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from glaim_stream.core.contract import file_digest, read_contract
from glaim_stream.form import last_value
from tests.data_sets import DATA_SETS
from training.config import read
from training.data import GroupSeries, load, split

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "training" / "configs" / "beijing-air.toml"
DATA = DATA_SETS / "beijing_multisite.parquet"

pytestmark = pytest.mark.skipif(not DATA.is_file(), reason=f"no {DATA.name} in the folder that GLAIM_DATA names")


@pytest.fixture(scope="module")
def stations() -> GroupSeries:
    return load(read(CONFIG).data, DATA)


def test_all_stations_are_read_with_their_real_gaps(stations: GroupSeries) -> None:
    assert stations.values.shape == (12, 11, 35064)
    assert np.isnan(stations.values).sum() == 72_205
    assert stations.step_s == 3600
    assert stations.units[stations.sensors.index("PRES")] == "hPa"


def test_the_shipped_model_was_trained_on_this_file() -> None:
    contract = read_contract(ROOT / "model_repo" / "beijing-air")
    assert contract.data.sha256 == file_digest(DATA)
    contract.require_sensors(read(CONFIG).data.sensors)


@pytest.mark.slow  # quicker: the plant's model in tests/training/serve/test_shipped_models.py
def test_the_shipped_model_beats_last_value_at_the_newest_step(stations: GroupSeries) -> None:
    """One sensor is hidden at the newest hour of the test part; real gaps stay in the windows."""
    contract = read_contract(ROOT / "model_repo" / "beijing-air")
    model = torch.jit.load(str(ROOT / "model_repo" / "beijing-air" / str(contract.version) / "model.pt"))
    test = split(stations, read(CONFIG).data, contract.window).test.values
    std = np.array([sensor.std for sensor in contract.sensors])
    errors: dict[str, list[float]] = {"model": [], "last_value": []}
    for start in range(0, test.shape[-1] - 96, 600):
        windows = np.ascontiguousarray(test[:, :, start : start + 96])
        for sensor in range(windows.shape[1]):
            observed = np.isfinite(windows)
            known = observed[:, sensor, -1].copy()
            observed[:, sensor, -1] = False
            with torch.inference_mode():
                filled = model(torch.from_numpy(windows), torch.from_numpy(observed)).numpy()[:, sensor, -1]
            carried = np.nan_to_num(last_value(windows, observed)[:, sensor, -1], nan=contract.sensors[sensor].mean)
            for name, guess in (("model", filled), ("last_value", carried)):
                errors[name].extend(np.abs(guess - windows[:, sensor, -1])[known] / std[sensor])
    assert len(errors["model"]) > 1000
    assert np.mean(errors["model"]) < np.mean(errors["last_value"])
