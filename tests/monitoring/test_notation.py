"""Promtool's notation: what is compressed expands to the same values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.monitoring.notation import STALE, compress, expand


@given(st.lists(st.one_of(st.none(), st.just(STALE), st.integers(-3, 3), st.integers(0, 10**7))))
def test_values_survive_the_notation(values: list[float | str | None]) -> None:
    assert expand(compress(values)) == values


def test_runs_are_short() -> None:
    assert compress([0, 60, 120, 180, None, None, STALE, 5, 5, 5, 9]) == "0+60x3 _x2 stale 5x2 9"


def test_what_is_no_notation_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"found '3y'"):
        expand("1x3 3y")
