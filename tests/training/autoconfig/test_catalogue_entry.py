"""The catalogue entry of a trained model, read by the catalogue's parser."""

from pathlib import Path

import pytest

from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.contract import Contract, DataFingerprint, SensorContract, sensors_digest
from training.autoconfig.catalogue_entry import Shown, catalogue, entry


def contract(names: list[str], window: int = 96, emitted: int = 16, step_s: float = 60.0, unit: str = "%") -> Contract:
    sensors = [
        SensorContract(id=name, unit=unit, mean=0, std=1, minimum=-1.5, maximum=2, resolution=1e-4) for name in names
    ]
    return Contract(
        name="my-pumps", version=1, window=window, emitted_steps=emitted, step_s=step_s, sensors=sensors,
        sensors_sha256=sensors_digest(names), masks=["block"], metrics={},
        data=DataFingerprint(source="a.csv", rows=1, sha256="0"), torchscript_sha256="0", git_commit="unknown",
        torch_version="2", created="2026-01-01T00:00:00",
    )  # fmt: skip


@pytest.mark.parametrize(("window", "emitted"), [(96, 16), (48, 16), (24, 16), (12, 4), (4, 1), (2, 2)])
@pytest.mark.parametrize("step_s", [0.5, 60.0, 604800.0])
def test_the_entry_is_valid_and_fits_the_model(tmp_path: Path, window: int, emitted: int, step_s: float) -> None:
    trained = contract(["flow"], window, emitted, step_s)
    (tmp_path / "groups.yaml").write_text(entry(trained, ["mine"]))
    catalogue = read_catalogue(tmp_path / "groups.yaml")
    catalogue.models[0].require_contract(trained)
    assert catalogue.model_of("mine") == 0


def test_names_that_look_like_other_yaml_types_stay_strings(tmp_path: Path) -> None:
    names = ["on", "1", "no", "PM2.5", "max. PAR (µmol/m²/s)", 'a "b"', "x: y", "#", "~", "null", "1e3", "2026-01-01"]
    (tmp_path / "groups.yaml").write_text(entry(contract(names), ["7", "yes", "pump-1"]))
    catalogue = read_catalogue(tmp_path / "groups.yaml")
    assert catalogue.models[0].sensor_ids == names
    assert catalogue.models[0].sensors[0].unit == "%"
    assert [catalogue.model_of(group) for group in ("7", "yes", "pump-1", "pump-2")] == [0, 0, 0, None]


@pytest.mark.parametrize("bucket", ["last", "mean"])
def test_the_entry_keeps_the_bucket_of_the_training(tmp_path: Path, bucket: str) -> None:
    (tmp_path / "groups.yaml").write_text(entry(contract(["flow"]), ["mine"], bucket))
    assert read_catalogue(tmp_path / "groups.yaml").models[0].bucket == bucket


def test_directions_have_the_limits_that_mark_them(tmp_path: Path) -> None:
    (tmp_path / "groups.yaml").write_text(entry(contract(["flow", "wind"], unit="deg"), ["mine"], "mean", ("wind",)))
    found = read_catalogue(tmp_path / "groups.yaml").models[0].directions
    assert found is not None
    assert found.tolist() == [False, True]


@pytest.mark.parametrize("unit", ["deg", ""])
def test_directions_from_minus_180_on_have_their_limits(tmp_path: Path, unit: str) -> None:
    given = [Shown("flow", unit, -1.5, 2.0), Shown("yaw", unit, -179.5, 180.0, direction=True)]
    (tmp_path / "groups.yaml").write_text(catalogue("m", 60.0, 96, 9, given, ["mine"], "mean", "a test"))
    found = read_catalogue(tmp_path / "groups.yaml").models[0]
    assert found.sensors[1].limits == (-180.0, 180.0)
    assert found.directions is not None
    assert found.directions.tolist() == [False, True]


def test_each_sensor_has_a_comment_with_its_range_in_training() -> None:
    assert "in training -1.5 to 2" in entry(contract(["flow"]), ["p"])
