"""Units behind the numbers of a column are no text, and filled cells have them too."""

import datetime as dt
import io

import pytest

from glaim_stream.files.read import read
from glaim_stream.tables import cells_of, fill_cells, open_file, write

ROWS = 120


def table(unit: str, *, decimal: str = ".", holes: str = "") -> bytes:
    start = dt.datetime(2025, 3, 1)
    cells = [holes if row % 11 == 5 else f"{row % 7 + 20.5:.1f}".replace(".", decimal) + unit for row in range(ROWS)]
    return "\n".join(
        ["time;power", *(f"{start + dt.timedelta(hours=row)};{cell}" for row, cell in enumerate(cells)), ""]
    ).encode()


@pytest.mark.parametrize(
    ("unit", "decimal", "holes"),
    [(" kW", ".", ""), ("%", ".", "n/a"), (" °C", ",", ""), ("\u00a0m³/h", ",", "-"), (" A", ".", "fault")],
)
def test_a_unit_behind_each_number_is_told_apart_and_written_back(unit: str, decimal: str, holes: str) -> None:
    raw = table(unit, decimal=decimal, holes=holes)
    file = open_file("power.csv", raw)
    assert file.form.sensors == ("power",)
    assert file.form.units == {"power": unit.strip()}
    assert f"units behind the numbers: {unit.strip()} in 'power'" in file.form.notes
    cells, out = cells_of(file), io.BytesIO()
    assert cells.holes == len(range(5, ROWS, 11))
    write(file, cells, fill_cells(cells), out)
    for before, after in zip(raw.decode().splitlines(), out.getvalue().decode().splitlines(), strict=True):
        if before.endswith(unit) or before == "time;power":
            assert after == before
        else:
            number = after.split(";")[1].removesuffix(unit)
            assert after.endswith(unit)
            assert 20 < float(number.replace(decimal, ".")) < 28


@pytest.mark.parametrize(
    "cells", [["5A", "6A"], ["3 kW", "900 W"], ["1st", "2nd"], ["12b", "14b"], ["3 pumps", "4 pumps"]]
)
def test_other_text_behind_numbers_stays_text(cells: list[str]) -> None:
    start = dt.datetime(2025, 3, 1)
    lines = [f"{start + dt.timedelta(hours=row)},{row % 7}.5,{cells[row % 2]}" for row in range(ROWS)]
    form = read("\n".join(["time,flow,note", *lines]).encode()).form
    assert (form.sensors, form.units) == (("flow",), {})
    assert form.unused["note"].startswith(("no numbers", "its cells are no numbers in one way of writing: '900 W'"))
