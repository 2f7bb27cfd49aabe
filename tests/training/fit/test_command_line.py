"""The command line of a fit: what it refuses before it reads or trains, and what it prints for the next step."""

import re
import shlex
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.command_line import call
from training.config import RunConfig
from training.data import DataSpec, load
from training.errors import DataError
from training.fit import command, options
from training.fit.budget import TimeBudget
from training.fit.closed_form import FormComparison, replay_lines

ROWS = 700


@pytest.fixture
def pumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of one group with holes, `Bad` in a column, and three rows of a wrong clock."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    values = np.cumsum(rng.normal(size=(ROWS, 2)), axis=0) * 0.1
    times = np.datetime64("2025-01-01T00:00") + np.arange(ROWS).astype("timedelta64[m]")
    lines = ["Clock,flow,speed"]
    for stamp, (flow, speed) in zip(times, values, strict=True):
        shown = "Bad" if rng.random() < 0.05 else f"{flow:.3f}"
        lines.append(f"{stamp},{shown},{'' if rng.random() < 0.05 else f'{speed:.3f}'}")
    lines += [f"{year}-01-01T00:00,1,2" for year in (1970, 2001, 2002)]
    path = tmp_path / "pumps.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "soon"])
def test_minutes_are_above_zero(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(["--data", "pumps.csv", "--minutes", minutes])
    assert end.value.code == 2
    assert f"expected minutes above 0, found {minutes}" in capsys.readouterr().err


def test_a_file_of_readings_needs_no_flag(pumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(pumps), "--model", "gaussian", "--print-config"]) == 0
    stated = capsys.readouterr().out
    assert command.main(["--data", str(pumps), "--model", "gaussian", "--print-config"]) == 0
    assert stated == capsys.readouterr().out
    assert f'file = "{pumps}"' in stated


