"""`glaim-stream fill --minutes`: a network beside the closed form, in the time that was given."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from glaim_stream.commands import train_process
from glaim_stream.core.errors import SettingsError
from glaim_stream.tables import Group
from tests.command_line import call


def pumps(path: Path, rows: int = 1200) -> Path:
    rng = np.random.default_rng(4)
    wave = np.sin(np.arange(rows) / 9) + rng.normal(size=rows).cumsum() * 0.05
    lines = ["time,a,b,c"]
    for row in range(rows):
        cells = [
            f"{scale * wave[row] + level + 0.05 * rng.normal():.2f}" for scale, level in ((1, 9), (2, 30), (3, 70))
        ]
        cells = ["" if rng.random() < 0.05 else cell for cell in cells]
        lines.append(f"2026-01-{1 + row // 1440:02d} {row // 60 % 24:02d}:{row % 60:02d},{','.join(cells)}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_without_torch_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_process, "find_spec", lambda name: None if name == "torch" else object())
    with (
        pytest.raises(SettingsError, match=r"found no torch: pip install 'glaim-stream\[training\]'"),
        train_process.training(1.0, print),
    ):
        pass


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--minutes", "0"], "expected --minutes above 0, found 0"),
        (["--minutes", "nan"], "expected --minutes above 0, found nan"),
        (["--minutes", "1", "--model", "x"], "expected --minutes without --model"),
        (["--minutes", "0.01"], "expected more than --minutes 0.01"),
    ],
)
def test_minutes_that_cannot_be_used_are_one_sentence(tmp_path: Path, flags: list[str], message: str) -> None:
    out = tmp_path / "out.csv"
    done = call("fill", str(pumps(tmp_path / "in.csv")), "--out", str(out), *flags, environment={})
    assert done.returncode == 2
    assert message in done.stderr
    assert not out.exists()


def test_a_fill_without_minutes_loads_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from glaim_stream.commands.main import main\n"
        "try: main()\n"
        "finally: print(sorted({'torch', 'training', 'faust'} & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "fill", str(pumps(tmp_path / "in.csv")), "--out", str(tmp_path / "o.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().splitlines()[-1] == "[]"


def test_the_copy_that_is_trained_on_holds_the_readings_and_no_more(tmp_path: Path) -> None:
    """Groups end together whatever their times, and a meter's digits survive 32 bits."""
    pytest.importorskip("torch")
    from training.data import DataSpec, load

    first = np.array([[1.5, np.nan, -999.25, 4.5], [2e9, 2e9 + 1, 2e9 + 2, 2e9 + 3]])
    groups = [
        Group("2001", 60_000 * np.arange(4), first),
        Group("2026", 10**12 + 60_000 * np.arange(2), first[:, 2:]),
    ]
    centre = train_process._centre(groups)
    assert centre[0] == 0.0
    train_process._write(groups, centre, tmp_path / "x.parquet", 60_000)
    spec = DataSpec(time="time", group="group", sensors=("s0", "s1"), only_sentinels=True, step_s=60.0)
    series = load(spec, tmp_path / "x.parquet")
    assert series.rows == 4
    np.testing.assert_array_equal(series.values[0, 0], np.array([1.5, np.nan, -999.25, 4.5], np.float32))
    assert np.isnan(series.values[1, :, :2]).all()
    np.testing.assert_allclose(series.values[0, 1] + centre[1], first[1])


def processes_that_name(folder: Path) -> list[int]:
    """Those that have the folder in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue  # it has ended
    return found


@pytest.mark.slow  # quicker: a training that ends by itself is tested in tests/training/fit
@pytest.mark.timeout(120)
def test_sigterm_also_ends_the_training_and_removes_its_copy_of_the_readings(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    temporary, out = tmp_path / "tmp", tmp_path / "out.csv"
    temporary.mkdir()
    file = pumps(tmp_path / "in.csv")
    command = [sys.executable, "-m", "glaim_stream", "fill", str(file), "--out", str(out), "--minutes", "3"]
    with subprocess.Popen(command, env=os.environ | {"TMPDIR": str(temporary)}, stderr=subprocess.DEVNULL) as process:
        while not processes_that_name(temporary):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    assert processes_that_name(temporary) == []
    assert list(temporary.iterdir()) == []
    assert not out.exists()


@pytest.mark.slow  # quicker: tests/tables/test_network.py
@pytest.mark.timeout(300)
def test_the_minutes_are_kept_scores_included_and_the_file_is_filled(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file, out = pumps(tmp_path / "in.csv"), tmp_path / "out.csv"
    began = time.monotonic()
    done = call("fill", str(file), "--out", str(out), "--minutes", "1", environment={})
    minutes = (time.monotonic() - began) / 60
    assert done.returncode == 0, done.stderr
    assert minutes < 1.25
    assert "training a network for 0." in done.stderr
    assert "the trained network" in done.stdout  # fills, or does not, and why
    assert ",," not in out.read_text()
