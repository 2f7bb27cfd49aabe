"""A sender of aiokafka that does not sleep for 100 ms before a transaction.

While the broker writes the markers of the transaction before, it answers CONCURRENT_TRANSACTIONS to the first request
of the next one, for some milliseconds. aiokafka 0.14 then waits 20 ms where that request adds partitions, and
`retry_backoff_ms`, 100 ms, where it adds offsets (docs/upstream/aiokafka-add-offsets-backoff.md). A shorter
`retry_backoff_ms` would also shorten the pauses while a broker is away. tests/kafka/test_prompt_sender.py pins what is
overridden here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.client import CoordinationType
from aiokafka.errors import ConcurrentTransactions
from aiokafka.producer import sender as client

from glaim_stream.core.retry import MARKERS


class _Soon(client.BaseHandler):  # type: ignore[misc]
    """A request that is sent again soon while the transaction before ends."""

    _sender: PromptSender

    def handle_response(self, resp: Any) -> float | None:
        """Return the pause before the next try, seconds; None after a success."""
        pause_s: float | None = super().handle_response(resp)
        if pause_s is None:
            self._sender.pauses_s = MARKERS.pauses()
        elif ConcurrentTransactions.errno in _codes(resp):
            return next(self._sender.pauses_s)
        return pause_s


class _AddPartitions(_Soon, client.AddPartitionsToTxnHandler):  # type: ignore[misc]
    pass


class _AddOffsets(_Soon, client.AddOffsetsToTxnHandler):  # type: ignore[misc]
    pass


def _codes(resp: Any) -> list[int]:
    if hasattr(resp, "error_code"):
        return [resp.error_code]
    return [code for _, partitions in resp.errors for _, code in partitions]


class PromptSender(client.Sender):  # type: ignore[misc]
    """See the module."""

    pauses_s: Iterator[float]  # begins anew after each success

    async def _do_add_partitions_to_txn(self, tps: Any) -> Any:
        return await _AddPartitions(self, tps).do(await self._coordinator())

    async def _do_add_offsets_to_txn(self, group_id: str) -> Any:
        return await _AddOffsets(self, group_id).do(await self._coordinator())

    async def _coordinator(self) -> int:
        transactional_id = self._txn_manager.transactional_id
        node: int = await self._find_coordinator(CoordinationType.TRANSACTION, transactional_id)
        return node


def send_promptly(producer: AIOKafkaProducer) -> AIOKafkaProducer:
    """Give a transactional producer that has not started a prompt sender; return it."""
    producer._sender.__class__ = PromptSender
    producer._sender.pauses_s = MARKERS.pauses()
    return producer
