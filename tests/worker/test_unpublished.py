"""Which of the applied batches and slices are published together."""

import asyncio
from typing import Any

from glaim_stream.imputers import Interpolation
from glaim_stream.kafka import Commit
from glaim_stream.output import Origin, Output
from glaim_stream.pipeline import Pending, Pipeline
from glaim_stream.pipeline.querying import Answer
from glaim_stream.windows import Applied
from glaim_stream.worker.batches import Batch
from glaim_stream.worker.unpublished import UnpublishedQueue
from tests.support import Record, catalogue, json_record

SCORES = Pipeline(catalogue(), {}, Interpolation()).scores()


async def answered() -> list[Answer]:
    return []


async def part(number: int, *, more: bool = False, records: bool = True, **fields: Any) -> Batch:
    """A batch or slice whose imputer has answered; its output has its number as the origin's offset."""
    query = asyncio.create_task(answered())
    await query
    given: list[Record] = [json_record(number)] if records else []
    pending = Pending(given, Applied(), query, None, SCORES, Origin(number, 0), **fields)
    return Batch(pending=pending, commit=None if more else Commit(number, 0), more=more)


async def output_of(pending: Pending) -> Output:
    return Output(0, pending.origin, [], [], [])


async def published(queue: UnpublishedQueue) -> list[tuple[list[int], list[int]]]:
    """For each publication until the queue is empty: the offsets of its commits, and the numbers of its outputs."""
    found = []
    while not queue.empty():
        async with asyncio.timeout(10):
            together, outputs = await queue.next_to_publish(output_of)
        commits = [each.commit.offset for each in together if each.commit is not None]
        found.append((commits, [output.origin.offset for output in outputs]))
    return found


async def filled(*parts: Batch, transactions: bool = True) -> UnpublishedQueue:
    queue = UnpublishedQueue(10, transactions=transactions)
    for each in parts:
        await queue.put(each)
    return queue


async def test_ready_batches_share_a_transaction() -> None:
    assert await published(await filled(await part(1), await part(2))) == [([1, 2], [1, 2])]


async def test_a_batch_in_slices_begins_a_transaction_and_is_not_cut() -> None:
    queue = await filled(
        await part(1), await part(2, more=True), await part(3, more=True), await part(4), await part(5)
    )
    assert await published(queue) == [([1], [1]), ([4, 5], [2, 3, 4, 5])]


async def test_a_transaction_waits_for_the_last_slice() -> None:
    queue = await filled(await part(1, more=True))
    waiting = asyncio.create_task(queue.next_to_publish(output_of))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    await queue.put(await part(2))
    _, outputs = await waiting
    assert [output.origin.offset for output in outputs] == [1, 2]


async def test_without_transactions_every_slice_is_published_by_itself() -> None:
    queue = await filled(await part(1, more=True), await part(2), await part(3), transactions=False)
    assert await published(queue) == [([], [1]), ([2], [2]), ([3], [3])]


async def test_slices_since_the_last_complete_record_are_dropped_when_they_are_repeated() -> None:
    slices = [await part(1, more=True), await part(2, more=True, records=False), await part(3, repeats=True)]
    assert await published(await filled(*slices)) == [([3], [1, 3])]


async def test_a_batch_whose_imputer_has_not_answered_has_a_transaction_of_its_own() -> None:
    slow = asyncio.create_task(asyncio.sleep(0.01, [Answer(0, None, None, None, None)]))
    pending = Pending([], Applied(), slow, None, SCORES, Origin(2, 0))
    assert await published(await filled(await part(1), Batch(pending=pending, commit=Commit(2, 0)))) == [
        ([1], [1]),
        ([2], [2]),
    ]


async def test_nothing_is_left_after_a_clear() -> None:
    queue = await filled(await part(1), await part(2, more=True), await part(3))
    await queue.next_to_publish(output_of)
    assert not queue.empty()
    queue.clear()
    assert queue.empty()
