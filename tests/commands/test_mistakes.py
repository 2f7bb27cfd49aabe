"""Mistakes on the command line: every command answers each with a sentence and exit code 2, and no traceback."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from glaim_stream.commands.main import app
from tests.command_line import call

CATALOGUE = """
models:
  - {name: pump, step_s: 60, sensors: [{id: flow, unit: m3/h, min: 0}, {id: speed}]}
groups:
  - {model: pump, pattern: "pump-*"}
"""
FIT = ("fit",)  # hands its arguments to another process
GROUPED = ["--name", "pump-1", "--imputer", "interpolation", "--out", "rows.csv"]


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = [(path, command) for path, command in commands(typer.main.get_command(app)) if path != FIT]
TYPED = [
    (path, option.opts[0])
    for path, command in ALL
    for option in command.params
    if option.param_type_name == "option"
    and not option.is_flag
    and any(kind in str(option.type_descriptor.annotation) for kind in ("int", "float", "glaim_stream"))
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a catalogue and files of every wrong kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "groups.yaml").write_text(CATALOGUE)
    (tmp_path / "good.csv").write_text(
        "time,flow,speed\n" + "".join(f"2025-01-01T00:{minute:02d}:00,{minute % 7},2\n" for minute in range(60))
    )
    (tmp_path / "empty.csv").touch()
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "header.csv").write_text("time,flow\n")
    (tmp_path / "other.csv").write_text("time,flwo\n2025-01-01,1\n2025-01-02,2\n")
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "binary.arrows").write_bytes(b"\x00\xff" * 50)
    (tmp_path / "broken.yaml").write_text("models: [\n")
    (tmp_path / "folder.csv").mkdir()
    return tmp_path


def mistake(*arguments: str) -> str:
    """The line with which a command ends."""
    done = call(*arguments, environment={"COLUMNS": "120", "PATH": os.environ["PATH"]})
    assert done.returncode == 2, (arguments, done.stdout, done.stderr)
    *before, last = done.stderr.splitlines()
    assert last.startswith(("error: ", "Error: ")), done.stderr
    assert "Traceback" not in done.stderr
    assert not any(word in last for word in ("Input should", "validation error", "pydantic", "Errno")), last
    notes = [line for line in before if line.startswith(("good.csv: ", "other.csv: "))]  # on how the file is read
    assert notes == before or before[0].startswith("Usage: glaim-stream"), done.stderr
    return last


@pytest.mark.parametrize(("path", "option"), TYPED, ids=lambda value: " ".join(value) if value is not str else value)
def test_a_value_of_another_kind_is_named(path: tuple[str, ...], option: str) -> None:
    line = mistake(*path, option, "soon")
    assert option in line
    assert "'soon'" in line
    assert "expected" in line or "is not one of" in line


@pytest.mark.parametrize("path", [path for path, _ in ALL], ids=" ".join)
def test_an_unknown_flag_is_named(path: tuple[str, ...]) -> None:
    assert "No such option: --no-such" in mistake(*path, "--no-such")


@pytest.mark.parametrize("path", [path for path, _ in ALL], ids=" ".join)
def test_h_is_help(path: tuple[str, ...]) -> None:
    done = call(*path, "-h", environment={"COLUMNS": "120"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: glaim-stream " + " ".join(path))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tial"], "Did you mean 'tail'?"),
        (["replay", "absent.csv", *GROUPED], "expected a data file at absent.csv"),
        (["replay", "folder.csv", *GROUPED], "folder.csv"),
        (["replay", "empty.csv", *GROUPED], "empty.csv"),
        (["replay", "empty.parquet", *GROUPED], "empty.parquet"),
        (["replay", "header.csv", *GROUPED], "header.csv"),
        (["replay", "binary.csv", *GROUPED], "binary.csv"),
        (["replay", "empty.jsonl", *GROUPED], "empty.jsonl: expected messages, found none"),
        (["replay", "binary.arrows", *GROUPED], "binary.arrows: expected Arrow IPC streams"),
        (
            ["replay", "good.csv", *GROUPED, "--imputer", "gaussian"],
            "expected the closed form model_repo/pump/gaussian.npz, found none; `glaim-stream learn` fits one",
        ),
        (["replay", "good.csv", *GROUPED, "--catalogue", "absent.yaml"], "expected a catalogue at absent.yaml"),
        (["replay", "good.csv", *GROUPED, "--catalogue", "broken.yaml"], "broken.yaml is not YAML"),
        (["replay", "good.csv", *GROUPED, "--out", "good.csv"], "expected another file to write than good.csv"),
        (["replay", "good.csv", *GROUPED, "--rejects", "rows.csv"], "expected another file to write than rows.csv"),
        (["replay", "good.csv", *GROUPED, "--out", "rows.txt"], ".parquet"),
        (["replay", "good.csv", *GROUPED, "--out", "folder.csv"], "Is a directory"),
        (["replay", "good.csv", *GROUPED, "--timezone", "Mars"], "expected a time zone such as Europe/Berlin"),
        (["replay", "good.csv", *GROUPED, "--time", "tiem"], "expected time column 'tiem'"),
        (["replay", "good.csv", *GROUPED, "--since", "soon"], "or how long ago, such as 30d, 12h or 45m, found 'soon'"),
        (["replay", "good.csv", *GROUPED, "--since", "2025-02-01", "--until", "2025-01-01"], "--since before --until"),
        (["replay", "good.csv", *GROUPED[2:], "--name", "other"], "found 'other'; known: pump-*"),
        (["replay", "good.csv", *GROUPED, "--name", "pmup-1"], "found 'pmup-1'"),
        (["replay", "other.csv", *GROUPED], "found 'flwo'; did you mean flow? known: flow, speed"),
        (["produce", "good.csv", "--name", "x", "--drop", "0.1", "--hidden", "good.csv"], "another file to write"),
        (["produce", "--plant", "--days", "1e9", "--dry-run"], "more memory than this machine has"),
        (["learn", "--data", "good.csv", "--name", "fan-1"], "found 'fan-1'; known: pump-*"),
        (["learn", "--data", "good.csv", "--name", "pump-1", "--model", "pmup"], "did you mean pump?"),
        (["dump", "--out", "rows.txt"], "expected a file ending in .parquet or .csv"),
        (["explain", "--group", "pmp", "--sensor", "flow", "--ts", "2025-01-01"], "expected a group of the catalogue"),
        (["check", "--catalogue", "groups.yaml", "--group", "fan-1"], "found 'fan-1'; known: pump-*"),
        (["models", "list", "groups.yaml"], "Not a directory"),
        (["models", "list", "http://x/y"], "expected a path, or a URI of s3, gs, abfss or file"),
        (["check", "--group", "fan-1"], "--group needs --catalogue"),
        (["check", "--contract", "groups.yaml"], "is not a contract of schema version 1: expected JSON"),
        (["tail", "--kafka", "a:b:c"], "GLAIM_KAFKA: expected host:port"),
        (["tail", "--kafka", ""], "GLAIM_KAFKA: expected host:port"),
        (["tail", "--from-offset", "-1"], "expected an offset of 0 or more"),
        (["tail", "--from-offset", "1:2", "--from-offset", "3"], "PARTITION:OFFSET for each partition"),
        (["settings", "kafkaesque"], "expected a part of a setting's name, found 'kafkaesque'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_is_one_sentence(folder: Path, arguments: list[str], expected: str) -> None:
    before = (folder / "good.csv").read_bytes()
    assert expected in mistake(*arguments)
    assert (folder / "good.csv").read_bytes() == before
    assert not (folder / "rows.csv").exists()


def test_a_broker_that_is_not_there_is_one_sentence(folder: Path) -> None:
    for command in (
        ["tail"],
        ["audit"],
        ["dump", "--out", "rows.csv"],
        ["dlq", "list"],
        ["replay", "--out", "rows.csv"],
    ):
        line = mistake(*command, "--kafka", "127.0.0.1:1")
        assert line.endswith("expected a broker at 127.0.0.1:1, found none: nothing answers there")


def test_rows_that_are_all_rejected_are_no_success(folder: Path) -> None:
    (folder / "far.jsonl").write_text('{"group": "pump-1", "sensor": "x", "ts": "2025-01-01T00:00:00Z", "value": 1}\n')
    done = call("replay", "far.jsonl", "--imputer", "interpolation", "--out", "rows.csv", environment={})
    assert done.returncode == 1
    assert "error: no row came out" in done.stderr


@pytest.mark.parametrize("share", ["0", "0.05"])
def test_a_replay_by_closed_forms_needs_one_of_every_model(share: str, folder: Path) -> None:
    arguments = ["replay", "good.csv", *GROUPED, "--imputer", "gaussian", "--out", "rows.csv"]
    done = call(*arguments, environment={"GLAIM_SCORE_SHARE": share})
    assert done.returncode == 2
    assert "expected the closed form model_repo/pump/gaussian.npz, found none" in done.stderr


def test_a_replay_writes_one_row_for_each_cell_unless_told_otherwise(folder: Path) -> None:
    text = (folder / "good.csv").read_text().replace("00:30:00,2,", "00:30:00,,")
    (folder / "hole.csv").write_text(text)
    counts = []
    for more in ([], ["--newest-only"], ["--all-revisions"]):
        assert call("replay", "hole.csv", *GROUPED, *more, environment={}).returncode == 0
        cells = [line.split(",")[:3] for line in (folder / "rows.csv").read_text().splitlines()[1:]]
        counts.append((len(cells), len({tuple(cell) for cell in cells})))
    assert counts == [(120, 120), (120, 120), (121, 120)]
