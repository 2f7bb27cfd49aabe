"""Positions of rejected readings come back from every form, and no form grows beyond its bound."""

import base64
import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.decode.positions import MAX_TEXT_BYTES, decode_positions, encode_positions, shown


def encoded(positions: Sequence[int]) -> list[tuple[str, str]]:
    return [(name, text) for _, name, text in encode_positions(np.array(positions, np.int64))]


def read_back(positions: Sequence[int]) -> list[int]:
    found: list[int] = []
    for part, name, text in encode_positions(np.array(positions, np.int64)):
        assert len(text) <= MAX_TEXT_BYTES
        decoded = decode_positions({name: text.encode()})
        assert decoded is not None
        assert decoded.tolist() == part.tolist()
        found += decoded.tolist()
    return found


def test_few_positions_are_a_list() -> None:
    assert encoded([0, 9, 10]) == [("positions", "[0, 9, 10]")]
    assert encoded(range(100)) == [("positions", json.dumps(list(range(100))))]


def test_many_positions_in_a_row_are_a_range() -> None:
    assert encoded(range(333_000)) == [("ranges", "0-332999")]


def test_every_eleventh_position_is_a_range_with_its_distance() -> None:
    assert encoded(range(3, 39_600, 11)) == [("ranges", "3-39592/11")]


def test_runs_pairs_and_single_positions_stand_beside_each_other() -> None:
    positions = [0, 1, 5, *range(10, 200), 300, 400, 500, 600, 1000]
    assert encoded(positions) == [("ranges", "0-1,5,10-199,300-600/100,1000")]
    assert read_back(positions) == positions


def test_positions_without_a_pattern_are_bitmaps_in_several_letters() -> None:
    positions = np.flatnonzero(np.random.default_rng(5).random(1_000_000) < 0.5).tolist()
    forms = encoded(positions)
    assert {name for name, _ in forms} == {"bitmap"}
    assert 20 < len(forms) < 40
    assert read_back(positions) == positions


def test_positions_far_apart_do_not_take_a_letter_each() -> None:
    positions = np.unique(np.random.default_rng(5).integers(0, 1 << 24, 3_000)).tolist()
    assert read_back(positions) == positions


@given(st.sets(st.integers(0, 5_000), min_size=1, max_size=600))
def test_any_positions_come_back(positions: set[int]) -> None:
    assert read_back(sorted(positions)) == sorted(positions)


def test_without_positions_there_are_none() -> None:
    assert decode_positions({"cause": b"x"}) is None


@pytest.mark.parametrize(
    "texts",
    [
        {"positions": b"7"},
        {"positions": b'["a"]'},
        {"positions": b"[-1]"},
        {"positions": b"[16777216]"},
        {"positions": b"[1000000000000000000000000000000]"},
        {"ranges": b""},
        {"ranges": b"0-"},
        {"ranges": b"5-4"},
        {"ranges": b"0-9/0"},
        {"ranges": b"0-99999999"},
        {"ranges": b"0-99999999999999999999"},
        {"ranges": b",".join([b"0-16777215"] * 50)},
        {"ranges": b"\xff"},
        {"bitmap": b"no"},
        {"bitmap": b"1:*"},
        {"bitmap": b"999999999:" + base64.b64encode(b"\xff")},
        {"bitmap": b"-9:" + base64.b64encode(b"\xff")},
    ],
)
def test_a_forged_text_is_refused_before_it_takes_memory(texts: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_positions(texts)


def test_positions_are_shown_as_ranges() -> None:
    assert shown([4]) == "4"
    assert shown([0, 1, 2, 7]) == "0, 1, 2, 7"
    assert shown([*range(200), 207]) == "0-199, 207"
    scattered = np.cumsum(np.arange(1, 300)).tolist()
    assert shown(scattered).endswith(" and more")
    assert shown([]) == ""
