"""A filled number looks like the other numbers of its column, and is near to what was computed."""

import math

import pytest

from glaim_stream.tables.decimals import style_of


@pytest.mark.parametrize(
    ("cells", "decimal", "thousands", "value", "text"),
    [
        (["1.50", "2.25"], ".", "", 3.14159, "3.14"),
        (["1,5", "2,2"], ",", "", -3.14159, "-3,1"),
        (["007", "12"], ".", "", 11.6, "12"),
        (["007", "012"], ".", "", 8.2, "008"),
        (["1.5", "2", "2.25"] * 10, ".", "", 2.0, "2.00"),
        (["1.5"] * 99 + ["0.30000000000000004"], ".", "", 2.345, "2.3"),
        (["1e3", "2e3"], ".", "", 1234.0, "1e3"),
        (["5,0E+02", "1,2E-01"], ",", "", 1234.0, "1,2E+03"),
        (["1.234,5", "12,5"], ",", ".", 1234567.89, "1.234.567,9"),
        (["1,234", "12"], ".", ",", 1234.4, "1,234"),
        (["12 345", "7"], ".", " ", 54321.0, "54 321"),
        (["0.1", "0.2"], ".", "", -0.01, "0.0"),
        ([], ".", "", 1.6, "2"),
    ],
)
def test_a_number_is_written_as_its_column_writes_numbers(
    cells: list[str], decimal: str, thousands: str, value: float, text: str
) -> None:
    assert style_of(cells, decimal=decimal, thousands=thousands).text(value) == text


IDLE = ["0"] * 96 + ["0.3204", "0.3110", "0.2987", "0.3333"]
VALVE = ["4"] * 96 + ["7.3204", "7.3110", "7.2987", "7.3333"]


@pytest.mark.parametrize(
    ("cells", "value", "within", "text"),
    [
        (["1.50", "2.25"], 3.14159, 0.0001, "3.14"),
        (["20", "21", "22"], 20.4, 0.03, "20"),
        (IDLE, 0.315678, 0.002, "0.3157"),
        (IDLE, 0.0, 0.002, "0"),
        (["0.0"] * 4, 0.0, math.inf, "0.0"),
        (["-0.0"] * 4 + ["1.25"], -0.001, math.inf, "0.0"),
        (VALVE, 7.315678, 0.005, "7.32"),
        (VALVE, 4.0, 0.005, "4"),
        (["1.5"] * 99 + ["0.30000000000000004"], 2.345, 0.001, "2.3"),
        (["0.0012"] * 90 + ["5E-05"] * 10, 2.5e-5, 2e-6, "0.00003"),
        (["0.0012"] * 90 + ["5E-05"] * 10, 0.0004, 2e-6, "0.0004"),
        (["5E-05"] * 90 + ["0.0012"] * 10, 0.00123, 2e-5, "1.2E-03"),
        (["0"] * 96 + ["3.2E-03", "3.1E-03"], 0.00316, 1e-4, "3.2E-03"),
    ],
)
def test_a_number_that_would_be_too_far_off_has_as_many_decimals_as_the_finest_cells(
    cells: list[str], value: float, within: float, text: str
) -> None:
    assert style_of(cells).text(value, within) == text


def test_the_text_of_a_number_lies_between_those_of_its_band() -> None:
    assert style_of(IDLE).band(0.0, 0.0, 0.0212, 0.001) == ("0", "0.0212")
    whole = style_of(["20", "21", "22"])
    assert (whole.text(20.45, 0.01), *whole.band(20.45, 20.35, 20.55, 0.01)) == ("20", "20", "21")
    rarely_finer = style_of(["20"] * 99 + ["20.125"])
    found = rarely_finer.text(20.0101, 0.011), *rarely_finer.band(20.0101, 20.01, 20.23, 0.011)
    assert found == ("20", "20.00", "20.23")
