"""`glaim-stream fill`: the user's own file comes back, with its holes filled and all else as it was."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.command_line import call

ROWS = 240
START = datetime(2026, 3, 20, tzinfo=UTC)
HOLE = "\0"


def times(form: str, rows: int = ROWS) -> list[str]:
    return [(START + timedelta(minutes=10 * row)).strftime(form) for row in range(rows)]


def sensor(seed: int, rows: int = ROWS) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=rows)
    return 20.0 + 5.0 * np.sin(np.arange(rows) / 11.0) + 0.05 * seed * noise


def table(number: str, *, stamp: str = "%Y-%m-%d %H:%M", decimal: str = ".", rows: int = ROWS) -> list[list[str]]:
    """Rows of a time, two sensors with holes among them, and a remark."""
    first, second = ([format(value, number).replace(".", decimal) for value in sensor(seed, rows)] for seed in (1, 2))
    cells = [list(row) for row in zip(times(stamp, rows), first, second, ["ok"] * rows, strict=True)]
    for row in (*range(50, 58), 90, 91, 130):
        cells[row][1] = HOLE
    for row in (54, 91, 160, 161):
        cells[row][2] = HOLE
    return cells


def joined(cells: Sequence[Sequence[str]], separator: str, end: str, names: str) -> str:
    return names + end + end.join(separator.join(row) for row in cells)


def fill(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return call("fill", *map(str, arguments), environment={})


def by_process(*arguments: str, stdin: bytes = b"", **more: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "glaim_stream", "fill", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, **more)  # type: ignore[call-overload,no-any-return]


def filled_numbers(before: str, after: str, number: str) -> list[str]:
    """The filled cells of a text in which holes are marked; all other characters are those of the text before."""
    parts = [re.escape(part) for part in before.split(HOLE)]
    match = re.fullmatch(f"({number})".join(parts), after)
    assert match, "other characters than those of the holes differ"
    return list(match.groups())


FORMS = {
    "decimal-comma": (";", "\r\n", '\ufeffZeit;"Druck; bar";Fluss;Notiz', ",", ".1f", "utf-8", r"-?\d+,\d"),
    "utf-16": (";", "\r\n", "\ufeffZeit;Druck;Fluss;Notiz", ",", ".2f", "utf-16-le", r"-?\d+,\d\d"),
    "tabs": ("\t", "\n", "time\ttemperature °C\tflow\tnote", ".", ".4f", "latin-1", r"-?\d+\.\d{4}"),
    "exponents": (",", "\n", "time,a,b,note", ".", ".4E", "utf-8", r"-?\d\.\d{4}E\+\d\d"),
    "leading-zeros": ("|", "\n", "time|a|b|note", ".", "05.0f", "utf-8", r"000\d\d"),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_bytes_but_those_of_the_holes_are_the_same(tmp_path: Path, form: str) -> None:
    separator, end, names, decimal, number, encoding, written = FORMS[form]
    cells = table(number, decimal=decimal)
    cells[7][3], cells[8][3], cells[9][3] = " x ", '"two, ""words"""', ""
    marked = joined(cells, separator, end, names)
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_bytes(marked.replace(HOLE, "").encode(encoding))

    done = fill(path, "--out", out)

    assert done.returncode == 0, done.stderr
    assert len(filled_numbers(marked, out.read_bytes().decode(encoding), written)) == 15
    assert "holes: 15, of which 15 are filled" in done.stdout


def test_words_for_no_value_and_quotes_are_replaced_where_they_stand(tmp_path: Path) -> None:
    cells = table(".1f", decimal=",")
    marked = joined([[row[0], f'"{row[1]}"', row[2].replace(",", "."), row[3]] for row in cells], ",", "\n", "t,a,b,c")
    written = marked.replace(f'"{HOLE}"', '"NA"', 3).replace(f'"{HOLE}"', '""').replace(HOLE, "NA")
    (tmp_path / "in.csv").write_text(written)

    done = fill(tmp_path / "in.csv", "--out", tmp_path / "out.csv")

    assert done.returncode == 0, done.stderr
    numbers = filled_numbers(marked, (tmp_path / "out.csv").read_text(), r"\d+[,.]\d")
    assert sorted({number[-2] for number in numbers}) == [",", "."]


