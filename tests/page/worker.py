"""A worker of one partition in this process, with a page, and no Kafka."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.kafka import OffsetLedger
from glaim_stream.page.access import Access
from glaim_stream.page.board import Board
from glaim_stream.page.recent import RecentMessages
from glaim_stream.page.server import PageServer
from glaim_stream.page.sources import Sources
from glaim_stream.pipeline import Pipeline
from glaim_stream.worker import Batch, PartitionWorker
from glaim_stream.worker.outlet import AtLeastOnce
from tests.support import MemoryPublisher, MemoryRebuilder, Record, catalogue, json_record, until

PARTITION = 3


@dataclass
class PagedWorker:
    """A worker, what it has published, and its page."""

    worker: PartitionWorker
    publisher: MemoryPublisher
    sources: Sources
    board: Board
    server: PageServer
    ledger: OffsetLedger = field(default_factory=OffsetLedger)
    done: int = 0
    offset: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    async def send(self, readings: Sequence[Mapping[str, Any]]) -> None:
        """Send readings as one batch, and wait until its output is acknowledged."""
        records: list[Record] = [json_record(self.offset + at, **each) for at, each in enumerate(readings)]
        delivery = self.ledger.deliver(self.offset, self.offset + len(records))
        self.offset += len(records)
        expected = self.done + 1

        def answered() -> None:
            self.done += 1

        await self.worker.submit(Batch(records, delivery, done=answered))
        await until(lambda: self.done == expected)


def readings(steps: range, groups: Sequence[str] = ("g0",), sensors: int = 2, *, holes: Sequence[int] = (),
             step_ms: int = 1000) -> list[dict[str, Any]]:  # fmt: skip
    """A reading of every sensor of every group at each step; sensor 0 is silent at the steps in `holes`."""
    return [
        {"group": group, "sensor": f"s{sensor}", "ts": step * step_ms, "value": 10.0 * sensor + step % 7}
        for step in steps
        for group in groups
        for sensor in range(sensors)
        if not (sensor == 0 and step in holes)
    ]


@asynccontextmanager
async def paged_worker(
    rules: Catalogue | None = None,
    *,
    token: str | None = None,
    stream_s: float = 25.0,
    pipeline: Pipeline | None = None,
    board_runs: bool = True,
) -> AsyncIterator[PagedWorker]:
    """Run a worker and serve its page on a free port. Without `board_runs` the test makes each state itself."""
    publisher = MemoryPublisher()
    publisher.gate.set()
    pipeline = pipeline or Pipeline(rules or catalogue(), {}, Ladder([Interpolation()]))
    recent = RecentMessages()
    worker = PartitionWorker(
        "in", PARTITION, pipeline, AtLeastOnce(publisher), MemoryRebuilder(()), batches_in_flight=2,
        now_ms=lambda: 1_760_000_000_000, on_published=recent.add,
    )  # fmt: skip
    sources = Sources(
        pipeline, lambda: {PARTITION: worker.engine}, recent, lambda: {"live": True, "why_not": {}},
        asyncio.get_running_loop(),
    )  # fmt: skip
    board = Board(sources)
    server = PageServer(board, Access(token), "127.0.0.1", 0, stream_s=stream_s)
    if board_runs:
        board.start()
    server.start()
    try:
        yield PagedWorker(worker, publisher, sources, board, server)
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
        await worker.stop()
