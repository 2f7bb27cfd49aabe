"""Work in a loop of its own: results, errors, and a caller that is cancelled."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from glaim_stream.kafka import OwnLoop


@pytest.fixture
def there() -> Iterator[OwnLoop]:
    loop = OwnLoop("there")
    yield loop
    loop.close()


async def test_work_runs_in_another_thread_and_gives_its_result_or_its_error(there: OwnLoop) -> None:
    async def name() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    async def fail() -> None:
        raise ValueError("no")

    assert await there.run(name()) == "there"
    with pytest.raises(ValueError, match="no"):
        await there.run(fail())


async def test_the_loops_do_not_wait_for_each_other(there: OwnLoop) -> None:
    held = threading.Event()

    async def hold() -> None:
        held.wait(10)

    waiting = asyncio.create_task(there.run(hold()))
    await asyncio.sleep(0.01)  # this loop goes on while that one is stuck
    held.set()
    await waiting


async def test_a_cancelled_caller_waits_until_the_work_has_ended(there: OwnLoop) -> None:
    """Otherwise the next owner of a producer would begin while the last one still aborts."""
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.set()

    waiting = asyncio.create_task(there.run(work()))
    await asyncio.to_thread(begun.wait)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()


async def test_a_timeout_cancels_the_work(there: OwnLoop) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await there.run(asyncio.sleep(60))
    assert await there.run(asyncio.sleep(0, "free")) == "free"