def test_duplicates_disorder_jitter_and_missing_rows_change_no_row(tmp_path: Path) -> None:
    cells = table(".2f", stamp="%Y-%m-%dT%H:%M:00Z")
    rng = np.random.default_rng(0)
    for line in cells:
        line[0] = line[0].replace(":00Z", f":{int(rng.integers(0, 6)):02d}Z")
    del cells[200:206]
    cells.insert(31, [cells[30][0], "77.00", cells[30][2], "ok"])
    cells[20], cells[21] = cells[21], cells[20]
    cells[30][1] = ""  # its twin has a reading, which must not move here
    marked = joined(cells, ",", "\n", "time,a,b,note") + "\n"
    (tmp_path / "in.csv").write_text(marked.replace(HOLE, ""))

    done = fill(tmp_path / "in.csv", "--out", tmp_path / "out.csv")

    assert done.returncode == 0, done.stderr
    filled_numbers(marked, (tmp_path / "out.csv").read_text(), r"\d+\.\d\d")
    assert "another row of the same step has the reading" in done.stdout
    assert "rows missing: 6 steps have no row" in done.stdout


def test_missing_rows_are_inserted_on_request(tmp_path: Path) -> None:
    cells = table(".2f", stamp="%d.%m.%Y %H:%M")
    absent = [row[0] for row in cells[200:203]]
    del cells[200:203]
    (tmp_path / "in.csv").write_text(joined(cells, ";", "\n", "time;a;b;note").replace(HOLE, ""))

    done = fill(tmp_path / "in.csv", "--out", tmp_path / "out.csv", "--insert-rows")

    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert [line.split(";")[0] for line in lines[201:204]] == absent
    assert all(re.fullmatch(r"[^;]+;\d+\.\d\d;\d+\.\d\d;", line) for line in lines[201:204])
    assert "rows inserted for steps that had none: 3" in done.stdout


@pytest.mark.parametrize("stray", ["1970-01-01T00:00:00Z,0.00,", "2106-02-07T06:28:15Z,NA,7"])
def test_a_row_of_a_wrong_clock_stays_and_the_others_are_filled_as_without_it(tmp_path: Path, stray: str) -> None:
    rows = [row[:3] for row in table(".2f", stamp="%Y-%m-%dT%H:%M:00Z")]
    del rows[200]
    lines = joined(rows, ",", "\n", "time,a,b").replace(HOLE, "NA").splitlines()
    (tmp_path / "without.csv").write_text("\n".join(lines))
    lines.insert(101, stray)
    (tmp_path / "in.csv").write_text("\n".join(lines))

    outputs = []
    for name in ("without.csv", "in.csv"):
        done = fill(tmp_path / name, "--out", tmp_path / f"out-{name}", "--insert-rows")
        assert done.returncode == 0, done.stderr
        outputs.append((tmp_path / f"out-{name}").read_text().splitlines())

    assert outputs[1][101] == stray
    assert [*outputs[1][:101], *outputs[1][102:]] == outputs[0]
    said = (
        f"rows with a time far from all others, as of a wrong clock: 1 (row 101, {stray[:20]}): kept as they are, not "
        "filled, and not used to fill others"
    )
    assert said in done.stdout.splitlines()
    assert "from 2026-03-20T00:00:00Z to 2026-03-21T15:50:00Z, a step every 10 min" in done.stdout
    assert "rows inserted for steps that had none: 1" in done.stdout


def test_rows_are_not_inserted_where_ten_minutes_turn_into_fifteen(tmp_path: Path) -> None:
    cells = table(".2f")
    for row in range(120, ROWS):
        cells[row][0] = (START + timedelta(minutes=10 * row + 5 * (row - 120))).strftime("%Y-%m-%d %H:%M")
    (tmp_path / "in.csv").write_text(joined(cells, ",", "\n", "time,a,b,note").replace(HOLE, ""))

    done = fill(tmp_path / "in.csv", "--out", tmp_path / "out.csv", "--insert-rows")

    assert done.returncode == 2
    assert not (tmp_path / "out.csv").exists()
    assert (
        "--insert-rows expects rows that are multiples of 10 min apart, found 119 of 239 distances that are not"
        in done.stderr
    )

    done = fill(tmp_path / "in.csv", "--out", tmp_path / "out.csv")
    assert done.returncode == 0, done.stderr
    assert "a step every 10 min" in done.stdout
    assert "rows missing: not counted, as 119 of 239 distances between rows are no multiples of the step" in done.stdout


