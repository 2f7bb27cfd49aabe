"""What the reader of files doubts becomes no reading in any command, and each command says how much of which sensor."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from glaim_stream.core.vocabulary import Method
from glaim_stream.feed import read_source
from glaim_stream.files import cells_of, read
from tests.command_line import call
from training.data import DataSpec, load

CASES = Path(__file__).parent / "cases"
DS18B20 = CASES / "ds18b20_errors.csv"
CATALOGUE = """
models:
  - {name: m, step_s: 60, window: 24, max_gap: 20, revise_after: 2, sensors: [{id: room_c}, {id: out_c}]}
groups:
  - {model: m, pattern: "*"}
"""


def room(tmp_path: Path, rows: int = 90, *, code: str = "85.00", header: str = "time,room_c,out_c") -> Path:
    """A room near 21 whose probe gives an error code in rows 40 to 45."""
    lines = [
        f"2026-03-02 {row // 60:02d}:{row % 60:02d}:00,"
        f"{code if 40 <= row < 46 else f'{21 + np.sin(row / 9):.2f}'},{5 + np.cos(row / 7):.2f}"
        for row in range(rows)
    ]
    path = tmp_path / "room.csv"
    path.write_text("\n".join([header, *lines, ""]))
    return path


@pytest.mark.parametrize(
    ("name", "withheld", "low", "high"),
    [
        ("ds18b20_errors", {"room_c": 10}, 20, 22),
        ("meter_zero_blip", {"energy_kwh": 4}, 397, 404),
        ("quality_bad", {"value": 6}, 117, 123),
        ("sentinel_99_999", {}, 0.8, 269),
    ],
)
def test_readings_that_are_sent_learned_and_judged_are_the_believed_ones(
    name: str, withheld: dict[str, int], low: float, high: float
) -> None:
    path = CASES / f"{name}.csv"
    source = read_source(path)
    assert (source.withheld, low <= source.value.min(), source.value.max() <= high) == (withheld, True, True)
    series = load(DataSpec(sensors=tuple(withheld)), path)
    assert (series.withheld, low <= np.nanmin(series.values), np.nanmax(series.values) <= high) == (
        withheld, True, True,
    )  # fmt: skip


def test_a_column_without_doubts_is_stated(tmp_path: Path) -> None:
    path = room(tmp_path)
    assert read_source(path).withheld == {"room_c": 6}
    stated = read_source(path, missing=("room_c=",))
    assert (stated.withheld, stated.value.max(), len(stated)) == ({}, 85, 180)
    assert read_source(path, missing=("room_c=85",)).gaps == 6
    assert read_source(path, missing=("out_c=",)).withheld == {"room_c": 6}
    lines = [f"{line.split(',')[0]},room_c,{line.split(',')[1]}" for line in path.read_text().splitlines()[1:]]
    path.write_text("\n".join(["time,sensor,value", *lines]))
    assert [read_source(path, missing=each).withheld for each in ((), ("room_c=",))] == [{"room_c": 6}, {}]


def test_each_command_says_what_it_withholds(tmp_path: Path) -> None:
    path = room(tmp_path)
    (tmp_path / "groups.yaml").write_text(CATALOGUE)
    stream = {"GLAIM_CATALOGUE": str(tmp_path / "groups.yaml"), "GLAIM_MODEL_REPOSITORY": str(tmp_path / "models")}

    done = call("produce", str(path), "--dry-run", environment={})
    assert "would send 174 readings" in done.stdout
    assert "doubtful readings not sent: room_c 6" in done.stdout

    out = tmp_path / "rows.parquet"
    done = call("replay", str(path), "--imputer", "interpolation", "--out", str(out), environment=stream)
    assert "174 readings of 1 groups" in done.stdout, done.stderr
    assert "without doubtful ones: room_c 6" in done.stdout
    rows = pq.read_table(out)
    assert max(rows["value"].to_pylist()) < 23
    filled = [row for row in rows.to_pylist() if row["method"] != Method.OBSERVED.name.lower()]
    assert [row["observed"] for row in filled] == [False] * 6

    done = call("health", str(room(tmp_path, 1000)), environment={})
    assert "not judged, as doubtful or no number: room_c 6" in done.stdout, done.stderr
    done = call("health", str(path), "--json", environment={})
    assert json.loads(done.stdout)["withheld"] == {"room_c": 6}

    done = call("learn", "--data", str(path), "--dry-run", environment=stream)
    assert "not learned: 6 doubtful in the file, or no number" in done.stdout, done.stderr


def test_what_is_withheld_outside_of_the_chosen_time_is_not_counted(tmp_path: Path) -> None:
    path = room(tmp_path)
    lines = path.read_text().splitlines()
    lines[12] = lines[12].rpartition(",")[0] + ","
    path.write_text("\n".join([*lines, ""]))
    (tmp_path / "groups.yaml").write_text(CATALOGUE)
    stream = {"GLAIM_CATALOGUE": str(tmp_path / "groups.yaml"), "GLAIM_MODEL_REPOSITORY": str(tmp_path / "models")}
    source = read_source(path)
    cut = source.between(int(source.time_ms[0]) + 42 * 60_000, None)
    assert ((source.gaps, source.withheld), (cut.gaps, cut.withheld)) == ((1, {"room_c": 6}), (0, {"room_c": 4}))
    late, early = ("--since", "2026-03-02T00:42Z"), ("--until", "2026-03-02T00:30Z")
    done = call("produce", str(path), "--dry-run", *late, environment={})
    assert "gaps of the source 0, doubtful readings not sent: room_c 4" in done.stdout, done.stderr
    assert "not used as readings: room_c 4" in done.stderr
    done = call("produce", str(path), "--dry-run", *early, environment={})
    assert "gaps of the source 1\n" in done.stdout, done.stderr
    assert "withheld as doubtful" not in done.stderr
    for flags, said in ((late, ", without doubtful ones: room_c 4"), (early, " to 2026-03-02T00:29:00Z, as")):
        out = ("--imputer", "interpolation", "--out", str(tmp_path / "rows.parquet"), "--dry-run")
        done = call("replay", str(path), *out, *flags, environment=stream)
        assert said in done.stdout, done.stderr
    done = call("learn", "--data", str(path), "--dry-run", *late, environment=stream)
    assert "not learned: 4 doubtful in the file, or no number" in done.stdout, done.stderr


def test_groups_are_named_where_there_are_some(tmp_path: Path) -> None:
    path = room(tmp_path, header="time,a.t,b.t")
    assert cells_of(read(path), "g").withheld == {"a t": 6}
