"""A filled number looks like the other numbers of its column."""

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