def test_the_step_that_is_printed_is_the_one_that_is_used(tmp_path: Path) -> None:
    """Rows are 26 s and 34 s apart in turn; 26 s would be the most frequent distance."""
    lines = [f"{START + timedelta(seconds=60 * (row // 2) + 26 * (row % 2)):%Y-%m-%dT%H:%M:%SZ}" for row in range(ROWS)]
    values = ["" if row % 9 == 4 else f"{value:.2f}" for row, value in enumerate(sensor(1))]
    (tmp_path / "in.csv").write_text("\n".join(["time,a", *map(",".join, zip(lines, values, strict=True))]))

    done = fill(tmp_path / "in.csv", "--out", tmp_path / "out.csv")

    assert done.returncode == 0, done.stderr
    assert "from 2026-03-20T00:00:00Z to 2026-03-20T01:59:26Z, a step every 30 s" in done.stdout


def test_no_more_rows_are_inserted_than_ten_times_those_of_the_file(tmp_path: Path) -> None:
    cells = table(".2f")
    for row in range(120, ROWS):  # half a year of silence
        cells[row][0] = (START + timedelta(days=180, minutes=10 * row)).strftime("%Y-%m-%d %H:%M")
    (tmp_path / "in.csv").write_text(joined(cells, ",", "\n", "time,a,b,note").replace(HOLE, ""))

    done = fill(tmp_path / "in.csv", "--out", tmp_path / "out.csv", "--insert-rows")

    assert done.returncode == 2
    assert (
        "--insert-rows expects to insert at most 2,400 rows into 240, found 25,920 steps of 10 min without a row"
        in done.stderr
    )
    assert "wrong clock" not in done.stdout


