"""Rows on a terminal: a group or a sensor may be named anything."""

import subprocess
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from glaim_stream.commands.tail import TextFormat, _printer
from glaim_stream.output.records import PLAIN_SCHEMA

HOSTILE = ["pump-[/]", "[red]x[/red]", ":warning:", "\x1b[2J", "\x9b2J", "a\nb", "\u202eb", "\x1b]0;x\x07"]
TIME = datetime(2026, 1, 1, tzinfo=UTC)


def rows(names: list[str]) -> pa.Table:
    """An observed row of each group, whose sensor is named alike."""
    row = {
        "ts": TIME, "event_time": TIME, "value": 1.0, "observed": True, "quality": "good", "method": "observed",
        "status": 0, "gap_age": 0, "revision": 0, "final": True, "model_version": "",
    }  # fmt: skip
    return pa.Table.from_pylist([row | {"group": name, "sensor": name} for name in names], schema=PLAIN_SCHEMA)


def test_a_table_shows_names_as_they_are_and_obeys_none(capsys: pytest.CaptureFixture[str]) -> None:
    _printer(TextFormat.TABLE)(rows(HOSTILE))
    text = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in text)
    assert len(text.splitlines()) == 1 + len(HOSTILE)
    for shown in ("pump-[/]", "[red]x[/red]", ":warning:", r"\x1b[2J", r"\x9b2J", r"a\nb", r"\u202eb", r"\x1b]0;x\x07"):
        assert text.count(shown) == 2, shown


@pytest.mark.parametrize(("terminal", "shown"), [(True, rb"\x1b[2J"), (False, b"\x1b[2J")])
def test_csv_is_exact_for_a_program_and_harmless_on_a_terminal(
    terminal: bool, shown: bytes, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    _printer(TextFormat.CSV)(rows(["\x1b[2J"]))
    text = capsysbinary.readouterr().out
    assert text.count(shown) == 2
    assert (b"\x1b" in text) is not terminal


def test_json_lines_escape_by_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    _printer(TextFormat.JSONL)(rows(HOSTILE))
    text = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in text)
    assert len(text.splitlines()) == len(HOSTILE)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(123_456_789.12, "123456789.12"), (-1e6 - 0.25, "-1000000.25"), (12.3456789, "12.3457"), (1e308, "1e+308")],
)
def test_a_table_shows_the_last_digits_of_a_meter(value: float, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = rows(["g"])
    table = table.set_column(table.column_names.index("value"), "value", pa.array([value]))
    _printer(TextFormat.TABLE)(table)
    assert shown in capsys.readouterr().out.split()


@pytest.mark.parametrize("ignored", [False, True])
def test_sigterm_within_a_task_of_the_client_ends_in_order(ignored: bool) -> None:
    script = """
import asyncio, os, signal, sys
if len(sys.argv) > 1:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
from glaim_stream.commands.tail import end_on_sigterm

async def client():
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000):
        await asyncio.sleep(0.01)

async def main():
    task = asyncio.create_task(client())
    await asyncio.sleep(60)

end_on_sigterm()
try:
    with asyncio.Runner() as runner:
        runner.run(main())
except KeyboardInterrupt:
    print("ended")
"""
    command = [sys.executable, "-c", script, *(["ignored"] if ignored else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout == "ended\n"
    assert ignored or not done.stderr
