"""The command `training.fit`: from a data file to a served model, and error messages that name the remedy."""

import csv
import json
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.contract import read_contract, require_weights
from glaim_stream.core.trust import Trust
from glaim_stream.form import ClosedForm
from glaim_stream.imputers import WatchedForm
from training import checkpoint as checkpoints
from training import evaluate, export
from training.config import RunConfig, read
from training.fit import command as fit

SETTINGS = (
    "model.d_model=8 model.layers=1 model.ffn=8 model.heads=2 model.d_psi=8 model.d_g=2 model.window=32 "
    "model.large_kernel=7 train.iterations=5 train.validation_windows=20 data.split=[0.6,0.2,0.2]"
)
SMALL = [*(f"--set={setting}" for setting in SETTINGS.split()), "--masks=deployment", "--epochs=2", "--force-export"]


def arguments(path: Path, tmp_path: Path, *more: str) -> list[str]:
    places = {"--data": path, "--out": tmp_path / "run", "--model-repo": tmp_path / "repo"}
    return ["--name", "mine", *(str(part) for pair in places.items() for part in pair), *SMALL, *more]


def test_one_command_turns_a_csv_into_a_served_model(
    wide_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit.main(arguments(wide_csv, tmp_path, "--set=model.residual=true")) == 0  # not over the closed form
    run, model = tmp_path / "run", tmp_path / "repo" / "mine"
    with (run / "curves.csv").open() as file:
        assert [int(row["epoch"]) for row in csv.DictReader(file)] == [1, 2]
    report = json.loads((run / "mine.json").read_text())
    assert set(report["cases"]) == {"random_0.3", "block_0.3", "edge_one", "edge_all", "silent_one"}
    assert set(report["cases"]["edge_one"]["methods"]) == {"model", "gaussian", "interpolation", "last_value", "mean"}
    assert str(tmp_path) not in (run / "mine.md").read_text() + (run / "mine.json").read_text()
    contract = read_contract(model)
    require_weights(contract, (model / "1" / "model.pt").read_bytes())
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
    assert output.index("gaussian.npz can be served now") < output.index("epoch 1/2")
    assert ClosedForm.load(model).digest == ClosedForm.load(run).digest
    assert "<th>closed form</th>" in (run / "report.html").read_text()
    assert "| newest step, one sensor |" in output

    # Score and export again from the checkpoint, as an operator would.
    assert evaluate.main([str(run), "--windows", "50", "--results", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "mine.md").is_file()
    again = [str(run), "--model-repo", str(tmp_path / "repo2")]
    assert export.main(again) == 3  # ten iterations do not beat the baselines
    assert "refused: mine does not beat the baselines" in capsys.readouterr().err
    assert not (tmp_path / "repo2").exists()
    assert export.main([*again, "--force"]) == 0
    assert read_contract(tmp_path / "repo2" / "mine").residual_quantiles == contract.residual_quantiles


@pytest.mark.slow  # quicker: the network without a closed form
def test_the_network_over_the_closed_form_is_served_as_any_other(
    wide_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its model file fills the holes itself, so that after ten iterations its answers are near the closed form's."""
    assert fit.main(arguments(wide_csv, tmp_path)) == 0
    state = checkpoints.load(tmp_path / "run" / "best.pt")
    assert json.loads(state.config)["model"]["own_form"]
    report = json.loads((tmp_path / "run" / "mine.json").read_text())
    case = report["cases"]["random_0.3"]["methods"]
    assert case["model"]["mse"] < 1.5 * case["gaussian"]["mse"]
    assert case["model"]["mse"] < 0.9 * case["interpolation"]["mse"]
    model = tmp_path / "repo" / "mine"
    require_weights(read_contract(model), (model / "1" / "model.pt").read_bytes())
    served = torch.jit.load(str(model / "1" / "model.pt"))
    assert torch.equal(served.state_dict()["model.share"], state.averaged["share"])
    values = torch.tensor(np.random.default_rng(0).standard_normal((2, 3, 32)), dtype=torch.float32)
    observed = torch.rand(2, 3, 32) > 0.3
    holes = torch.where(observed, values, torch.full_like(values, float("nan")))
    torch.testing.assert_close(served(holes, observed), served(values, observed))
    assert "closed form of fold-3" in capsys.readouterr().out


def test_gaussian_stops_after_the_closed_form(
    wide_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit.main([*arguments(wide_csv, tmp_path), "--model", "gaussian"]) == 0
    run, model = tmp_path / "run", tmp_path / "repo" / "mine"
    assert {file.name for file in run.iterdir()} == {"mine.json", "mine.md", "groups.yaml", "gaussian.npz"}
    assert {file.name for file in model.iterdir()} == {"gaussian.npz", "gaussian.manifest.json"}
    report = json.loads((run / "mine.json").read_text())
    assert set(report["cases"]["edge_one"]["methods"]) == {"gaussian", "interpolation", "last_value", "mean"}
    assert "the closed form alone, fitted in" in (run / "mine.md").read_text()
    assert "| hidden | closed form | linear interpolation |" in capsys.readouterr().out
    served = read_catalogue(run / "groups.yaml").models[0]
    watched = WatchedForm(model, served, Trust())
    assert watched.form is not None
    assert watched.form.digest == ClosedForm.load(run).digest


def test_gaussian_needs_no_configuration_beside_a_file(wide_csv: Path, tmp_path: Path) -> None:
    places = ["--data", str(wide_csv), "--out", str(tmp_path / "run"), "--model-repo", str(tmp_path / "repo")]
    assert fit.main([*places, "--model", "gaussian"]) == 0
    assert (tmp_path / "repo" / wide_csv.stem / "gaussian.npz").is_file()


def test_a_network_that_loses_to_the_closed_form_is_not_exported(
    wide_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weak = [word for word in arguments(wide_csv, tmp_path, "--set=train.learning_rate=0.3") if word != "--force-export"]
    assert fit.main(weak) == 0  # the closed form is of use
    assert {file.name for file in (tmp_path / "repo" / "mine").iterdir()} == {"gaussian.npz", "gaussian.manifest.json"}
    assert "the network does not beat the closed form and is not exported" in capsys.readouterr().out
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.slow  # quicker: tests/training/serve/test_verdict.py
def test_exit_code_3_when_nothing_beats_the_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A random walk: the last value and the line between two values are the best answers there are."""
    walk = np.random.default_rng(3).standard_normal((900, 2)).cumsum(axis=0)
    stamps = np.datetime64("2026-01-01T00:00") + np.arange(900)
    rows = [f"{stamp},{a:.4f},{b:.4f}" for stamp, (a, b) in zip(stamps, walk, strict=True)]
    file = tmp_path / "walk.csv"
    file.write_text("\n".join(["time,a,b", *rows]) + "\n")
    assert fit.main([word for word in arguments(file, tmp_path) if word != "--force-export"]) == 3
    assert "baselines" in capsys.readouterr().err


def test_the_closed_form_never_sees_the_rows_after_the_training_part(wide_csv: Path, tmp_path: Path) -> None:
    """A file without the test rows gives the same artefact, to its digest."""
    header, *rows = wide_csv.read_text().splitlines()
    cut = tmp_path / "cut.csv"
    cut.write_text("\n".join([header, *rows[:720]]) + "\n")
    digests = []
    for number, (path, parts) in enumerate([(wide_csv, [540, 180, 180]), (cut, [540, 90, 90])]):
        place = tmp_path / str(number)
        given = [*arguments(path, place), "--model", "gaussian", f"--set=data.rows={parts}"]
        assert fit.main(given) == 0
        digests.append(ClosedForm.load(place / "repo" / "mine").digest)
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--time", "stamp"], "expected time column 'stamp', found columns time, s0, s1, s2"),
        (["--set", 'data.sensors=["s0", "pressure"]'], "expected numbers in the columns pressure, found none"),
        (["--set", "model.window=400"], "a window of 400 steps is longer than the validation part"),
        (["--set", "train.epoch=3"], "[train] has no setting epoch"),
        (["--masks", "blocks"], "found 'blocks'"),
        (["--sensor", "tag"], "expected the columns 'tag' and 'value', found columns s0, s1, s2"),
    ],
)
def test_a_mistake_gives_an_error_message_exit_code_2_and_no_files(
    wide_csv: Path, tmp_path: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.iterdir())
    assert fit.main(arguments(wide_csv, tmp_path, *more)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_without_any_reading_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("time,a,b\n" + "".join(f"{1_767_225_600_000 + step * 1000},,\n" for step in range(500)))
    assert fit.main(arguments(path, tmp_path, "--time", "time")) == 2
    assert "left out: a, b (no value at all)" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_print_config_shows_the_configuration_without_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.toml").write_text("[train]\nepochs = 5\n")
    assert fit.main([str(tmp_path / "mine.toml"), "--print-config", "--epochs", "7", "--data", "1.csv"]) == 0
    printed = capsys.readouterr().out
    (tmp_path / "printed.toml").write_text(printed)
    config = read(tmp_path / "printed.toml")
    assert (config.name, config.train.epochs, config.data.file) == ("mine", 7, "1.csv")
    assert set(tomllib.loads(printed)) == set(RunConfig.__dataclass_fields__)


def given_config(path: Path, tmp_path: Path, *more: str) -> list[str]:
    """The command line of a run with a configuration file, without export."""
    config = tmp_path / "tiny.toml"
    config.touch()
    return [str(config), "--data", str(path), "--out", str(tmp_path / "run"), *SMALL, "--no-export", *more]


def test_an_existing_run_is_not_overwritten_without_fresh(
    wide_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "write_report_page", lambda *_: None)
    last = tmp_path / "run" / "last.pt"
    assert fit.main(given_config(wide_csv, tmp_path, "--resume")) == 0
    assert "nothing to resume in" in capsys.readouterr().out
    before = last.read_bytes()
    assert fit.main(given_config(wide_csv, tmp_path)) == 2
    error = capsys.readouterr().err
    assert "holds a run that is finished (all 2 epochs are done) after 2 epochs: continue with --resume" in error
    assert "--fresh" in error
    assert fit.main(given_config(wide_csv, tmp_path, "--epochs=3")) == 2
    assert "not finished after 2 epochs" in capsys.readouterr().err
    assert fit.main(given_config(wide_csv, tmp_path, "--resume")) == 0
    assert last.read_bytes() == before
    assert fit.main(given_config(wide_csv, tmp_path, "--fresh", "--set=train.seed=1")) == 0
    assert last.read_bytes() != before


@pytest.mark.slow  # quicker: runs that are stopped anywhere and resumed in test_loop.py
def test_a_run_stopped_by_sigterm_and_resumed_equals_an_uninterrupted_one(
    wide_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGTERM goes to a separate process, as from an orchestrator, once its `last.pt` shows that an epoch has begun."""
    monkeypatch.setattr(fit, "write_report_page", lambda *_: None)
    more = "--set=train.iterations=40"
    checkpoint_often = "--set=train.checkpoint_minutes=1e-9"  # after every iteration
    process = subprocess.Popen(
        [sys.executable, "-m", "training.fit", *given_config(wide_csv, tmp_path, more, checkpoint_often)],
        cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    last = tmp_path / "run" / "last.pt"
    while not last.exists() and process.poll() is None:
        time.sleep(0.02)
    process.terminate()
    _, error = process.communicate(timeout=120)
    assert process.returncode == 143, error
    assert "stopped in epoch" in error
    assert "continue with --resume" in error
    state = checkpoints.load(last)
    assert 0 < state.epoch * 40 + state.batch < 80
    assert fit.main(given_config(wide_csv, tmp_path, more, "--resume")) == 0
    whole = given_config(wide_csv, tmp_path, more)
    whole[whole.index("--out") + 1] = str(tmp_path / "whole")
    assert fit.main(whole) == 0
    one, two = (checkpoints.load(tmp_path / name / "last.pt") for name in ("run", "whole"))
    assert all(torch.equal(tensor, two.weights[name]) for name, tensor in one.weights.items())
    for first, second in zip(one.history, two.history, strict=True):
        assert {**first, "seconds": 0} == {**second, "seconds": 0}


@pytest.mark.slow  # quicker: test_seeds.py
def test_scores_of_several_seeds_are_averaged_and_the_best_run_is_reported(
    wide_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[Path] = []
    monkeypatch.setattr(fit, "write_report_page", lambda directory, *_: pages.append(directory))
    assert fit.main(given_config(wide_csv, tmp_path, "--seeds", "1,2")) == 0
    found = json.loads((tmp_path / "run" / "seeds.json").read_text())
    scores = {name: run["validation_mse"] for name, run in found["runs"].items()}
    assert set(scores) == {"seed-1", "seed-2"}
    assert scores["seed-1"] != scores["seed-2"]
    assert found["best"] == min(scores, key=lambda name: scores[name])
    assert pages == [tmp_path / "run" / found["best"]]
    case = found["cases"]["block_0.3"]
    assert case["model"]["mse"]["mean"] == pytest.approx(sum(case["model"]["mse"]["runs"]) / 2)
    assert case["interpolation"]["mse"]["std"] == 0.0  # every seed is scored on the same hidden cells
    assert "seed-2" in (tmp_path / "run" / "seeds.md").read_text()


def test_tensorboard_gets_the_curves_and_its_absence_is_an_error_message(
    wide_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fit, "write_report_page", lambda *_: None)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch.utils.tensorboard", None)
        assert fit.main(given_config(wide_csv, tmp_path, "--tensorboard")) == 2
    assert "--tensorboard needs the package tensorboard" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert fit.main(given_config(wide_csv, tmp_path, "--tensorboard")) == 0
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    shown = [event.value for event in events.Scalars("validation_mse")]
    history = checkpoints.load(tmp_path / "run" / "last.pt").history
    assert shown == pytest.approx([row["validation_mse"] for row in history])


def test_help_names_the_main_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fit.main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for word in ("--separator", "--resume", "--fresh", "log.jsonl", "GLAIM_DATA", "long", "--set", "torchrun"):
        assert word in text
