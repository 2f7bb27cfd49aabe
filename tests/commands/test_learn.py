"""`glaim-stream learn` from a file: what it prints, writes and refuses, and two of them at once."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from glaim_stream.feed.plant import simulate
from glaim_stream.form import ClosedForm
from glaim_stream.output import RowFile
from glaim_stream.output.records import PLAIN_SCHEMA
from tests.command_line import call

PLANT = simulate(0.25, groups=2, seed=5)
CATALOGUE = f"""
models:
  - name: pump
    step_s: 60
    window: 12
    max_gap: 6
    revise_after: 2
    sensors: [{{id: {PLANT.sensor_ids[0]}, min: 0}}, {{id: {PLANT.sensor_ids[1]}}}]
groups:
  - {{model: pump, pattern: "*"}}
"""


def readings(rows: int) -> pa.Table:
    """The first two sensors of each pump as a long table."""
    places = [(group, sensor) for group in range(len(PLANT.groups)) for sensor in range(2)]
    times = np.tile(PLANT.times_ms[:rows], len(places))
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("ms", "UTC")),
            "group": np.repeat([PLANT.groups[group] for group, _ in places], rows),
            "sensor": np.repeat([PLANT.sensor_ids[sensor] for _, sensor in places], rows),
            "value": np.concatenate([PLANT.values[place][:rows] for place in places]).astype(np.float64),
        }
    )


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "groups.yaml").write_text(CATALOGUE)
    return {"GLAIM_CATALOGUE": str(tmp_path / "groups.yaml"), "GLAIM_MODEL_REPOSITORY": str(tmp_path / "models")}


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_a_file_becomes_a_closed_form_with_its_errors_beside_the_baselines(
    tmp_path: Path, environment: dict[str, str], ending: str
) -> None:
    table, file = readings(200), tmp_path / f"readings{ending}"
    odd = table.slice(0, 3).set_column(3, "value", pa.array([-1.0, -2.0, -3.0]))  # below the limit of the sensor
    table = pa.concat_tables([table, table.slice(10, 5), odd])
    (pq.write_table if ending == ".parquet" else pa.csv.write_csv)(table, file)
    done = call("learn", "--data", str(file), environment=environment)
    assert done.returncode == 0, done.stderr
    form = ClosedForm.load(tmp_path / "models" / "pump")
    first, left_out, *table_lines, last, habits = done.stdout.splitlines()
    assert habits.endswith("habits need 384 steps of a group, found 200")
    assert first.startswith("800 readings of 2 groups, 200 rows from 2026-01-01T00:00:00Z to 2026-01-01T03:19:00Z")
    assert left_out == "not learned: 5 duplicates, 3 rejected: out-of-limits"
    methods = [line[:14].strip() for line in table_lines if line[-1].isdigit()]
    assert methods == ["new", "interpolation", "last value"]
    assert f"has now the closed form {form.digest[:8]}" in last
    assert "better than interpolation and last value on the newest 20 rows" in last


def test_a_range_of_a_file_is_learned_and_a_dry_run_writes_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    pq.write_table(readings(200), tmp_path / "readings.parquet")
    given = ("learn", "--data", str(tmp_path / "readings.parquet"), "--until", "2026-01-01T02:00:00Z", "--dry-run")
    done = call(*given, environment=environment)
    assert done.returncode == 0, done.stderr
    assert "480 readings of 2 groups, 120 rows" in done.stdout
    assert "would get the closed form" in done.stdout
    short = call(*given, "--rows", "36", environment=environment)
    assert "36 rows from 2026-01-01T01:24:00Z to 2026-01-01T01:59:00Z" in short.stdout
    assert not (tmp_path / "models").exists()


def test_too_few_rows_state_how_many_more_are_needed(tmp_path: Path, environment: dict[str, str]) -> None:
    pq.write_table(readings(15), tmp_path / "readings.parquet")
    done = call("learn", "--data", str(tmp_path / "readings.parquet"), environment=environment)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "error: a closed form for windows of 12 steps and its trial need 36 rows, found 15: 21 more are needed"
    )


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_filled_rows_are_not_learned(tmp_path: Path, environment: dict[str, str], ending: str) -> None:
    file = tmp_path / f"rows{ending}"
    with RowFile(file) as rows:
        rows.add(PLAIN_SCHEMA.empty_table())
    done = call("learn", "--data", str(file), environment=environment)
    assert done.returncode == 2
    assert "found filled rows, which must not be learned" in done.stderr
    done = call("learn", "--input-topic", "imputed-readings", environment=environment)
    assert done.returncode == 2
    assert "found that of the filled rows, imputed-readings" in done.stderr


def test_a_form_that_never_saw_a_sensor_of_the_one_in_use_stays_out(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    lost = PLANT.sensor_ids[1]
    table = readings(300)
    pq.write_table(table, tmp_path / "readings.parquet")
    alone = table.filter(pa.array([sensor != lost for sensor in table["sensor"].to_pylist()]))
    pq.write_table(alone, tmp_path / "alone.parquet")
    until = ("--until", "2026-01-01T02:00:00Z")
    given = ("learn", "--data", str(tmp_path / "readings.parquet"), *until)
    assert "has now the closed form" in call(*given, environment=environment).stdout
    form = tmp_path / "models" / "pump"
    before = ClosedForm.load(form).digest
    done = call("learn", "--data", str(tmp_path / "alone.parquet"), environment=environment)
    assert done.returncode == 0, done.stderr
    assert f"no reading in the training rows ({lost}): --force places it all the same" in done.stdout
    assert ClosedForm.load(form).digest == before
    forced = call("learn", "--data", str(tmp_path / "alone.parquet"), "--force", environment=environment)
    assert f"without a reading to learn from, so interpolation fills them: {lost}\n" in forced.stdout
    assert ClosedForm.load(form).digest != before


@pytest.mark.parametrize("name", ["rows.txt", "rows.jsonl"])
@pytest.mark.parametrize("command", [("learn", "--dry-run", "--data"), ("produce", "--dry-run"), ("health",)])
def test_no_command_takes_filled_rows_for_readings(
    tmp_path: Path, environment: dict[str, str], command: tuple[str, ...], name: str
) -> None:
    table = readings(200).rename_columns(["ts", "group", "sensor", "value"])
    table = table.append_column("observed", pa.array([False] * len(table)))
    table = table.append_column("method", pa.array(["gaussian"] * len(table)))
    file = tmp_path / name
    if name == "rows.txt":
        pa.csv.write_csv(table, file)
    else:  # as `tail --format jsonl` prints them; `learn` takes such lines for raw messages
        file.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))
    done = call(*command, str(file), environment=environment)
    assert done.returncode == 2, done.stdout
    assert "found filled rows" in done.stderr


def test_a_repository_whose_files_need_signatures_gets_no_closed_form(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
    done = call("learn", "--data", "absent.csv", environment=environment | {"GLAIM_MANIFEST_KEY": key})
    assert done.returncode == 2
    assert "workers refuse forms without a signature" in done.stderr


def test_the_outcome_is_also_json(tmp_path: Path, environment: dict[str, str]) -> None:
    pq.write_table(readings(200), tmp_path / "readings.parquet")
    given = ("learn", "--json", "--data", str(tmp_path / "readings.parquet"))
    early = json.loads(call(*given, "--until", "2026-01-01T00:20:00Z", environment=environment).stdout)
    assert (early["rows"], early["chosen"]) == (20, False)
    assert "16 more are needed" in early["reason"]
    done = json.loads(call(*given, environment=environment).stdout)
    assert (done["rows"], done["chosen"]) == (200, True)
    assert done["digest"] == ClosedForm.load(tmp_path / "models" / "pump").digest


@pytest.mark.slow  # quicker: what is placed in tests/operate/learn/test_place.py
def test_two_processes_at_once_place_one_whole_form(tmp_path: Path, environment: dict[str, str]) -> None:
    pq.write_table(readings(200), tmp_path / "readings.parquet")
    command = [sys.executable, "-m", "glaim_stream", "learn", "--data", str(tmp_path / "readings.parquet")]
    both = [
        subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    printed = sorted((process.communicate(timeout=120)[0] for process in both), key=lambda text: "unchanged" in text)
    assert [process.returncode for process in both] == [0, 0]
    folder = tmp_path / "models" / "pump"
    assert f"has now the closed form {ClosedForm.load(folder).digest[:8]}" in printed[0]
    assert "unchanged; not better than the form in use" in printed[1]  # it waited, and found the form of the other
    assert {path.name for path in folder.iterdir()} == {"gaussian.manifest.json", "gaussian.npz"}


def test_a_learning_ends_when_its_caller_is_dead(tmp_path: Path, environment: dict[str, str]) -> None:
    pq.write_table(readings(200), tmp_path / "readings.parquet")
    folder = tmp_path / "models" / "pump"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "glaim_stream", "learn", "--while-open"]
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)  # as by another process that learns
    process = subprocess.Popen(
        [*command, "--data", str(tmp_path / "readings.parquet")],
        env=os.environ | environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if b"fitting 200 rows" in line:
            break
    assert process.poll() is None
    process.communicate(timeout=60)  # closes its standard input
    os.close(held)
    assert process.returncode == 128 + signal.SIGTERM
    assert list(folder.iterdir()) == []
