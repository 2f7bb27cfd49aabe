"""`glaim-stream replay` of a file by several processes, stopped and begun again: the same rows, or a sentence."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.jobs import shared_out
from tests.command_line import call

GROUPS, SENSORS, STEPS, MINUTE_MS = 9, ("flow", "speed", "power"), 300, 60_000
CATALOGUE = """
models:
  - {name: m, step_s: 60, window: 24, max_gap: 8, revise_after: 2, sensors: [{id: flow}, {id: speed, max: 3}]}
groups: [{model: m, pattern: "pump*"}]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Readings with holes, of which some are above a limit, of a sensor without a model, or of an unknown group."""
    made = tmp_path_factory.mktemp("replay")
    (made / "groups.yaml").write_text(CATALOGUE)
    random = np.random.default_rng(5)
    columns: dict[str, list[object]] = {"time": [], "group": [], "sensor": [], "value": []}
    for group in range(GROUPS):
        values = np.round(random.normal(size=(STEPS, len(SENSORS))), 2)
        values[random.random(values.shape) < 0.1] = np.nan
        dark = slice(100, 180) if group == 4 else slice(0, 0)
        values[dark] = np.nan
        for step in range(STEPS):
            columns["time"] += [1_767_225_600_000 + step * MINUTE_MS + 10 * group] * len(SENSORS)
            columns["group"] += ["pump" + str(group) if group else "fan"] * len(SENSORS)
            columns["sensor"] += SENSORS
            columns["value"] += values[step].tolist()
    times = pa.array(columns.pop("time"), pa.timestamp("ms", "UTC"))
    value = pa.array(columns.pop("value"), pa.float64(), from_pandas=True)
    table = pa.table({"time": times, **columns, "value": value})
    pq.write_table(table, made / "long.parquet", row_group_size=500)
    arrow_csv.write_csv(table, made / "long.csv")
    pq.write_table(table.filter(pa.compute.equal(table["group"], "pump3")), made / "one.parquet")
    return made


def command(folder: Path, name: str, out: Path, *flags: str) -> list[str]:
    settings = [
        "--catalogue",
        str(folder / "groups.yaml"),
        "--model-repository",
        str(folder),
        "--imputer",
        "interpolation",
    ]
    return ["replay", str(folder / name), "--out", str(out), *settings, *flags]


def replay(folder: Path, name: str, out: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return call(*command(folder, name, out, *flags), environment={})


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What a replay prints, without its name and time."""
    return [
        line.rpartition(";")[0].partition(":")[2] if " rows of " in line else line for line in done.stdout.splitlines()
    ]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("long.csv", "--newest-only"),
        pytest.param("long.parquet", "--newest-only", marks=pytest.mark.slow),  # quicker: the one above
        pytest.param("long.parquet", "--all-revisions", marks=pytest.mark.slow),
    ],
)
def test_processes_give_the_rows_of_one(folder: Path, tmp_path: Path, name: str, kept: str) -> None:
    seen = []
    for jobs in ("1", "2"):
        files = [tmp_path / f"{jobs}{ending}" for ending in (".csv", "-rejects.jsonl", "-outages.jsonl")]
        flags = ("--rejects", str(files[1]), "--outages", str(files[2]), "--jobs", jobs, kept)
        done = replay(folder, name, files[0], *flags)
        assert done.returncode == 0, done.stderr
        rejects = [json.loads(line) for line in files[1].read_text().splitlines()]
        assert {each["cause"] for each in rejects} == {"unknown-group", "unknown-sensor", "out-of-limits"}
        without_times = [{key: value for key, value in each.items() if key != "timestamp-ms"} for each in rejects]
        assert "dark" in files[2].read_text()
        lines = [line.replace(f"/{jobs}-", "/") for line in said(done)]
        seen.append((sorted(files[0].read_bytes().splitlines()), without_times, files[2].read_text(), lines))
    assert seen[0] == seen[1]
    assert len(seen[0][0]) > GROUPS * STEPS
    assert not list(tmp_path.glob("*.parts")), "a folder of parts is left"


