"""Ranges of a topic by offsets and times, and what is read of them; and the rows that a tail selects."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ranges
from glaim_stream.kafka.ranges import Range, ranges_of, read_range
from glaim_stream.kafka.tail import Filter
from tests.kafka.topics import Kafka
from tests.support import Record

KAFKA = Kafka({"in": [Record(b"", offset, timestamp=offset * 1000) for offset in range(100)]})


@pytest.fixture(autouse=True)
def _two_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    async def partitions_of(settings: Settings, topic: str) -> list[int]:
        return [0, 1]

    monkeypatch.setattr(ranges, "partitions_of", partitions_of)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, [(0, 0, 100), (1, 0, 0)]),
        ({"partitions": [0], "from_offset": 40, "until_offset": 70}, [(0, 40, 70)]),
        ({"from_offset": {0: 99}, "until_offset": {1: 5}}, [(0, 99, 100), (1, 0, 0)]),
        ({"since_ms": 40_001, "until_ms": 60_000}, [(0, 41, 60), (1, 0, 0)]),
        ({"since_ms": 200_000}, [(0, 100, 100), (1, 0, 0)]),
        ({"since_ms": 60_000, "until_offset": 30}, [(0, 60, 60), (1, 0, 0)]),
    ],
)
async def test_ranges_lie_between_offsets_and_times(
    flags: dict[str, Any], expected: list[tuple[int, int, int]]
) -> None:
    found = await ranges_of(Settings(), KAFKA, "in", **flags)  # type: ignore[arg-type]
    assert [(each.partition, each.begin, each.end) for each in found] == expected


async def test_an_unknown_partition_is_a_sentence() -> None:
    with pytest.raises(SettingsError, match=r"in has the partitions \[0, 1\], not \[7\]"):
        await ranges_of(Settings(), KAFKA, "in", partitions=[7])  # type: ignore[arg-type]


@pytest.mark.parametrize(("begin", "end"), [(0, 100), (40, 41), (99, 100), (7, 7)])
async def test_a_range_is_read_once_from_its_begin_to_its_end(begin: int, end: int) -> None:
    parts = [part async for part in read_range(KAFKA, Range("in", 0, begin, end))]  # type: ignore[arg-type]
    assert [record.offset for part in parts for record in part] == list(range(begin, end))


def test_a_tail_selects_names_and_patterns_of_groups_and_sensors() -> None:
    names = ["a-1", "a-2", "b", "[x]"]
    table = pa.table({"group": names, "sensor": ["s", "t", "s", "s"], "observed": [True, False, False, True]})
    for filter_, kept in (
        (Filter(), names),
        (Filter(["a-*", "[x]"]), ["a-1", "a-2", "[x]"]),
        (Filter(["a-*"], ["s"]), ["a-1"]),
        (Filter(only_imputed=True), ["a-2", "b"]),
    ):
        assert filter_.apply(table)["group"].to_pylist() == kept
