"""A file is replayed in order of time whatever the messages hold, so that none of its readings is late."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from glaim_stream.commands.replay import end_replay
from glaim_stream.commands.replay_input import FileInput
from glaim_stream.core.settings import Settings
from glaim_stream.feed import plan_messages
from glaim_stream.feed.formats import InputFormat
from glaim_stream.feed.replay import Target
from glaim_stream.feed.sources import Source
from tests.command_line import call

START_MS, MINUTE_MS, GROUPS, STEPS = 1_767_225_600_000, 60_000, 6, 400
CATALOGUE = """
models:
  - {name: m, step_s: 60, sensors: [{id: a}, {id: b}]}
groups:
  - {model: m, pattern: "g-*"}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups of unequal density: one that reports both sensors, others that leave out ever more."""
    made = tmp_path_factory.mktemp("order")
    (made / "groups.yaml").write_text(CATALOGUE)
    rng = np.random.default_rng(0)
    rows = [
        (f"g-{group}", sensor, START_MS + step * MINUTE_MS + group * 7_000, float(round(rng.normal(), 3)))
        for group in range(GROUPS)
        for step in range(STEPS)
        for sensor in ("a", "b")
        if rng.random() >= group / (GROUPS + 1)
    ]
    groups, sensors, times, values = zip(*rows, strict=True)
    table = {"group": groups, "sensor": sensors, "ts": pa.array(times, pa.timestamp("ms", tz="UTC")), "value": values}
    pq.write_table(pa.table(table), made / "readings.parquet")
    return made


def replayed(folder: Path, *flags: str) -> pa.Table:
    """The rows of a replay, in the order of group, sensor and time."""
    done = call(
        "replay", str(folder / "readings.parquet"), "--catalogue", str(folder / "groups.yaml"),
        "--imputer", "interpolation", "--partitions", "2", "--out", str(folder / "rows.parquet"), *flags,
        environment={"COLUMNS": "120"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "rejected" not in done.stdout
    return pq.read_table(folder / "rows.parquet")


@pytest.mark.parametrize("message", ["step", "batch", "arrow"])
def test_the_rows_do_not_depend_on_the_messages(folder: Path, message: str) -> None:
    expected = replayed(folder)
    assert replayed(folder, "--format", message, "--batch", "1000").equals(expected)


def test_a_late_reading_of_the_file_ends_the_replay_with_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Readings in the wrong order stand for any mistake of ours in the order."""
    times = START_MS + MINUTE_MS * np.array([500, 0, 501])
    source = Source([("g-1", "a")], np.zeros(3, np.int32), times, np.arange(3.0))
    plan = plan_messages(source, InputFormat.SINGLE)
    given = FileInput([plan], "", "x.csv", source)
    target = Target("file", str(folder / "late.parquet"))
    settings = Settings(catalogue=folder / "groups.yaml", imputer="interpolation", partitions=1)
    report = given.replay(settings, target, close=True, jobs=1)
    with pytest.raises(typer.Exit) as ended:
        end_replay(report, target, late=given.late(report))
    assert ended.value.exit_code == 1
    assert "1 readings of the file were rejected as late" in capsys.readouterr().err
