"""A batch that causes much is handed over in slices: by the steps that close, and by the records that fit together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from glaim_stream.core.budget import Budget
from glaim_stream.core.readings import InputRecord
from glaim_stream.feed.replay.partition import CopyRestore
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.output import read_rows
from glaim_stream.pipeline.engine import PartitionEngine, Pending
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.windows import Applied, PartitionWindows
from tests.support import Record, catalogue, json_record

RULES = catalogue(sensors=2, max_ahead_s=0)
TINY = Budget(slice_bytes=1)


def reading(offset: int, step: int, group: str = "g0", **fields: object) -> Record:
    document = {"group": group, "sensor": "s0", "ts": step * 1000, "value": float(step)}
    return replace(json_record(offset, **document | fields), timestamp=step * 1000)


def silence(first: int = 0) -> list[Record]:
    """Some steps of three groups, and one reading after a gap."""
    known = [reading(first + 3 * step + number, step, f"g{number}") for step in range(3) for number in range(3)]
    return [*known, reading(first + len(known), 6)]


def engine(pipeline: Pipeline) -> PartitionEngine:
    restore = CopyRestore(pipeline, now_ms=lambda: 1_000_000)
    return PartitionEngine(pipeline, restore, topic="in", partition=0, now_ms=lambda: 1_000_000)


async def run(
    pipeline: Pipeline, *batches: Sequence[Record], whole: bool = False
) -> tuple[list[Pending], list[dict[str, object]], list[int]]:
    """The slices, the rows in their order, and the offsets of the letters."""
    it, taken = engine(pipeline), list[Pending]()

    async def take(pending: Pending) -> None:
        taken.append(pending)

    for records in batches:
        taken.append(await it.apply(records, None if whole else take))
    rows, letters = [], []
    for pending in taken:
        output = await it.finish(pending)
        rows += [row for message in output.messages for row in read_rows(message.value).to_pylist()]
        letters += [int(dict(letter.headers)["glaim-offset"]) for letter in output.letters]
    await it.close()
    return taken, rows, letters


def pipeline(budget: Budget, kind: type[Pipeline] = Pipeline) -> Pipeline:
    return kind(RULES, {}, Ladder([Interpolation()]), score_share=1.0, upgrades=True, budget=budget)


async def test_slices_give_the_rows_of_one_batch_in_their_order() -> None:
    one, expected, _ = await run(pipeline(Budget(slice_bytes=10**9)), silence())
    many, rows, _ = await run(pipeline(TINY), silence())
    kept, again, _ = await run(pipeline(TINY), silence(), whole=True)
    assert (len(one), len(many), len(kept)) == (1, 7, 1)
    assert rows == expected
    assert again == expected


async def test_only_the_last_slice_answers_for_the_records() -> None:
    many, _, _ = await run(pipeline(TINY), silence())
    assert [len(pending.records) for pending in many] == [0] * 6 + [10]
    assert sum(pending.applied.readings for pending in many) == 10


async def test_records_and_readings_of_slices_are_counted_once() -> None:
    def counts() -> tuple[float, ...]:
        names = ("glaim_records_total", "glaim_readings_total")
        return tuple(REGISTRY.get_sample_value(name) or 0.0 for name in names)

    before = counts()
    await run(pipeline(TINY), silence())
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [10, 10]


async def test_records_beyond_the_budget_of_a_batch_are_applied_in_parts_with_their_own_letters() -> None:
    records = [reading(n, n // 3, value=math.inf if n in (1, 4) else 1.0) for n in range(6)]
    size = 4 * len(records[0].value or b"")
    parts, rows, letters = await run(pipeline(Budget(batch_bytes=2 * size + 60)), records)
    assert [[record.offset for record in pending.records] for pending in parts] == [[0, 1], [2, 3], [4, 5]]
    assert [pending.origin.offset for pending in parts] == [1, 3, 5]
    assert letters == [1, 4]
    assert len(rows) == 2


class Failing(Pipeline):
    """Fails on the record at offset 4, before its windows take anything of it."""

    def slices(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Iterator[Applied]:
        for record in records:
            if record.offset == 4:
                raise RuntimeError("a bug")
            *_, applied = super().slices(windows, [record], now_ms=now_ms)
            yield replace(applied, until=records.index(record) + 1)


async def test_an_error_costs_its_record_and_repeats_no_slice() -> None:
    records = [reading(n, n) for n in range(8)]
    _, rows, letters = await run(pipeline(Budget(), Failing), records)
    assert letters == [4]
    keys = [(row["sensor"], row["ts"], row["revision"]) for row in rows]
    assert len(keys) == len(set(keys))
    assert sorted({row["ts"].timestamp() for row in rows if row["observed"]}) == [0, 1, 2, 3, 5, 6]


class FailingInside(Pipeline):
    """Fails after three slices of its last record, at the first attempt."""

    attempts = 0

    def slices(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Iterator[Applied]:
        self.attempts += 1
        for number, applied in enumerate(super().slices(windows, records, now_ms=now_ms)):
            if number == 3 and self.attempts == 1:
                raise RuntimeError("a bug")
            yield applied


async def test_an_error_inside_a_record_is_marked_as_repeating_its_slices() -> None:
    _, expected, _ = await run(pipeline(TINY), silence())
    many, rows, letters = await run(pipeline(TINY, FailingInside), silence())
    assert [pending.repeats for pending in many] == [False] * 3 + [True]
    assert many[-1].scores is not many[0].scores, "the first scores have the errors of the slices"
    assert letters == []
    assert rows[-len(expected) :] == expected


async def test_an_error_inside_a_record_repeats_nothing_where_the_slices_are_kept() -> None:
    _, expected, _ = await run(pipeline(TINY), silence())
    (whole,), rows, letters = await run(pipeline(TINY, FailingInside), silence(), whole=True)
    assert not whole.repeats
    assert (rows, letters) == (expected, [])


@pytest.mark.parametrize("slice_bytes", [1, 10**9])
async def test_the_clock_closes_in_slices_until_there_are_no_rows(slice_bytes: int) -> None:
    it = engine(pipeline(Budget(slice_bytes=slice_bytes)))
    await it.apply(silence())
    count = 0
    while (pending := it.close_end()) is not None:
        count += 1
        assert (await it.finish(pending)).messages
    assert count == 1
    await it.close()
