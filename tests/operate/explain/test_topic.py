"""The published row of a cell, in a topic in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import Range
from glaim_stream.operate.explain import topic
from glaim_stream.operate.explain.topic import PublishedRow, find_published
from tests.support import Record, catalogue, rows_message

ORIGIN = (("glaim-input-partition", b"3"), ("glaim-input-offset", b"17"))
OTHER = (("glaim-input-partition", b"3"), ("glaim-input-offset", b"9"))


@pytest.fixture(autouse=True)
def _topic(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        Record(b"no rows", headers=ORIGIN),
        Record(rows_message(["g0", "g1"], revision=0, ts=1000), headers=OTHER),
        Record(rows_message(["g0"], revision=1, ts=1000), headers=ORIGIN),
        Record(rows_message(["g0"], revision=0, ts=1000, value=2.0), headers=OTHER),
        Record(rows_message(["g0"], revision=0, ts=5000), headers=OTHER),
    ]

    @asynccontextmanager
    async def reader(settings: Settings) -> AsyncIterator[None]:
        yield None

    async def ranges_of(*arguments: Any, **options: Any) -> list[Range]:
        return [Range("rows", 3, 0, len(records))]

    async def read_range(consumer: Any, part: Range) -> AsyncIterator[list[Record]]:
        yield records[:2]
        yield records[2:]

    monkeypatch.setattr(topic, "reader", reader)
    monkeypatch.setattr(topic, "ranges_of", ranges_of)
    monkeypatch.setattr(topic, "read_range", read_range)


async def found(group: str, ts_ms: int, done: list[tuple[int, int]] | None = None) -> PublishedRow:
    rules = catalogue()
    told = [] if done is None else done
    return await find_published(
        Settings(output_topic="rows"), rules, rules.models[0], group, "s", ts_ms, lambda *each: told.append(each)
    )


async def test_the_newest_revision_of_a_cell_is_found_with_the_record_from_which_it_was_made() -> None:
    done: list[tuple[int, int]] = []
    row = await found("g0", 1000, done)
    assert (row.row["revision"], row.row["value"], row.partition, row.offset) == (1, 1.0, 3, 17)
    assert done == [(2, 5), (5, 5)]


async def test_a_row_that_is_not_there_is_a_sentence_with_what_is() -> None:
    with pytest.raises(SettingsError, match=r"row of g0/s at .*:02Z in rows .* from .*:01Z to .*:05Z"):
        await found("g0", 2000)
    with pytest.raises(SettingsError, match=r"expected rows of g7 in rows since .*, found rows of g0, g1"):
        await found("g7", 1000)
