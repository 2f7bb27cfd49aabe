"""Columns of parsed readings: joined parts, positions, times and qualities."""

import numpy as np
import pytest

from glaim_stream.decode.parsed import Parsed, Said, Time, joined, positions, qualities, times_ms

NOW_MS = 1_700_000_000_000


def part(records: list[int], *, first: int, quality: list[int] | None = None) -> Parsed:
    """Readings numbered from `first` in every column, one for each of `records`."""
    numbers = np.arange(first, first + len(records))
    return Parsed(
        numbers,
        numbers + 100,
        numbers + 200.0,
        numbers + 300.0,
        np.array(records),
        numbers + 400,
        None if quality is None else np.array(quality, np.int8),
        lambda row: Said(f"g{first + row}", f"s{first + row}", first + row),
    )


def test_parts_are_joined_in_the_order_of_their_records() -> None:
    """Records 0 to 3: the first part has 1 (two readings) and 3, the second has 0 and 2 (two readings)."""
    whole = joined([part([1, 1, 3], first=0), part([0, 2, 2], first=10)])
    assert whole.record.tolist() == [0, 1, 1, 2, 2, 3]
    assert whole.group.tolist() == [10, 0, 1, 11, 12, 2]
    assert whole.sensor.tolist() == [110, 100, 101, 111, 112, 102]
    assert whole.time_ms.tolist() == [210, 200, 201, 211, 212, 202]
    assert whole.value.tolist() == [310, 300, 301, 311, 312, 302]
    assert whole.position.tolist() == [410, 400, 401, 411, 412, 402]
    assert whole.quality is None
    assert [whole.said(row).time for row in range(6)] == [10, 0, 1, 11, 12, 2]
    assert len(whole) == 6


def test_a_single_part_is_not_copied() -> None:
    only = part([0], first=0)
    assert joined([only]) is only


def test_a_part_without_qualities_is_good() -> None:
    whole = joined([part([1, 2], first=0, quality=[2, 1]), part([0, 3], first=10)])
    assert whole.quality is not None
    assert (whole.quality.tolist(), whole.quality.dtype) == ([0, 2, 1, 0], np.int8)


def test_positions_count_from_zero_in_each_record() -> None:
    assert positions([2, 1, 3]).tolist() == [0, 1, 0, 0, 1, 2]
    assert positions([1]).tolist() == [0]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0, 1.5], [0, 1.5]),
        ([None, 2], [np.nan, 2]),
        ([2, None], [2, np.nan]),
        (["1970-01-01T00:00:01Z", "1970-01-01T00:00:01"], [1000, np.nan]),
        (["1970-01-01T01:00:00.250+01:00", 7], [250, 7]),
        ([7, "1970-01-01T00:00:00Z", 7], [7, 0, 7]),
        ([10**400, 1], [np.nan, 1]),
        (["no time"], [np.nan]),
    ],
)
def test_times_are_epoch_milliseconds_or_nan(times: list[Time], expected: list[float]) -> None:
    found = times_ms(times)
    assert found.dtype == np.float64
    assert np.array_equal(found, expected, equal_nan=True)


def test_qualities_are_none_if_no_reading_has_one() -> None:
    assert qualities([None, "", 0]) is None
    found = qualities([None, "bad", 0x40000000])
    assert found is not None
    assert (found.tolist(), found.dtype) == ([0, 2, 1], np.int8)