def test_seconds_suffice_for_the_closed_form_alone(pumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--data", str(pumps), "--minutes", "0.05", "--model", "gaussian", "--print-config"]
    assert command.main(arguments) == 0, capsys.readouterr().err


@pytest.mark.parametrize("device", ["cuda", "gpu", "meta", "cpu:3"])
@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_device_that_is_not_there_is_one_sentence(
    pumps: Path, device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--data", str(pumps), "--device", device]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "train.device" in shown.err
    assert not (pumps.parent / "model_repo").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(pumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pumps.parent / "file").touch()
    arguments = ["--data", str(pumps), "--model", "gaussian", "--no-export", "--out", str(pumps.parent / "file")]
    assert command.main(arguments) == 2
    assert capsys.readouterr().err == f"error: {pumps.parent / 'file'}: File exists\n"


def test_missing_takes_numbers_and_texts_and_name_names_the_group() -> None:
    given = options.parser(None).parse_args(
        [
            "--missing",
            "-200",
            "--missing",
            "Bad",
            "--missing",
            "-9999",
            "--missing",
            "n/a",
            "--timezone",
            "Asia/Tokyo",
        ]
    )
    config = options.read_config(given)
    assert (config.data.sentinels, config.data.no_value) == ((-200.0, -9999.0), ("Bad", "n/a"))
    assert config.data.timezone == "Asia/Tokyo"
    named = options.read_config(options.parser(None).parse_args(["--name", "pump-7"]))
    assert (named.name, named.data.group_name) == ("pump-7", "pump-7")


def test_times_without_a_zone_are_of_the_given_one(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("time,a\n" + "".join(f"2025-01-01T{hour:02d}:00,{hour / 2}\n" for hour in range(24)))
    first = [int(load(DataSpec(timezone=zone), path).times_ms[0]) for zone in ("UTC", "Asia/Tokyo")]
    assert first[0] - first[1] == 9 * 3_600_000


def test_the_line_that_a_fit_prints_fills_the_file(pumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--data", pumps.name, "--model", "gaussian", "--name", "pump-7"]) == 0
    shown = capsys.readouterr().out
    assert "left out: 3 rows of pumps.csv whose times lie far from all others" in shown
    line = next(line for line in shown.splitlines() if line.startswith("  glaim-stream replay "))
    words = shlex.split(line)[1:]
    assert {"--time", "--missing", "--name"} <= set(words)
    done = call(*words, environment={})
    assert done.returncode == 0, done.stderr
    assert Path(words[words.index("--out") + 1]).is_file()
    assert "columns without numbers" not in done.stderr  # --missing Bad came along


def test_a_file_that_replay_does_not_read_has_no_line(tmp_path: Path) -> None:
    long = DataSpec(file="x.csv", sensor="tag", value="value")
    for data in (long, DataSpec(file="x.csv", group="station")):
        assert replay_lines(RunConfig(data=data), tmp_path, tmp_path, "local") == []
    (_, line) = replay_lines(RunConfig(data=DataSpec(file="x.csv", separator="/")), tmp_path, tmp_path, "local")
    assert "--separator /" in line
    assert "--name" not in line


def test_the_decimal_sign_can_be_stated_where_no_cell_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    rows = [f"2026-01-01 {row // 60:02d}:{row % 60:02d}\t{1 + row % 7 / 8:.3f}" for row in range(600)]
    path.write_text("\n".join(["time\ta", *rows]))
    for sign, first in ((".", 1.0), (",", 1000.0)):
        given = options.parser(None).parse_args(["--data", str(path), "--model", "gaussian", "--decimal", sign])
        config = options.read_config(given)
        assert config.data.decimal == sign
        assert float(load(config.data, path).values[0, 0, 0]) == first
        assert f"--decimal {sign}" in " ".join(replay_lines(config, tmp_path, tmp_path, "gaussian"))
    with pytest.raises(DataError, match="state the decimal sign"):
        options.read_config(options.parser(None).parse_args(["--data", str(path), "--model", "gaussian"]))


def test_a_closed_form_that_takes_the_time_of_the_network_is_what_comes_out(
    pumps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    given = options.parser(None).parse_args(["--data", str(pumps), "--out", str(out), "--model-repo", str(tmp_path)])
    config = options.read_config(given)
    command.fit(config, given, "", TimeBudget(1.0, time.monotonic() - 40))
    said = capsys.readouterr().out
    assert re.search(r"no network: \d+ s of 60 s were over before its training", said)
    assert (out / "gaussian.npz").is_file()
    assert (out / "groups.yaml").is_file()
    assert not (out / "best.pt").exists()


@pytest.mark.parametrize(("worked_s", "ends_s"), [(60, 126), (12, 120), (8, 90)])
def test_training_ends_sooner_where_other_work_has_the_cores(
    monkeypatch: pytest.MonkeyPatch, worked_s: float, ends_s: float
) -> None:
    """The scores after it take as much longer as the minute before it did, and no more than half of the time."""
    monkeypatch.setattr("training.fit.budget.time.monotonic", lambda: 1060.0)
    monkeypatch.setattr("training.fit.budget.time.process_time", lambda: 500.0 + worked_s)
    assert TimeBudget(3.0, 1000.0, 500.0).training_ends_s() == 1000 + ends_s


def test_what_follows_the_scores_takes_fewer_windows_where_these_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.fit.budget.time.monotonic", lambda: 1135.0)
    budget = TimeBudget(3.0, 1000.0, 0.0)
    assert [budget.fewer(900, took_s) for took_s in (10, 40, 4000)] == [900, 450, 60]
    assert TimeBudget(0.0, 1000.0, 0.0).fewer(900, 4000) == 900


@pytest.mark.parametrize(
    ("network", "spread", "expected"),
    [
        (0.99, 0.001, "The gain is below 3%, and a network needs a Triton or torch"),
        (0.92, 0.2, "The gain may be chance, and a network needs"),
        (0.92, 0.01, None),
        (1.02, 0.01, None),
    ],
)
def test_the_verdict_says_what_a_small_gain_costs(network: float, spread: float, expected: str | None) -> None:
    verdict = FormComparison(network, 0.5, spread).verdict()
    assert verdict.startswith(f"on validation: the network's error is {network:.2f} times the closed form's (")
    assert ("hardly worth it" in verdict) == (expected is not None)
    assert (expected or "") in verdict
