"""Make the frozen output of commands on files: `filled.json`, with the code of this checkout.

    python -m tests.golden.files              # two minutes; outputs whose set of GLAIM_DATA is absent are kept
    python -m tests.golden.files guess plant  # only those whose names have one of these words

`tests/files/test_frozen_files.py` makes each output again and compares it with the frozen one. As with the rows of
`tests/golden/make.py`, do not make it again when code is moved or rewritten. The product is reached by its command
line, by `impute` and by the guess of `training.fit`; its output is read by the standard library and pyarrow alone.

An output holds, to the byte, all that was said, a digest of the file that was written, and its lines that the input
does not have. Bounds of holes have 9 digits, and values of `impute` 9 decimals.
"""

import csv
import gzip
import hashlib
import json
import math
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.csv
import pyarrow.parquet as pq

from glaim_stream import impute
from tests.command_line import call
from tests.data_sets import DATA_SETS
from training.autoconfig.from_file import guess_layout
from training.data import DataSpec
from training.errors import DataError

FROZEN = Path(__file__).parent / "filled.json"
FILES = [
    path
    for folder in ("made_files", "real_files")
    for path in sorted((Path(__file__).parents[1] / "files" / folder).iterdir())
    if path.name not in ("table.toml", "README.md")
]
SETS = ("ETTh1.csv", "exchange_rate.csv", "national_illness.csv", "weather.csv")  # of GLAIM_DATA
COSTLY = {"uci_air_quality_form.csv", "snow.csv", "tmy3_sand_point.csv", "us_employment.csv", "midc_raw.csv"}
REFUSING = {  # to insert rows; the last cell of some rows is removed instead
    "psm3_form.csv", "airline_passengers.csv", "brent.csv", "cams_monthly.csv", "earthquakes.csv", "energy_traces.csv",
    "iowa_electricity.csv", "midc_ghi_with_zone.csv", "psm3_5min.csv", "pvgis_hourly.csv", "pvgis_tmy.csv",
    "water_flow.csv",
}  # fmt: skip
FRAMES: dict[str, Callable[[str], Any]] = {
    "pandas": lambda path: pd.read_csv(path, index_col="time", parse_dates=True),
    "polars": lambda path: pl.read_csv(path, try_parse_dates=True),
    "arrow": lambda path: pyarrow.csv.read_csv(path),
    "numpy": lambda path: np.genfromtxt(path, delimiter=",", skip_header=1)[:, 1:],
}
_PROGRESS = re.compile(r"\r?fill: [^\r\n]*[\r\n]*")
_LAST_CELL = re.compile(rb"(?<=[,;\t])-?\d[^,;\t\r\n]*(?=\r?\n?$)")
_LONG = re.compile(r"\d+\.\d{10,}")  # the last bits of what `impute` returns depend on the processor
_MOST_REPORTED = 5


def cases() -> Iterator[str]:
    """The names of all outputs: what is done, and the input."""
    for path in FILES:
        yield f"fill {path.name}"
        yield f"health {path.name}"
        yield f"guess {path.name}"
        if path.name not in COSTLY and path.suffix not in (".parquet", ".las"):
            yield f"{'blank' if path.name in REFUSING else 'insert'} {path.name}"
    yield from (f"impute {library}" for library in FRAMES)
    yield "health plant.csv"
    yield from (f"{doing} {name}" for doing in ("insert", "health") for name in SETS)


def slow(case: str) -> bool:
    """Whether the output takes long to make."""
    doing, name = case.split(" ")
    large = {path.name for path in FILES if path.stat().st_size > 20_000} | COSTLY
    return doing in ("insert", "blank") or name in SETS or (doing == "fill" and name in large)


def present(case: str) -> bool:
    """Whether its input is there."""
    return case.split(" ")[1] not in SETS or (DATA_SETS / case.split(" ")[1]).is_file()


def output(case: str, folder: Path) -> dict[str, Any]:
    """Make one output in an empty folder."""
    doing, name = case.split(" ")
    known = {path.name: path for path in FILES} | {each: DATA_SETS / each for each in SETS}
    file = folder / ("plant.csv" if doing == "impute" else name)
    file.write_bytes(known[name].read_bytes() if name in known else _plant(300 if doing == "impute" else 2000))
    if doing == "impute":
        return _imputed(name, file)
    if doing == "guess":
        return _guessed(file)
    if name in SETS:
        file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[: 300 if doing == "insert" else 3000]))
    out, flags = folder / f"out-{name}", folder / "flags.csv"
    if doing == "health":
        return _said(folder, "health", str(file))
    if doing in ("insert", "blank"):
        lines = _text(file).encode("latin-1").splitlines(keepends=True)
        third = len(lines) // 3
        chosen = {at for at in range(third + 1, 2 * third) if at % 12 in (3, 4)}
        if doing == "blank":
            kept = [_LAST_CELL.sub(b"", line) if at in chosen else line for at, line in enumerate(lines)]
        else:
            kept = [line for at, line in enumerate(lines) if at not in chosen]
        file.write_bytes(gzip.compress(b"".join(kept)) if file.suffix == ".gz" else b"".join(kept))
    more = ["--insert-rows"] if doing == "insert" else []
    made = _said(folder, "fill", str(file), "--out", str(out), "--flags-out", str(flags), *more)
    return made | (_lines(_text(file), _text(out)) | {"holes": _holes(flags)} if out.exists() else {})


