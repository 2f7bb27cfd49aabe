"""One command turns a plant's CSV with gaps into a model that a worker and Triton can serve."""

import asyncio
import csv
import tomllib
from pathlib import Path

import numpy as np
import pytest

from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.contract import read_contract
from glaim_stream.feed.plant import SENSORS, simulate
from glaim_stream.imputers import Windows
from glaim_stream.imputers.local import LocalImputer
from tests.training.fake_triton import request, start
from training.autoconfig import from_file
from training.data import load
from training.errors import ConfigError
from training.fit import command as fit

TINY = "model.d_model=8 model.ffn=8 model.heads=2 model.d_psi=8 model.d_g=2 model.window=32 train.validation_windows=20"


@pytest.fixture
def plant_csv(tmp_path: Path) -> Path:
    """Ten hours of one pump with lost readings, a sensor silent for an hour, and two steps without a row."""
    plant = simulate(10 / 24, groups=1, seed=5)
    rng = np.random.default_rng(5)
    values = plant.values[0].T.astype(object)
    values[rng.random(values.shape) < 0.05] = ""
    values[100:160, 2] = ""
    path = tmp_path / "Pump 7.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Timestamp", *(sensor.id for sensor in SENSORS), "operator"])
        for row, time_ms in enumerate(plant.times_ms):
            if row not in (300, 301):
                writer.writerow([str(np.datetime64(int(time_ms), "ms")), *values[row], "anna"])
    return path


@pytest.mark.slow  # quicker: tests/training/fit/test_fit.py
def test_one_file_becomes_a_report_and_a_served_model(
    plant_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small = [f"--set={setting}" for setting in TINY.split()]
    small.append("--set=train.epochs=2")  # of the minutes most are spare: a busy machine takes longer before the first
    assert fit.main(["--data", str(plant_csv), "--minutes", "3", "--force-export", *small]) == 0
    output = capsys.readouterr().out
    for line in (
        "guessed: time is 'Timestamp'", "guessed: it names no groups: all of it belongs to the group 'Pump 7'",
        "guessed: left out: operator (no numbers)", "found: 1 group(s) of 8 sensors, 600 steps of 60 s",
        "deployment masks", "glaim-stream worker --imputer local --catalogue build/runs/Pump-7/groups.yaml",
    ):  # fmt: skip
        assert line in output
    run = tmp_path / "build" / "runs" / "Pump-7"
    assert "<html" in (run / "report.html").read_text()[:500].lower()

    contract = read_contract(tmp_path / "model_repo" / "Pump-7")
    assert contract.sensor_ids == [sensor.id for sensor in SENSORS]
    assert contract.residual_quantiles is not None
    catalogue = read_catalogue(run / "groups.yaml")
    catalogue.models[0].require_contract(contract)
    assert catalogue.model_of("Pump 7") == 0

    values = np.random.default_rng(0).standard_normal((3, 8, 32)).astype(np.float32)
    observed = np.random.default_rng(1).random(values.shape) > 0.4
    backend = start(tmp_path / "model_repo" / "Pump-7" / "1", 8, 32, monkeypatch)
    answer = backend.execute([request(VALUES=values, OBSERVED=observed)])[0].outputs[0].array
    assert answer.shape == (3, 8, contract.emitted_steps)
    assert np.isfinite(answer).all()
    local = LocalImputer(tmp_path / "model_repo", {"Pump-7": contract})
    filled = asyncio.run(local.impute(Windows("Pump-7", values, observed, contract.emitted_steps)))
    np.testing.assert_allclose(filled.values, answer, rtol=1e-5)


def test_print_config_writes_the_guesses_as_a_configuration(
    plant_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert fit.main(["--data", str(plant_csv), "--epochs", "3", "--missing", "-9999", "--print-config"]) == 0
    shown = capsys.readouterr()
    assert "guessed: time is 'Timestamp'" in shown.err
    tables = tomllib.loads(shown.out)
    assert tables["name"] == "Pump-7"
    assert tables["data"]["time"] == "Timestamp"
    assert tables["data"]["sentinels"] == [-9999.0]
    assert tables["masks"]["pattern"] == "deployment"
    assert tables["train"]["epochs"] == 3
    assert tables["export"]["version"] == 0
    assert not (tmp_path / "build").exists()


def test_stated_settings_override_guesses(plant_csv: Path) -> None:
    stated = {
        "name": "mine",
        "data": {"file": str(plant_csv), "sensors": ["flow", "speed"]},
        "masks": {"pattern": "block"},
        "model": {"layers": 3},
        "train": {"epochs": 1},
        "export": {"version": 4},
    }
    messages: list[str] = []
    config = from_file.configure(stated, messages.append)
    assert (config.name, config.data.sensors, config.data.time) == ("mine", ("flow", "speed"), "Timestamp")
    assert (config.masks.pattern, config.model.layers, config.train.epochs, config.export.version) == ("block", 3, 1, 4)
    assert config.model.own_form  # not stated, so from the recipe


def test_a_spreadsheet_export_with_semicolons_and_decimal_commas_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    flow, level = rng.normal(20, 2, (2, 900))
    lines = ["Zeit;Durchfluss;Füllstand;Zustand", ";m³/h;m;"]
    for row in range(900):
        seen = "Bad" if row % 50 == 7 else "" if row % 50 == 9 else f"{flow[row]:.2f}".replace(".", ",")
        clock = f"{row // 96 + 1:02d}.11.2026 {row % 96 // 4:02d}:{row % 4 * 15:02d}"
        lines.append(f"{clock};{seen};{f'{level[row]:.2f}'.replace('.', ',')};läuft")
    path = tmp_path / "Pumpe.csv"
    path.write_bytes("\n".join(lines).encode("latin-1"))
    messages: list[str] = []
    config = from_file.configure({"data": {"file": str(path)}}, messages.append, minutes=0.01)
    for line in (
        "guessed: columns separated by semicolons",
        "guessed: encoded in latin-1",
        "guessed: units in the line below the names",
        "guessed: decimal commas in Durchfluss, Füllstand",
        "guessed: no value in 'Durchfluss': 'Bad', among its numbers",
        "guessed: time is 'Zeit', read as day, month, year, the first is 2026-11-01T00:00:00Z",
        "guessed: left out: Zustand (no numbers)",
    ):  # fmt: skip
        assert line in messages
    assert config.data.no_value == ("Bad",)
    series = load(config.data, path)
    assert (series.sensors, series.step_s, series.rows) == (("Durchfluss", "Füllstand"), 900, 900)
    assert series.units == ("m³/h", "m")
    assert np.isnan(series.values[0, 0]).sum() == 36
    np.testing.assert_allclose(series.values[0, 1], level, atol=0.006)


def test_several_processes_need_a_stated_configuration(plant_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="--print-config"):
        from_file.configure({"data": {"file": str(plant_csv)}}, print)


def test_minutes_are_rejected_beside_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "a.toml"
    config.write_text('[data]\nfile = "a.csv"\n')
    assert fit.main([str(config), "--minutes", "3"]) == 2
    assert "a configuration states its own" in capsys.readouterr().err


def test_a_file_without_a_configuration_is_read_without_doubtful_readings(plant_csv: Path) -> None:
    say = list[str]().append
    for stated, expected in (({}, True), ({"plausibility": False}, False)):
        made = from_file.configure({"data": {"file": str(plant_csv), **stated}}, say, minutes=1, network=False)
        assert made.data.plausibility is expected