@pytest.mark.parametrize("name", ["long.parquet", "one.parquet"])
def test_a_file_that_is_read_in_pieces_gives_the_rows_of_the_whole(folder: Path, tmp_path: Path, name: str) -> None:
    """--timezone has the file read whole."""
    seen = []
    for number, flags in enumerate([(), ("--timezone", "UTC")]):
        rejects = tmp_path / "rejects.jsonl"
        done = replay(folder, name, tmp_path / f"{number}.parquet", "--rejects", str(rejects), *flags)
        assert done.returncode == 0, done.stderr
        causes = [json.loads(line) | {"timestamp-ms": ""} for line in rejects.read_text().splitlines()]
        notes = [line for line in done.stderr.splitlines() if not line.startswith("replay: ")]  # without the progress
        seen.append((pq.read_table(tmp_path / f"{number}.parquet"), causes, said(done), notes))
    assert seen[0][0].equals(seen[1][0])
    assert seen[0][1:] == seen[1][1:]


def stopped(folder: Path, out: Path, how: signal.Signals, *flags: str) -> Path:
    """Stop a replay when the first part is finished; return the folder that it leaves."""
    parts = out.with_name(f"{out.name}.parts")
    arguments = [sys.executable, "-m", "glaim_stream", *command(folder, "long.csv", out, "--jobs", "1", *flags)]
    for _ in range(5):  # a process that is held up may look too late
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while process.poll() is None and not any(parts.glob("done-*.json")):
            os.sched_yield()
        process.send_signal(how)
        process.wait()
        if not out.exists():
            return parts
        out.unlink()
    raise AssertionError("the replay always ended before it could be stopped")


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGINT, signal.SIGTERM))]
)
def test_a_stopped_replay_goes_on_where_it_stopped(folder: Path, tmp_path: Path, how: signal.Signals) -> None:
    out, whole = tmp_path / "out.csv", tmp_path / "whole.csv"
    parts = stopped(folder, out, how)
    finished = len(list(parts.glob("done-*.json")))
    assert finished
    expected, done = replay(folder, "long.csv", whole), replay(folder, "long.csv", out)
    assert done.returncode == 0, done.stderr
    assert f"goes on where an earlier run stopped: {finished} finished parts in {parts}" in done.stdout
    assert said(done)[-3:] == said(expected)[-3:], "counts and rejects are those of all parts"
    assert out.read_bytes() == whole.read_bytes()
    assert not parts.exists()


@pytest.mark.slow  # quicker: a part is taken, above
@pytest.mark.parametrize("changed", ["catalogue", "settings", "input", "flags"])
def test_parts_of_another_run_are_not_taken(folder: Path, tmp_path: Path, changed: str) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("groups.yaml", "long.csv"):
        (mine / name).write_bytes((folder / name).read_bytes())
    out, whole = mine / "out.csv", mine / "whole.csv"
    parts = stopped(mine, out, signal.SIGKILL)
    more = ["--leave-open"] if changed == "flags" else ["--partitions", "5"] if changed == "settings" else []
    if changed == "catalogue":
        (mine / "groups.yaml").write_text(CATALOGUE.replace("max: 3", "max: 1"))
    if changed == "input":
        (mine / "long.csv").write_text((mine / "long.csv").read_text().replace(",0.5", ",0.6"))
    expected, done = replay(mine, "long.csv", whole, *more), replay(mine, "long.csv", out, *more)
    assert (expected.returncode, done.returncode) == (0, 0), done.stderr
    assert f"finished parts in {parts} are of another {changed}" in done.stdout
    assert out.read_bytes() == whole.read_bytes()


def test_two_at_once_on_one_output_are_refused(folder: Path, tmp_path: Path) -> None:
    out, parts = tmp_path / "out.csv", tmp_path / "out.csv.parts"
    parts.mkdir()
    handle = os.open(parts, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    done = replay(folder, "long.csv", out)
    os.close(handle)
    assert (done.returncode, out.exists(), parts.exists()) == (2, False, True)
    assert f"error: another process writes the same output, and has {parts}" in done.stderr


def dying(part: str, tell: object) -> str:
    """A task that ends its process for one part, as the kernel does where memory is short."""
    if part == "bad":
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def test_a_process_that_dies_names_its_part() -> None:
    with (
        pytest.raises(SettingsError, match=r"^bad ended by SIGKILL, as where memory is short$"),
        shared_out(dying, ["good", "bad"], jobs=2, died=lambda part, how: f"{part} ended by {how}") as results,
    ):
        list(results)
