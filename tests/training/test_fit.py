"""The command: one file in, a served model out, in seconds; and errors that a person can act on."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from glaim_stream.contract import read_contract, verify_weights
from training import evaluate, export, fit
from training.config import RunConfig

SETTINGS = (
    "model.d_model=8 model.layers=1 model.ffn=8 model.heads=2 model.d_psi=8 model.d_g=2 model.window=32 "
    "model.large_kernel=7 train.iterations=5 train.validation_windows=20 data.split=[0.6,0.2,0.2]"
)
SMALL = [*(f"--set={setting}" for setting in SETTINGS.split()), "--masks=deployment", "--epochs=2", "--force-export"]


def arguments(path: Path, tmp_path: Path, *more: str) -> list[str]:
    places = {"--data": path, "--out": tmp_path / "run", "--model-repo": tmp_path / "repo"}
    return ["--name", "mine", *(str(part) for pair in places.items() for part in pair), *SMALL, *more]


def test_one_command_from_a_csv_to_a_served_model(
    wide_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit.main(arguments(wide_csv, tmp_path)) == 0
    run, model = tmp_path / "run", tmp_path / "repo" / "mine"
    with (run / "curves.csv").open() as file:
        assert [int(row["epoch"]) for row in csv.DictReader(file)] == [1, 2]
    report = json.loads((run / "mine.json").read_text())
    assert set(report["cases"]) == {"random_0.3", "block_0.3", "edge_one", "edge_all", "silent_one"}
    assert set(report["cases"]["edge_one"]["methods"]) == {"model", "interpolation", "last_value", "mean"}
    assert str(tmp_path) not in (run / "mine.md").read_text() + (run / "mine.json").read_text()
    contract = read_contract(model)
    verify_weights(contract, model / "1" / "model.pt")
    assert contract.sensor_ids == ["s0", "s1", "s2"]
    assert contract.step_s == 60
    assert contract.emitted_steps == 16
    assert contract.residual_quantiles is not None
    assert contract.metrics["edge_one"]["last_value"]["mae"] > 0
    served = torch.jit.load(str(model / "1" / "model.pt"))
    values = torch.tensor(np.random.default_rng(0).standard_normal((2, 3, 32)), dtype=torch.float32)
    assert served(values, torch.rand(2, 3, 32) > 0.3).shape == (2, 3, 16)
    output = capsys.readouterr().out
    assert "epoch 2/2" in output
    assert "| newest step, one sensor |" in output

    # Scoring and exporting again from the checkpoint, as an operator would.
    assert evaluate.main([str(run), "--windows", "50", "--results", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "mine.md").is_file()
    again = [str(run), "--model-repo", str(tmp_path / "repo2")]
    assert export.main(again) == 3  # ten iterations beat nothing
    assert "refused: mine does not beat the baselines" in capsys.readouterr().err
    assert not (tmp_path / "repo2").exists()
    assert export.main([*again, "--force"]) == 0
    assert read_contract(tmp_path / "repo2" / "mine").residual_quantiles == contract.residual_quantiles


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--time", "stamp"], "expected time column 'stamp', found columns time, s0, s1, s2"),
        (["--set", 'data.sensors=["s0", "pressure"]'], "expected sensor column 'pressure'"),
        (["--set", "model.window=400"], "a window of 400 steps is longer than the validation part"),
        (["--set", "train.epoch=3"], "[train] has no setting epoch"),
        (["--masks", "blocks"], "found 'blocks'"),
        (["--resume"], "expected a checkpoint"),
        (["--layout", "long"], "expected long-format column"),
    ],
)
def test_a_mistake_is_a_sentence_exit_code_2_and_nothing_written(
    wide_csv: Path, tmp_path: Path, more: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.iterdir())
    assert fit.main(arguments(wide_csv, tmp_path, *more)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert says in error
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_without_any_reading_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("time,a,b\n" + "".join(f"{step * 1000},,\n" for step in range(500)))
    assert fit.main(arguments(path, tmp_path)) == 2
    assert "no observed value" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_configuration_can_be_looked_at_without_running(capsys: pytest.CaptureFixture[str]) -> None:
    assert fit.main(["--show-config", "--epochs", "7", "--data", "1.csv"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["train"]["epochs"] == 7
    assert shown["data"]["file"] == "1.csv"
    assert set(shown) == set(RunConfig.__dataclass_fields__)


def test_help_is_a_manual(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fit.main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for word in ("--separator", "--resume", "curves.csv", "GLAIM_DATA", "long", "--set"):
        assert word in text
