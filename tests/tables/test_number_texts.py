"""Filled numbers of sensors that share a column are written as each sensor writes its own."""

import io
import json

import numpy as np
import pyarrow as pa
import pytest

from glaim_stream.tables.cells import fill_cells
from glaim_stream.tables.user_file import cells_of, open_file, write

HOURS = 200


def readings() -> tuple[list[dict[str, object]], list[int]]:
    """Rows of two pumps: pressures in Pa and in bar, a small concentration every 4 hours; and the rows of its holes."""
    rng = np.random.default_rng(3)
    rows: list[dict[str, object]] = []
    holes = []
    for hour in range(HOURS):
        stamp = f"2026-03-{1 + hour // 24:02d}T{hour % 24:02d}:00:00Z"
        wave = np.sin(hour / 9) + 0.05 * rng.normal()
        for pump, number in (("a", 100_000 + 1000 * wave), ("b", 1 + 0.01 * wave)):
            value = None if hour % 13 == 5 else round(number) if pump == "a" else f"{number:.4f}"
            rows.append({"time": stamp, "pump": pump, "sensor": "pressure", "value": value})
        if hour % 4 == 0:
            hole = hour % 28 == 12
            holes += [len(rows)] if hole else []
            rows.append(
                {"time": stamp, "pump": "a", "sensor": "co", "value": None if hole else f"{13e-4 + 4e-4 * wave:.5f}"}
            )
    return rows, holes


def filled(raw: bytes, name: str, **stated: object) -> bytes:
    file = open_file(name, raw, **stated)
    cells = cells_of(file)
    out = io.BytesIO()
    write(file, cells, fill_cells(cells), out)
    return out.getvalue()


def values_of_csv(raw: bytes) -> list[str]:
    return [line.split(",")[3] for line in raw.decode().splitlines()[1:]]


def as_csv(rows: list[dict[str, object]]) -> bytes:
    lines = [",".join("" if cell is None else str(cell) for cell in row.values()) for row in rows]
    return "\n".join([",".join(rows[0]), *lines, ""]).encode()


def as_json(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row).replace(f'"{row["value"]}"', str(row["value"])) + "\n" for row in rows).encode()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_sensors_that_share_a_column_keep_their_own_decimals(kind: str) -> None:
    rows, holes = readings()
    raw = as_csv(rows) if kind == "csv" else as_json(rows)

    found = filled(raw, f"pumps.{kind}", group="pump")

    if kind == "csv":
        texts = values_of_csv(found)
    else:
        texts = [line.rpartition('"value": ')[2].removesuffix("}") for line in found.decode().splitlines()]
    assert all(texts)
    for row, text in zip(rows, texts, strict=True):
        decimals = 5 if row["sensor"] == "co" else 0 if row["pump"] == "a" else 4
        assert len(text.partition(".")[2]) == decimals, (row, text)
    assert len(holes) == 7
    assert all(0.0007 < float(texts[row]) < 0.0019 for row in holes)


def test_numbers_that_a_typed_file_holds_as_text_keep_their_sensors_decimals_and_sign() -> None:
    rows, holes = readings()
    for row in rows:
        row["value"] = None if row["value"] is None else str(row["value"]).replace(".", ",")
    out = io.BytesIO()
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_file(out, table.schema) as file:
        file.write_table(table)

    found = pa.ipc.open_file(filled(out.getvalue(), "pumps.arrow", group="pump")).read_all()

    texts = found["value"].to_pylist()
    assert all(texts[row].startswith("0,00") and len(texts[row]) == 7 for row in holes)
    assert [text for row, text in zip(rows, texts, strict=True) if row["value"] and text != row["value"]] == []


def test_a_sensor_that_mostly_rests_is_written_with_the_decimals_of_its_moves() -> None:
    rng = np.random.default_rng(5)
    vibration = np.zeros(400)
    for start in (100, 300):
        vibration[start : start + 14] = 0.31 + 0.02 * rng.normal(size=14)
    cells = [f"{value:.4f}" if value else "0" for value in vibration]
    for row in (20, 106, 107, 108, 305, 306):
        cells[row] = ""
    lines = [
        f"2026-03-{1 + row // 48:02d}T{row // 2 % 24:02d}:{30 * (row % 2):02d}:00Z,{20 + np.sin(row / 24):.2f},,{cell}"
        for row, cell in enumerate(cells)
    ]
    raw = "\n".join(["time,temperature,note,vibration", *lines, ""]).encode()

    texts = values_of_csv(filled(raw, "pump.csv"))

    assert texts[20] == "0"
    for row in (106, 107, 108, 305, 306):
        assert len(texts[row]) == 6
        assert 0.25 < float(texts[row]) < 0.37


def test_inserted_rows_have_the_decimals_of_their_groups() -> None:
    lines = []
    for hour in range(HOURS):
        wave = np.sin(hour / 9)
        for pump, text in (("a", f"{100_000 + 1000 * wave:.0f}"), ("b", f"{1 + 0.01 * wave:.4f}")):
            if hour % 50 != 20:
                lines.append(f"2026-03-{1 + hour // 24:02d}T{hour % 24:02d}:00:00Z,{pump},{text}")
    raw = "\n".join(["time,pump,pressure", *lines, ""]).encode()
    file = open_file("pumps.csv", raw, group="pump")
    cells = cells_of(file)
    out = io.BytesIO()

    assert write(file, cells, fill_cells(cells), out, insert_rows=True) == 8

    for line in out.getvalue().decode().splitlines()[1:]:
        _, pump, text = line.split(",")
        assert len(text.partition(".")[2]) == (0 if pump == "a" else 4), line
