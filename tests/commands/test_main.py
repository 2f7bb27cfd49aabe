"""The command line without Kafka: help, one-line errors, and the commands that only read files."""

import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.vocabulary import Status
from glaim_stream.kafka import Filter
from glaim_stream.output import RowFile, newest_revisions
from glaim_stream.output.records import PLAIN_SCHEMA
from tests.command_line import call

CATALOGUE = """
models:
  - {name: pump, step_s: 60, sensors: [{id: flow, unit: m3/h, min: 0}, {id: speed}]}
groups:
  - {model: pump, pattern: "pump-*"}
"""


def glaim(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return call(*arguments, environment={"COLUMNS": "120", **environment})


@pytest.mark.parametrize(("given", "expected"), [({}, "1"), ({"OMP_NUM_THREADS": "3"}, "3")])
def test_linear_algebra_has_one_thread_unless_the_environment_says_otherwise(
    given: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    program = """
import atexit, os, sys
from glaim_stream.commands.main import main
assert "numpy" not in sys.modules
atexit.register(lambda: print(os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS")))
sys.argv = ["glaim-stream", "schema"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == expected


@pytest.fixture
def groups_yaml(tmp_path: Path) -> Path:
    path = tmp_path / "groups.yaml"
    path.write_text(CATALOGUE)
    return path


@pytest.mark.parametrize(
    "command",
    [
        "",
        "worker",
        "produce",
        "replay",
        "tail",
        "audit",
        "dlq list",
        "dlq show",
        "dlq requeue",
        "schema",
        "size",
    ],
)
def test_every_command_has_help(command: str) -> None:
    done = glaim(*command.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage" in done.stdout


def test_help_imports_nothing_heavy() -> None:
    heavy = ("faust", "pyarrow", "numpy", "kafka", "aiokafka", "rich.table")
    script = f"import sys, glaim_stream.commands.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["produce"], "expected a file or --plant, found neither"),
        (["replay", "x.csv"], "expected one of --out FILE, --output-topic TOPIC and --sink NAME=WHERE, found none"),
        (["replay", "x.csv", "--out", "x.arrow", "--output-topic", "x"], "found 2"),
        (["replay", "x.csv", "--sink", "x"], "--sink: expected NAME=WHERE, found 'x'"),
        (["replay", "x.csv", "--output-topic", "sensor-readings"], "expected another topic than the input"),
        (["replay", "x.csv", "--out", "x.arrow", "--from-offset", "3"], "offsets and --partition are for the topic"),
        (["replay", "x.jsonl", "--out", "x.arrow", "--until", "2026-01-01"], "raw messages are replayed whole"),
        (["produce", "x.csv", "--plant"], "found both"),
        (["produce", "absent.csv", "--dry-run"], "expected a data file at absent.csv"),
        (["produce", "--plant", "--days", "0", "--dry-run"], "at least one step"),
        (["produce", "--plant", "--speed", "fast", "--dry-run"], "--speed: expected"),
        (["produce", "x.csv", "--live"], "--live: expected --plant"),
        (["produce", "--plant", "--live", "--speed", "2"], "--live: expected no --speed"),
        (["produce", "--plant", "--live", "--until", "2030-01-01"], "--live: expected no --speed, --since or --until"),
        (["produce", "--plant", "--drop", "1.5", "--dry-run"], "share of readings"),
        (["produce", "--plant", "--since", "2030-01-01", "--dry-run"], "found only some from 2026"),
        (["check", "--catalogue", "absent.yaml"], "expected a catalogue"),
        (["check", "--contract", "absent"], "expected a model contract"),
        (["audit", "--catalogue", "absent.yaml"], "expected a catalogue"),
        (["audit", "--from-offset", "many"], "PARTITION:OFFSET"),
        (["dlq", "list", "--cause", "bad-luck"], "expected a cause of bad-time"),
        (["dlq", "show", "7"], "PARTITION:OFFSET"),
        (["tail", "--newest-only"], "needs --out"),
        (["tail", "--out", "x.txt"], ".parquet"),
        (["worker", "--metrics-port", "99999"], "GLAIM_METRICS_PORT"),
        (["worker", "--catalogue", "absent.yaml"], "expected a catalogue"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(arguments: list[str], expected: str) -> None:
    done = glaim(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert expected in done.stderr


def test_an_invalid_environment_variable_is_named() -> None:
    done = glaim("worker", GLAIM_IMPUTER="magic")
    assert done.returncode == 2
    assert "GLAIM_IMPUTER" in done.stderr


def test_a_dry_run_prints_the_readings_that_it_would_send() -> None:
    done = glaim(
        "produce", "--plant", "--groups", "2", "--days", "0.1", "--drop", "0.1", "--format", "step", "--dry-run"
    )
    assert done.returncode == 0
    assert "would send 2074 readings (0 null) of 2 groups" in done.stdout
    assert "from 2026-01-01T00:00:00Z to 2026-01-01T02:23:00Z; withheld 230" in done.stdout


def test_a_live_plant_starts_at_the_quarter_of_the_day_two_hours_ago() -> None:
    before = datetime.now(UTC)
    done = glaim("produce", "--plant", "--groups", "1", "--days", "0.01", "--live", "--dry-run")
    first = datetime.fromisoformat(done.stdout.split("from ")[1].split(" to ")[0])
    two_hours_ago = [moment - timedelta(hours=2) for moment in (before, datetime.now(UTC))]
    assert first in [each.replace(hour=each.hour // 6 * 6, minute=0, second=0, microsecond=0) for each in two_hours_ago]


def test_the_catalogue_is_checked(groups_yaml: Path) -> None:
    done = glaim("check", "--catalogue", str(groups_yaml), "--group", "pump-3")
    assert done.returncode == 0
    assert "group pump-3: model pump" in done.stdout
    assert "good" in done.stdout
    done = glaim("check", "--catalogue", str(groups_yaml), "--group", "fan-1")
    assert done.returncode == 2
    assert "expected a group of the catalogue, found 'fan-1'; known: pump-*" in done.stderr
    done = glaim("check", "--catalogue", str(groups_yaml), "--model-repository", str(groups_yaml.parent))
    assert done.returncode == 2
    assert "expected a model contract" in done.stderr


def test_the_schema_names_every_column() -> None:
    done = glaim("schema")
    assert done.returncode == 0
    assert all(name in done.stdout for name in PLAIN_SCHEMA.names)
    assert all(status.symbol in done.stdout for status in Status)


def table(revision: int, value: float, sensor: str = "a", *, observed: bool = False) -> pa.Table:
    row = {
        "group": "g", "sensor": sensor, "ts": 0, "event_time": None, "value": value, "observed": observed,
        "method": "model", "quality": "uncertain", "status": 0x40910000,
        "lower": None, "upper": None, "gap_age": 1, "revision": revision, "final": True,
        "model_version": "1",
    }  # fmt: skip
    return pa.Table.from_pylist([row], schema=PLAIN_SCHEMA)


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv"])
def test_a_row_file_is_complete_even_after_ctrl_c(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out{ending}"
    file = RowFile(path)
    with suppress(KeyboardInterrupt), file:
        file.add(table(0, 1.0))
        file.add(table(1, 2.0))
        assert not path.exists()
        raise KeyboardInterrupt
    assert file.rows == 2
    if ending == ".parquet":
        assert pq.read_table(path).num_rows == 2
    elif ending == ".arrow":
        assert pa.ipc.open_file(path).read_all().num_rows == 2
    else:
        assert len(path.read_text().splitlines()) == 3
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_row_file_is_dropped_on_an_error(tmp_path: Path) -> None:
    with suppress(ZeroDivisionError), RowFile(tmp_path / "out.parquet") as file:
        file.add(table(0, 1.0))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_only_the_newest_revisions_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glaim_stream.output.row_files._RUN_ROWS", 2)
    path = tmp_path / "out.parquet"
    with RowFile(path, newest_only=True) as file:
        for revision, value in ((0, 1.0), (1, 2.0), (0, 1.0), (1, 3.0), (0, 1.0)):
            file.add(table(revision, value))
            file.add(table(0, 9.0, "b"))
    kept = pq.read_table(path)
    assert (kept["sensor"].to_pylist(), kept["value"].to_pylist()) == (["a", "b"], [3.0, 9.0])
    assert newest_revisions([kept]).num_rows == file.rows == 2


def test_a_filter_selects_rows() -> None:
    both = pa.concat_tables([table(0, 1.0), table(0, 2.0, "b", observed=True)])
    assert Filter().apply(both).num_rows == 2
    assert Filter(sensors=["b"]).apply(both)["value"].to_pylist() == [2.0]
    assert Filter(groups=["h"]).apply(both).num_rows == 0
    assert Filter(only_imputed=True).apply(both)["sensor"].to_pylist() == ["a"]
    with pytest.raises(SettingsError, match="ending in"):
        RowFile(Path("x.txt"))
