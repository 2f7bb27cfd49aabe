"""`glaim-stream fill` by several processes, stopped and begun again: the same bytes, or a sentence."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.tables import Group, Work
from tests.command_line import call

ROWS, GROUPS, SENSORS = 1_200, 12, 3


def values() -> np.ndarray:
    """Readings [groups, sensors, rows] that move together, with holes."""
    random = np.random.default_rng(5)
    common = np.cumsum(random.normal(size=(GROUPS, 1, ROWS)), axis=2)
    found = np.round(common + random.normal(size=(GROUPS, SENSORS, ROWS)), 2)
    found[random.random(found.shape) < 0.1] = np.nan
    return found


def by_row() -> pa.Table:
    """A row for each time and group."""
    times = np.tile(np.arange(ROWS) * 60_000 + 1_767_225_600_000, GROUPS)
    columns: dict[str, Any] = {"time": pa.array(times).cast(pa.timestamp("ms", "UTC"))}
    columns["pump"] = np.repeat([f"pump{group}" for group in range(GROUPS)], ROWS)
    for sensor, name in enumerate(("flow", "speed", "power")):
        columns[name] = pa.array(values()[:, sensor].reshape(-1), from_pandas=True)
    return pa.table(columns)


def long() -> pa.Table:
    """A row for each reading."""
    table = by_row()
    parts = [
        table.select(["time", "pump"])
        .append_column("sensor", pa.array([name] * len(table)))
        .append_column("value", table[name])
        for name in ("flow", "speed", "power")
    ]
    return pa.concat_tables(parts).rename_columns(["time", "group", "sensor", "value"])


def by_column() -> pa.Table:
    """A row for each time, with the groups in the names of the columns."""
    columns: dict[str, Any] = {"time": by_row()["time"][:ROWS]}
    for group, series in enumerate(values()):
        for name, row in zip(("flow", "speed", "power"), series, strict=True):
            columns[f"pump{group}.{name}"] = pa.array(row, from_pandas=True)
    return pa.table(columns)


def written(path: Path, table: pa.Table) -> Path:
    if path.suffix == ".csv":
        arrow_csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return path


def fill(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return call("fill", *map(str, arguments), environment={})


def stopped(path: Path, out: Path, task: str, *more: str) -> Path:
    """Kill a fill when the first part of a task is finished; return the folder that it leaves."""
    folder = out.with_name(f"{out.name}.parts")
    command = [sys.executable, "-m", "glaim_stream", "fill", str(path), "--out", str(out), "--jobs", "2", *more]
    for _ in range(5):  # a process that is held up may look too late
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while process.poll() is None and not any(folder.glob(f"{task}-*.npz")):
            os.sched_yield()
        process.kill()
        if process.wait() == -signal.SIGKILL:
            assert not out.exists()
            return folder
        out.unlink()
    raise AssertionError("the fill always ended before it could be killed")


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("rows.parquet", by_row),
        ("long.csv", long),
        pytest.param("rows.csv", by_row, marks=pytest.mark.slow),  # quicker: the two above
        pytest.param("columns.parquet", by_column, marks=pytest.mark.slow),
    ],
)
def test_processes_give_the_bytes_of_one(tmp_path: Path, name: str, table: Callable[[], pa.Table]) -> None:
    path = written(tmp_path / name, table())
    outputs = []
    for jobs in ((), ("--jobs", "2")):
        out, flags = tmp_path / f"{len(outputs)}-{name}", tmp_path / "flags.csv"
        done = fill(path, "--out", out, "--flags-out", flags, *jobs)
        assert done.returncode == 0, done.stderr
        outputs.append((out.read_bytes(), flags.read_bytes(), done.stdout.replace(out.name, "")))

    assert outputs[0] == outputs[1]
    assert not list(tmp_path.glob("*.parts")), "a folder of parts is left"


@pytest.mark.parametrize("task", [pytest.param("trying", marks=pytest.mark.slow), "filling"])  # quicker: the second
def test_a_killed_fill_goes_on_where_it_stopped(tmp_path: Path, task: str) -> None:
    path, out, whole = written(tmp_path / "rows.csv", by_row()), tmp_path / "out.csv", tmp_path / "whole.csv"
    folder = stopped(path, out, task)
    parts = sorted(folder.glob("*.npz"))
    parts[0].write_bytes(parts[0].read_bytes()[:-100])  # half a part counts as none

    assert fill(path, "--out", whole).returncode == 0
    done = fill(path, "--out", out, "--jobs", "1")

    assert done.returncode == 0, done.stderr
    assert f"goes on where an earlier run stopped: {len(parts)} finished parts in {folder}" in done.stdout
    assert out.read_bytes() == whole.read_bytes()
    assert not folder.exists()


@pytest.mark.slow  # quicker: a damaged part, above
@pytest.mark.parametrize("changed", ["flags", "input"])
def test_parts_of_other_flags_or_another_input_are_not_taken(tmp_path: Path, changed: str) -> None:
    path, out, whole = written(tmp_path / "rows.csv", by_row()), tmp_path / "out.csv", tmp_path / "whole.csv"
    folder = stopped(path, out, "filling")
    more = ["--max-gap", "1"] if changed == "flags" else []
    if changed == "input":
        path.write_text(path.read_text().replace(",1.5", ",1.6"))

    assert fill(path, "--out", whole, *more).returncode == 0
    done = fill(path, "--out", out, "--jobs", "1", *more)

    assert done.returncode == 0, done.stderr
    assert f"finished parts in {folder} are of another {changed}\n" in done.stdout
    assert out.read_bytes() == whole.read_bytes()


def test_two_at_once_on_one_output_are_refused(tmp_path: Path) -> None:
    path, out, folder = written(tmp_path / "rows.parquet", by_row()), tmp_path / "out", tmp_path / "out.parts"
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    done = fill(path, "--out", out, "--jobs", "1")

    assert (done.returncode, out.exists(), folder.exists()) == (2, False, True)
    assert f"error: another process writes the same output, and has {folder}" in done.stderr
    os.close(handle)
    assert fill(path, "--out", out, "--jobs", "1").returncode == 0
    assert not folder.exists()


def test_a_folder_of_someone_else_stays(tmp_path: Path) -> None:
    path, notes = written(tmp_path / "rows.parquet", by_row()), tmp_path / "out.parts" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine")
    done = fill(path, "--out", tmp_path / "out", "--jobs", "1")

    assert (done.returncode, notes.read_text()) == (2, "mine")
    assert "found notes.txt in it" in done.stderr


def dying(fitted: object, group: Group) -> dict[str, np.ndarray]:
    """A task that ends its process for one group, as the kernel does where memory is short."""
    if group.name == "bad":
        os.kill(os.getpid(), signal.SIGKILL)
    if group.name == "much":
        raise MemoryError
    return {"first": group.values[:, :1]}


def groups(*names: str) -> list[tuple[Group]]:
    return [(Group(name, np.arange(20_000), np.full((1, 20_000), float(at))),) for at, name in enumerate(names)]


@pytest.mark.parametrize(("name", "how"), [("bad", "SIGKILL, as where memory is short"), ("much", "lack of memory")])
def test_a_process_that_dies_names_its_group(name: str, how: str) -> None:
    with pytest.raises(SettingsError, match=rf"^filling group '{name}': its process ended by {how}: give fewer --jobs"):
        Work(2).each("filling", dying, None, groups("p0", "p1", "p2", name, "p4"))  # type: ignore[arg-type]


def test_results_come_in_the_order_of_the_groups() -> None:
    seen: list[tuple[int, int]] = []
    asked = groups(*map(str, range(9)))
    found = Work(2).each("filling", dying, None, asked, lambda done, total: seen.append((done, total)))  # type: ignore[arg-type]

    assert [float(each["first"][0, 0]) for each in found] == list(map(float, range(9)))
    assert seen == [(done, 9) for done in range(10)]
