"""The data of the demo, its options, and its catalogues."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deploy.cache import CHECKOUT
from deploy.demo.scenario import BEIJING_FILE, CATALOGUES, beijing, plant
from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.contract import CONTRACT_FILE, read_contract
from glaim_stream.core.errors import SettingsError
from glaim_stream.feed.plant import SENSORS

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def stations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file with the layout of the real one: 200 hours, one missing value, a text column."""
    catalogue = read_catalogue(CATALOGUES / "beijing.yaml")
    rng = np.random.default_rng(0)
    columns = {
        "ts": pa.array(np.arange(200) * HOUR_MS, pa.timestamp("ms")),
        "Aotizhongxin.wd": pa.array(["NNW"] * 200),
    }
    for station in catalogue.groups[0].ids:
        for sensor in catalogue.models[0].sensor_ids:
            columns[f"{station}.{sensor}"] = pa.array(rng.uniform(1, 9, 200))
    columns["Gucheng.O3"] = pa.array([*columns["Gucheng.O3"].to_pylist()[:-1], None])
    folder = tmp_path_factory.mktemp("data")
    pq.write_table(pa.table(columns), folder / BEIJING_FILE)
    return folder


def test_plant_depends_on_its_seed() -> None:
    one, same, other = (plant(hours=2, groups=2, seed=seed) for seed in (1, 1, 2))
    assert len(one.source) == 2 * 2 * 60 * len(SENSORS)
    assert one.grid.shape == (2, len(SENSORS), 120)
    assert np.array_equal(one.source.value, same.source.value)
    assert not np.array_equal(one.source.value, other.source.value)


def test_beijing_is_the_end_of_the_file_for_the_selected_stations(stations: Path) -> None:
    found = beijing(stations, hours=10, groups=7)
    assert found.grid.shape == (7, 11, 10)
    assert found.grid.first_ms == 190 * HOUR_MS
    assert len(found.source.groups) == 7
    assert set(found.source.groups) == set(read_catalogue(CATALOGUES / "beijing.yaml").groups[0].ids[:7])
    assert len(found.source) == 7 * 11 * 10 - ("Gucheng" in found.source.groups)


def test_beijing_uses_only_the_test_part(stations: Path) -> None:
    assert beijing(stations, hours=40).grid.steps == 40
    with pytest.raises(SettingsError, match=r"test part .* has 40 hours, --hours asks for 41"):
        beijing(stations, hours=41)


def test_folder_without_the_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=BEIJING_FILE):
        beijing(tmp_path)


@pytest.mark.parametrize("name", ["plant", "beijing"])
def test_catalogues_fit_the_shipped_models(name: str) -> None:
    model = read_catalogue(CATALOGUES / f"{name}.yaml").models[0]
    assert all(sensor.min is not None and sensor.max is not None and sensor.unit for sensor in model.sensors)
    directory = CHECKOUT / "model_repo" / model.name
    if not (directory / CONTRACT_FILE).exists():
        pytest.skip(f"model_repo has no {model.name}: run the training commands of the README first")
    contract = read_contract(directory)
    model.require_contract(contract)
    for sensor, promised in zip(model.sensors, contract.sensors, strict=True):
        assert sensor.unit == promised.unit
        assert sensor.limits[0] <= promised.minimum <= promised.maximum <= sensor.limits[1]


def test_catalogue_of_the_plant_has_the_limits_of_the_simulation() -> None:
    model = read_catalogue(CATALOGUES / "plant.yaml").models[0]
    assert [(s.id, s.unit, s.min, s.max) for s in model.sensors] == [
        (s.id, s.unit, s.minimum, s.maximum) for s in SENSORS
    ]
