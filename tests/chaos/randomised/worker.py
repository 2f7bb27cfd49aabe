"""`python -m tests.chaos.randomised.worker`: the worker, with a wall clock that a test moves, or without a part.

CHAOS_CLOCK names a file with the seconds by which the wall clock is wrong (a double). CHAOS_WITHOUT is one of REMOVALS:
it takes away one part of exactly-once delivery, to show that the audit notices.
"""

import asyncio
import mmap
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PENDING_S = 0.5  # the commit interval of at-least-once delivery


def move_the_clock(file: Path) -> None:
    """Add the seconds in the file to the wall clock, now and whenever they change; the monotonic clock runs on."""
    with file.open("rb") as opened:
        wrong = mmap.mmap(opened.fileno(), 8, prot=mmap.PROT_READ)
    read, read_ns = time.time, time.time_ns

    def seconds() -> float:
        return float(struct.unpack("d", wrong[:8])[0])

    time.time = lambda: read() + seconds()
    time.time_ns = lambda: read_ns() + round(seconds() * 1e9)


def remove_the_fence() -> None:
    """Give each process transactional ids of its own, so that no owner fences an earlier one."""
    from glaim_stream.kafka import TransactionalPublisher

    shared = TransactionalPublisher.transactional_id.fget  # type: ignore[attr-defined]
    TransactionalPublisher.transactional_id = property(lambda self: f"{shared(self)}-{os.getpid()}")  # type: ignore[method-assign, assignment]


def remove_the_abort() -> None:
    """Send rows and letters beside the transaction, so that its abort takes nothing back."""
    from aiokafka import AIOKafkaProducer

    from glaim_stream.kafka import kafka_options

    def send_plainly(producer: Any, settings: Any) -> None:
        plain = AIOKafkaProducer(**kafka_options(settings), linger_ms=0)
        start, stop = producer.start, producer.stop

        async def start_both() -> None:
            await plain.start()
            await start()

        async def stop_both() -> None:
            await plain.stop()
            await stop()

        producer.start, producer.stop, producer.send = start_both, stop_both, plain.send

    _change_producers(send_plainly)


def remove_the_offset() -> None:
    """Commit offsets PENDING_S after the transaction of their rows, in one of their own."""

    def commit_later(producer: Any, _: Any) -> None:
        begin, send_offsets, commit = (
            producer.begin_transaction,
            producer.send_offsets_to_transaction,
            producer.commit_transaction,
        )
        pending: list[tuple[Any, str]] = []

        async def remember(offsets: Any, group: str) -> None:
            pending.append((offsets, group))

        async def commit_twice() -> None:
            await commit()
            await asyncio.sleep(PENDING_S)
            await begin()
            await send_offsets(*pending.pop())
            await commit()

        producer.send_offsets_to_transaction, producer.commit_transaction = remember, commit_twice

    _change_producers(commit_later)


REMOVALS: dict[str, Callable[[], None]] = {
    "fence": remove_the_fence,
    "abort": remove_the_abort,
    "offset": remove_the_offset,
}


def _change_producers(change: Callable[[Any, Any], None]) -> None:
    from glaim_stream.kafka import TransactionalPublisher

    made = TransactionalPublisher._new_producer

    def changed(self: TransactionalPublisher) -> Any:
        producer = made(self)
        change(producer, self._settings)
        return producer

    TransactionalPublisher._new_producer = changed  # type: ignore[method-assign]


def main() -> None:
    """Run the worker."""
    move_the_clock(Path(os.environ["CHAOS_CLOCK"]))
    if removed := os.environ.get("CHAOS_WITHOUT"):
        REMOVALS[removed]()
    from glaim_stream.commands.main import main as command

    sys.argv = ["glaim-stream", "worker"]
    command()


if __name__ == "__main__":
    main()