def test_flags_stand_beside_each_sensor_and_in_a_long_file(tmp_path: Path) -> None:
    cells = table(".2f")
    (tmp_path / "in.csv").write_text(joined(cells, ",", "\n", "time,a,b,note").replace(HOLE, ""))

    done = fill(
        tmp_path / "in.csv", "--out", tmp_path / "out.csv", "--flags", "--flags-out", tmp_path / "flags.csv",
        "--report", tmp_path / "page.html",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    lines = [line.split(",") for line in (tmp_path / "out.csv").read_text().splitlines()]
    assert lines[0] == ["time", "a", "a_method", "a_lower", "a_upper", "b", "b_method", "b_lower", "b_upper", "note"]
    assert lines[1][2:5] == ["observed", "", ""]
    assert lines[51][2] in ("gaussian", "interpolation")
    assert float(lines[51][3]) <= float(lines[51][1]) <= float(lines[51][4])
    flags = (tmp_path / "flags.csv").read_text().splitlines()
    assert flags[0] == "row,time,group,sensor,method,value,lower,upper"
    assert flags[1].startswith(f"51,2026-03-20T08:20:00Z,in,a,{lines[51][2]},")
    assert len(flags) == 16
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") >= 4
    assert "http" not in page.replace("http-equiv", "")


def test_a_doubtful_reading_is_named_kept_and_flagged(tmp_path: Path) -> None:
    cells = table(".2f")
    cells[52][1], cells[100][2] = "123456789", "-98765"
    (tmp_path / "in.csv").write_text(joined(cells, ",", "\n", "time,a,b,note").replace(HOLE, ""))

    done = fill(
        tmp_path / "in.csv", "--out", tmp_path / "out.csv", "--flags", "--flags-out", tmp_path / "flags.csv",
        "--report", tmp_path / "page.html",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    said = (
        "readings far from those around them: a 1 (123456789 at 2026-03-20T08:40:00Z), b 1 (-98765 at "
        "2026-03-20T16:40:00Z): kept as they are, and not used to fill others; --no-plausibility uses them"
    )
    assert said in done.stdout.splitlines()
    lines = [line.split(",") for line in (tmp_path / "out.csv").read_text().splitlines()]
    assert lines[53][1:5] == ["123456789", "doubtful", "", ""]
    assert all(abs(float(lines[row][1])) < 100 for row in (51, 52, 54))
    flags = (tmp_path / "flags.csv").read_text().splitlines()
    assert "53,2026-03-20T08:40:00Z,in,a,doubtful,123456789.0,," in flags
    assert (tmp_path / "page.html").read_text().count('class="doubtful"') >= 2

    done = fill(tmp_path / "in.csv", "--out", tmp_path / "out2.csv", "--no-plausibility")
    assert "far from those around them" not in done.stdout
    lines = [line.split(",") for line in (tmp_path / "out2.csv").read_text().splitlines()]
    assert abs(float(lines[52][1])) > 1e5


def test_a_file_through_pipes_leaves_data_alone_on_standard_output(tmp_path: Path) -> None:
    marked = joined(table(".2f"), ",", "\n", "time,a,b,note") + "\n"
    raw = marked.replace(HOLE, "").encode()

    done = by_process("-", "--out", "-", stdin=gzip.compress(raw))

    assert done.returncode == 0, done.stderr
    assert len(filled_numbers(marked, gzip.decompress(done.stdout).decode(), r"\d+\.\d\d")) == 15
    assert b"standard input: CSV, gzip inside; 240 rows" in done.stderr


def arrow_table() -> pa.Table:
    first, second = sensor(1), sensor(2)
    holes = np.isin(np.arange(ROWS), [50, 51, 90])
    stamps = [START.replace(tzinfo=None) + timedelta(minutes=10 * row) for row in range(ROWS)]
    return pa.table(
        {
            "ts": pa.array(stamps, pa.timestamp("us")),
            "a": pa.array(first.astype(np.float32), mask=holes),
            "b": pa.array(np.rint(second * 100).astype(np.int32), mask=holes),
            "note": pa.array(["x"] * ROWS).dictionary_encode(),
        }
    ).replace_schema_metadata({"owner": "plant 7"})


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows"])
def test_a_typed_file_keeps_schema_and_observed_cells(tmp_path: Path, kind: str) -> None:
    table, path, out = arrow_table(), tmp_path / f"in.{kind}", tmp_path / f"out.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        with (pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream)(path, table.schema) as file:
            file.write_table(table)

    done = fill(path, "--out", out)

    assert done.returncode == 0, done.stderr
    opened = {"parquet": pq.read_table, "arrow": lambda p: pa.ipc.open_file(p).read_all()}
    found = opened.get(kind, lambda p: pa.ipc.open_stream(p).read_all())(out)
    assert found.schema.equals(table.schema, check_metadata=True)
    for name in ("a", "b"):
        assert found[name].null_count == 0
        observed = table[name].is_valid().combine_chunks()
        assert found[name].filter(observed).equals(table[name].filter(observed))
    assert found.select(["ts", "note"]).equals(table.select(["ts", "note"]))


def test_json_lines_are_filled_where_a_value_is_null(tmp_path: Path) -> None:
    rows = [json.dumps({"ts": row[0] + ":00Z", "a": HOLE, "n": "x"}) for row in table(".2f")]
    values = [None if row[1] == HOLE else row[1] for row in table(".2f")]
    marked = "\n".join(
        row.replace('"\\u0000"', HOLE if value is None else value) for row, value in zip(rows, values, strict=True)
    )
    (tmp_path / "in.jsonl").write_text(marked.replace(HOLE, "null"))

    done = fill(tmp_path / "in.jsonl", "--out", tmp_path / "out.jsonl")

    assert done.returncode == 0, done.stderr
    assert len(filled_numbers(marked, (tmp_path / "out.jsonl").read_text(), r"\d+\.\d\d")) == 11


def write_small(folder: Path) -> Path:
    path = folder / "in.csv"
    path.write_text(joined(table(".2f"), ",", "\n", "time,a,b,note").replace(HOLE, ""))
    return path


def test_the_input_is_never_an_output_unless_asked(tmp_path: Path) -> None:
    path = write_small(tmp_path)
    before = path.read_bytes()
    os.link(path, tmp_path / "same.csv")
    for more in (
        ["--out", path],
        ["--out", tmp_path / "same.csv"],
        ["--out", tmp_path / "o.csv", "--report", path],
        ["--out", tmp_path / "o.csv", "--flags-out", tmp_path / "o.csv"],
        ["--in-place", "--out", tmp_path / "o.csv"],
    ):
        done = fill(path, *more)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert path.read_bytes() == before

    assert fill(path, "--in-place").returncode == 0
    assert path.read_bytes() != before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in.csv", "same.csv"]


def test_the_default_output_stands_beside_the_input_and_is_not_overwritten(tmp_path: Path) -> None:
    path = write_small(tmp_path)

    assert fill(path).returncode == 0
    first = (tmp_path / "in-filled.csv").read_bytes()
    again = fill(path)

    assert (again.returncode, (tmp_path / "in-filled.csv").read_bytes()) == (2, first)
    assert "in-filled.csv exists: replace it with --out" in again.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    path = write_small(tmp_path)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "glaim_stream", "fill", str(path), "--out", "-"],
            stdout=full, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip

    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[-1] == "error: standard output cannot be written: No space left on device"


def test_a_kill_half_way_leaves_no_output_and_the_input(tmp_path: Path) -> None:
    path = write_small(tmp_path)
    before = path.read_bytes()
    process = subprocess.Popen(
        [sys.executable, "-m", "glaim_stream", "fill", str(path), "--in-place"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()  # what the file is: nothing is written yet
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "expected readings, found an empty file"),
        (b"time,a\n", ""),
        (b"PK\x03\x04", "Excel"),
        (gzip.compress(b"time,a\n2026-01-01,1\n", mtime=0)[:-9], "gzip"),
        (b"PAR1 half", ""),
        (b'[{"time": "2026-01-01", "a": 1}, {"time": "2026-01-02", "a": null}]', "an object a line first"),
        (b'{"time": ["2026-01-01", "2026-01-02"], "a": [1, null]}', "time, a are whole columns"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, raw: bytes, message: str) -> None:
    (tmp_path / "in.csv").write_bytes(raw)

    done = fill(tmp_path / "in.csv", "--out", tmp_path / "out.csv")

    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert message in done.stderr
    assert not (tmp_path / "out.csv").exists()


def test_holes_of_which_none_can_be_filled_are_a_code_of_their_own(tmp_path: Path) -> None:
    cells = table(".2f")
    for row, line in enumerate(cells):
        line[1:3] = ["", ""] if 60 <= row < 75 else [cell.replace(HOLE, "20.00") for cell in line[1:3]]
    (tmp_path / "in.csv").write_text(joined(cells, ",", "\n", "time,a,b,note"))

    done = fill(tmp_path / "in.csv", "--out", tmp_path / "out.csv", "--max-gap", "5")

    assert done.returncode == 1, done.stderr
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "in.csv").read_bytes()
    assert "left as they are: 30 cells: in a gap of more than 5 steps" in done.stdout


def test_a_file_without_holes_comes_back_as_it_is(tmp_path: Path) -> None:
    raw = joined(table(".2f"), ",", "\r\n", "time,a,b,note").replace(HOLE, "20.00").encode()
    (tmp_path / "in.csv").write_bytes(raw)

    done = fill(tmp_path / "in.csv", "--out", tmp_path / "out.csv.gz")

    assert done.returncode == 0, done.stderr
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == raw
    assert "holes: 0" in done.stdout


def test_a_fitted_form_is_saved_and_fills_another_file(tmp_path: Path) -> None:
    path = write_small(tmp_path)
    assert fill(path, "--out", tmp_path / "1.csv", "--save-model", tmp_path / "model").returncode == 0

    done = fill(path, "--out", tmp_path / "2.csv", "--model", tmp_path / "model")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "2.csv").read_bytes().count(b",,") == 0
    assert fill(path, "--out", tmp_path / "3.csv", "--model", tmp_path / "absent").returncode == 2
