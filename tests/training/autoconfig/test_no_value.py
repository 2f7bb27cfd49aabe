"""Words that seem to mean "no value" are found among numbers; names are not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from training.autoconfig.no_value import words_among_numbers


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["1", "2,5", " -3e2", "4", "Bad", "No Data", "Bad", None], ["Bad", "No Data"]),
        (["1", "2", "-", "", "", "NaN"], ["-"]),  # empty cells and NaN need no declaration
        (["1", ".5", "3."], []),  # only numbers
        (["1", "Bad", "Bad"], []),  # words are not a minority
        (["101", "102", "B3"], []),  # a name with a digit
        (["ok", "off"], []),
        ([str(number) for number in range(30)] + list("abcdefghi"), []),  # nine different words do not mean absence
        ([], []),
    ],
)
def test_a_few_words_among_numbers_are_found(cells: list[str | None], words: list[str]) -> None:
    table = pa.table({"a": pa.array(cells, pa.string()), "b": pa.array([1.0] * len(cells), pa.float64())})
    assert words_among_numbers(table) == ({"a": words} if words else {})
