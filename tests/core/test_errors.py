"""Lists of names in error messages."""

import pytest

from glaim_stream.core.errors import listed


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, ""),
        (2, "0, 1"),
        (8, "0, 1, 2, 3, 4, 5, 6, 7"),
        (9, "0, 1, 2, 3, 4, 5, 6, 7 and 1 more"),
        (20, "0, 1, 2, 3, 4, 5, 6, 7 and 12 more"),
    ],
)
def test_eight_names_are_listed_and_the_rest_is_counted(count: int, text: str) -> None:
    assert listed(range(count)) == text
