"""`glaim-stream report` on files: what it prints and writes, and its exit codes."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from glaim_stream.commands.report_text import show
from tests.command_line import call
from tests.operate.completeness.test_pages import made

LINES = ["time,pump,flow,temp"] + [
    f"2026-03-{29 + hour // 24:02}T{hour % 24:02}:00:00Z,p{pump},{hour % 7}.5,{'' if 5 <= hour < 9 and pump else 20.5}"
    for hour in range(36)
    for pump in range(2)
]


@pytest.fixture
def pumps(tmp_path: Path) -> Path:
    path = tmp_path / "pumps.csv"
    path.write_text("\n".join(LINES) + "\n")
    return path


def test_a_file_is_reported_in_a_table_a_document_and_a_page(pumps: Path, tmp_path: Path) -> None:
    document, page = tmp_path / "pumps.json", tmp_path / "pumps.html"
    done = call(
        "report",
        str(pumps),
        "--timezone",
        "Europe/Berlin",
        "--json",
        str(document),
        "--html",
        str(page),
        environment={},
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "pumps.csv: 2 groups, 4 sensors, 2026-03-29 01:00 to 2026-03-30 14:00, Europe/Berlin"
    assert "expected 144, arrived 140, good 97.2 %, null 4" in lines
    worst = next(line for line in lines if line.startswith("p1 "))
    assert worst.split() == ["p1", "temp", "88.8", "36", "32", "4", "4", "h", "▆█"]
    found = json.loads(document.read_text())
    assert found["sensors"][0]["group"] == "p1"
    assert found["sensors"][0]["sensor"] == "temp"
    # From 01:00, at which the file begins; the clocks skip the hour after 02:00.
    assert [(day["date"], day["expected"]) for day in found["sensors"][0]["days"]] == [
        ("2026-03-29", 22),
        ("2026-03-30", 14),
    ]
    assert found["total"]["pct_good"] == pytest.approx(100 * 140 / 144)
    assert page.read_text().startswith("<!doctype html>")


def test_the_document_may_go_to_standard_output(pumps: Path) -> None:
    command = [sys.executable, "-m", "glaim_stream", "report", "-", "--json", "-", "--group", "p0"]
    done = subprocess.run(command, input=pumps.read_text(), capture_output=True, text=True, check=True)
    assert [each["group"] for each in json.loads(done.stdout)["sensors"]] == ["p0", "p0"]
    assert "good 100 %" in done.stderr


def test_only_the_worst_are_printed(pumps: Path) -> None:
    done = call("report", str(pumps), "--worst", "1", environment={})
    assert "3 more sensors are at least as complete (--worst N, --json, --html)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("--since", "2027-01-01"), 1, "pumps.csv: expected rows since 2027-01-01, found none"),
        (("--group", "q*"), 2, "expected a group of pumps.csv, found 'q*'; known: p0, p1"),
        (("--group", "pp1"), 2, "did you mean p1?"),
        (("--timezone", "Mars/Olympus"), 2, "expected a time zone such as Europe/Berlin, found 'Mars/Olympus'"),
        (("--since", "2026-03-30", "--until", "2026-03-29"), 2, "expected --since before --until"),
        (("--kafka", "localhost:1"), 2, "expected a file or --kafka, found both"),
        (("--step", "0"), 2, "expected --step of at least 0.001 seconds, found 0"),
        (("--fill", "--step", "60"), 2, "expected --fill without --step"),
        (("--json", "a.json", "--html", "a.json"), 2, "a.json is also the input or another output"),
        (("--html", "absent/a.html"), 2, "cannot be written"),
    ],
)
def test_what_cannot_be_reported_is_an_error(
    pumps: Path, arguments: tuple[str, ...], code: int, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pumps.parent)
    done = call("report", str(pumps), *arguments, environment={})
    assert done.returncode == code
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert problem in done.stderr
    assert [path.name for path in pumps.parent.iterdir()] == ["pumps.csv"]


def test_flags_of_a_file_need_one_and_an_input_is_not_written_over(pumps: Path) -> None:
    done = call("report", "--fill", environment={})
    assert (done.returncode, done.stderr) == (2, "error: expected a file with --fill, found none\n")
    before = pumps.read_bytes()
    done = call("report", str(pumps), "--html", str(pumps), environment={})
    assert done.returncode == 2
    assert pumps.read_bytes() == before


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_a_narrow_terminal_shows_names_and_whole_figures(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glaim_stream.commands.report_text.file_width", lambda file: width)
    out = io.StringIO()
    show(made(["flow", "suction_pressure_of_the_pump_in_the_cellar", "\x1b[2J"]), out, worst=3)
    table = out.getvalue().splitlines()[5:]
    assert max(map(len, table)) <= width
    assert "…" not in out.getvalue()
    assert all(char.isprintable() or char == "\n" for char in out.getvalue())
    assert "good %" in table[0]
    assert "suction_pressure" in out.getvalue()
    columns = [len(re.split(r"\s{2,}", table[0].strip()))]
    assert columns[0] >= {60: 4, 80: 6, 100: 7, 160: 10}[width]