def differences(found: dict[str, Any], frozen: dict[str, Any]) -> list[str]:
    """Each difference of two outputs: where, before and after."""
    problems = []
    for part in [name for name in {**frozen, **found} if found.get(name) != frozen.get(name)]:
        before, after = frozen.get(part), found.get(part)
        if part == "sha256" and found.get("lines") != frozen.get("lines"):
            continue  # the lines tell more
        if part == "sha256":
            problems.append("lines that the input has, too, stand elsewhere or are lost")
        elif isinstance(before, dict) and isinstance(after, dict):
            numbers = sorted({*before, *after}, key=lambda number: (len(number), number))
            for number in [each for each in numbers if before.get(each) != after.get(each)][:_MOST_REPORTED]:
                problems += _cells(f"{part} {number}", before.get(number), after.get(number))
        else:
            problems.append(f"{part}: before {before!r}, after {after!r}")
    return problems


def _cells(place: str, before: Any, after: Any) -> list[str]:
    if before is None or after is None:
        return [f"{place}: before {before or 'as in the input'!r}, after {after or 'as in the input'!r}"]
    apart = [re.split(r"[,;\t]", each) if isinstance(each, str) else each for each in (before, after)]
    pairs = [(at, *pair) for at, pair in enumerate(zip_longest(*apart, fillvalue="nothing"), 1) if pair[0] != pair[1]]
    return [f"{place}, cell {at}: before {old!r}, after {new!r}" for at, old, new in pairs[:_MOST_REPORTED]]


def _said(folder: Path, *arguments: str) -> dict[str, Any]:
    done = call(*arguments, environment={"COLUMNS": "120"})
    said = done.stdout + "--\n" + _PROGRESS.sub("", done.stderr)
    lines = said.replace(f"{folder}/", "").splitlines()
    return {"status": done.returncode, "said": {str(at): line for at, line in enumerate(lines, 1)}}


def _text(file: Path) -> str:
    if file.suffix == ".parquet":
        return "".join(f"{json.dumps(row, default=str)}\n" for row in pq.read_table(file).to_pylist())
    content = file.read_bytes()
    return (gzip.decompress(content) if file.suffix == ".gz" else content).decode("latin-1")


def _lines(before: str, after: str) -> dict[str, Any]:
    """The digest of a text, and its lines that the former text does not have."""
    known = set(before.split("\n"))
    new = {str(at): line for at, line in enumerate(after.split("\n"), 1) if line not in known}
    return {"sha256": hashlib.sha256(after.encode()).hexdigest(), "lines": new}


def _holes(flags: Path) -> dict[str, list[str]]:
    """Row, method and bounds of the holes of each sensor."""
    found: dict[str, list[str]] = {}
    with flags.open(newline="") as file:
        for hole in csv.DictReader(file):
            bounds = [format(float(hole[name]), ".9g") if hole[name] else "" for name in ("lower", "upper")]
            found.setdefault(hole["sensor"], []).append(" ".join([hole["row"], hole["method"], *bounds]))
    return found


def _imputed(library: str, file: Path) -> dict[str, Any]:
    table = FRAMES[library](str(file))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filled = impute(table)
    assert type(filled) is type(table)
    before, after = (_LONG.sub(lambda found: str(round(float(found[0]), 9)), _shown(each)) for each in (table, filled))
    return {"warned": [str(each.message) for each in caught]} | _lines(before, after)


def _shown(table: Any) -> str:
    if isinstance(table, np.ndarray):
        return "\n".join(map(str, table.tolist()))
    if isinstance(table, pd.DataFrame):
        return f"{dict(table.dtypes)}\n{table.to_csv()}"
    rows = table.rows() if isinstance(table, pl.DataFrame) else table.to_pylist()
    return f"{table.schema}\n" + "\n".join(map(str, rows))


def _guessed(file: Path) -> dict[str, Any]:
    try:
        found = guess_layout(file, DataSpec(), ())
    except DataError as error:
        return {"refused": str(error).replace(f"{file.parent}/", "")}
    guessed = {each.name: repr(getattr(found.spec, each.name)) for each in fields(found.spec)}
    changed = {name: value for name, value in guessed.items() if value != repr(getattr(DataSpec(), name))}
    return {"spec": changed, "messages": [*found.messages, *found.warnings]}


def _plant(hours: int) -> bytes:
    """Three sensors an hour: holes, a frozen stretch, a drift, spikes and a limit."""
    draw = random.Random(1)
    lines = ["time,flow,level,power"]
    for hour in range(hours):
        day = math.sin(hour * math.pi / 12)
        flow = 20 + 4 * day + draw.random() + (60 if hour % 331 == 330 else 0)
        level = 7.25 if 1500 < hour < 1600 else 5 + day + draw.random() / 4
        power = min(90 + 9 * day + 3 * draw.random() + max(0, hour - 1700) * 0.2, 130)
        cells = ["" if draw.random() < 0.04 or 220 < hour < 232 else f"{cell:.2f}" for cell in (flow, level, power)]
        lines.append(f"2026-{1 + hour // 672:02}-{1 + hour // 24 % 28:02} {hour % 24:02}:00,{','.join(cells)}")
    return "\n".join([*lines, ""]).encode()


def main() -> None:
    made = json.loads(FROZEN.read_text()) if FROZEN.exists() else {}
    for case in filter(present, cases()):
        if len(sys.argv) == 1 or any(word in case for word in sys.argv[1:]):
            with tempfile.TemporaryDirectory() as folder:
                made[case] = output(case, Path(folder))
    lines = [f"{json.dumps(case)}: {json.dumps(made[case], ensure_ascii=False)}" for case in cases()]
    FROZEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
