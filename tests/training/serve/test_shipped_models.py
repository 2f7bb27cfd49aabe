"""The models in model_repo and their closed forms are complete, match their contracts, and beat the baselines."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from glaim_stream.core.contract import read_contract, require_weights
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.feed.plant import SENSORS, simulate
from glaim_stream.form import ClosedForm, artefact, last_value
from glaim_stream.health import with_habits
from glaim_stream.health.stored import unpack
from glaim_stream.models import DiskFolder, open_sealed, read_sealed_form
from training.export import BACKEND

REPOSITORY = Path(__file__).parents[3] / "model_repo"
MODELS = sorted(path for path in REPOSITORY.iterdir() if (path / "config.pbtxt").is_file())


@pytest.mark.parametrize("directory", MODELS, ids=lambda path: path.name)
def test_a_shipped_model_matches_its_contract(directory: Path) -> None:
    contract = read_contract(directory)
    weights = directory / str(contract.version) / "model.pt"
    require_weights(contract, weights.read_bytes())
    assert weights.stat().st_size < 12_000_000, "an inverse covariance of 1,056 cells in float64 takes 8.9 MB"
    assert contract.name == directory.name
    assert (directory / str(contract.version) / "model.py").read_bytes() == BACKEND.read_bytes()
    for config in ("config.pbtxt", "configs/cpu.pbtxt", "configs/python.pbtxt"):
        text = (directory / config).read_text()
        assert f'name: "{contract.name}"' in text
        assert len(re.findall(rf"dims: \[ {len(contract.sensors)}, {contract.window} \]\n", text)) == 2
        assert f"dims: [ {len(contract.sensors)}, {contract.emitted_steps} ]" in text
    for case in ("random_0.3", "block_0.3", "edge_one"):
        scores = contract.metrics[case]
        for metric in ("mse", "mae"):
            assert scores["model"][metric] < min(scores[name][metric] for name in ("interpolation", "last_value"))


@pytest.mark.parametrize("directory", MODELS, ids=lambda path: path.name)
def test_a_shipped_models_manifest_attests_every_file(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / directory.name
    shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for version in (int(path.name) for path in directory.iterdir() if path.name.isdigit()):
        paths = attested(copy, version)
        assert {f"{version}/model.pt", f"{version}/model.py", "config.pbtxt"} <= paths
        written = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
        apart = {path for path in written if path.startswith("gaussian.") or path == "contract.json"}
        assert written - apart == paths
        with (copy / str(version) / "model.py").open("a") as file:
            file.write("\n")
        with pytest.raises(ModelError, match=r"model\.py"):
            attested(copy, version)


def attested(folder: Path, version: int) -> set[str]:
    sealed = open_sealed(DiskFolder(folder), folder.name, version, Trust(require_manifest=True), str(folder))
    assert sealed is not None
    return set(sealed.contents)


@pytest.mark.parametrize("directory", MODELS, ids=lambda path: path.name)
def test_a_shipped_model_fills_windows_of_its_sensors(directory: Path) -> None:
    contract = read_contract(directory)
    model = torch.jit.load(str(directory / str(contract.version) / "model.pt"))
    shape = (3, len(contract.sensors), contract.window)
    mean = torch.tensor([sensor.mean for sensor in contract.sensors]).view(1, -1, 1)
    observed = torch.rand(shape) > 0.3
    values = torch.where(observed, mean.expand(shape), torch.tensor(float("nan")))
    with torch.inference_mode():
        filled = model(values, observed)
    assert filled.shape == (3, len(contract.sensors), contract.emitted_steps)
    assert torch.isfinite(filled).all()


@pytest.mark.parametrize("directory", MODELS, ids=lambda path: path.name)
def test_a_shipped_closed_form_fits_its_model(directory: Path) -> None:
    contract, form = read_contract(directory), ClosedForm.load(directory)
    assert form.sensors == tuple(sensor.id for sensor in contract.sensors)
    assert (form.steps, form.step_ms) == (contract.window, 1000 * contract.step_s)
    mean = np.array([sensor.mean for sensor in contract.sensors])[:, None]
    observed = np.random.default_rng(0).random((3, len(form.sensors), form.steps)) > 0.3
    values = np.broadcast_to(mean, observed.shape).astype(np.float64)
    filled = form.fill(values, observed, np.arange(3) * form.step_ms)
    assert np.isfinite(filled.mean).all()
    assert (filled.deviation[~observed] > 0).all()


def test_the_plants_model_and_closed_form_beat_last_value_on_unseen_days() -> None:
    contract = read_contract(REPOSITORY / "plant-pump")
    contract.require_sensors([sensor.id for sensor in SENSORS])
    assert contract.step_s == 60
    plant = simulate(1.0, seed=987)
    model = torch.jit.load(str(REPOSITORY / "plant-pump" / str(contract.version) / "model.pt"))
    std = np.array([sensor.std for sensor in contract.sensors])
    form = ClosedForm.load(REPOSITORY / "plant-pump")
    errors = {"model": 0.0, "gaussian": 0.0, "last_value": 0.0}
    for sensor in range(len(SENSORS)):
        windows = np.stack([plant.values[:, :, start : start + 96] for start in range(0, 1340, 60)]).reshape(-1, 8, 96)
        observed = np.ones(windows.shape, np.bool_)
        observed[:, sensor, -1] = False
        with torch.inference_mode():
            filled = model(torch.from_numpy(windows), torch.from_numpy(observed)).numpy()[:, sensor, -1]
        at_ms = np.zeros(len(windows), np.int64)
        by_form = form.fill(windows.astype(np.float64), observed, at_ms, newest=1).mean[:, sensor, -1]
        carried = last_value(windows, observed)[:, sensor, -1]
        for name, guess in (("model", filled), ("gaussian", by_form), ("last_value", carried)):
            errors[name] += float(np.abs(guess - windows[:, sensor, -1]).mean() / std[sensor])
    assert max(errors["model"], errors["gaussian"]) < 0.9 * errors["last_value"]


@pytest.mark.parametrize("directory", MODELS, ids=lambda path: path.name)
def test_a_shipped_closed_form_knows_the_habits_of_its_sensors(directory: Path) -> None:
    """So sensor health is judged in the demo and in Compose; the manifest lists the file as it is."""
    content = read_sealed_form(directory, Trust(require_manifest=True))
    assert content is not None
    form = ClosedForm.from_bytes(content, directory.name)
    habits = unpack(artefact.from_bytes(content, directory.name), form)
    assert habits is not None
    assert all(judged.all() for judged in habits.judged.values())
    assert len(with_habits(content, None)) > len(content) - 20_000
