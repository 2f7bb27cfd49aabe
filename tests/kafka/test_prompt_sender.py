"""A transaction begins as soon as the broker has ended the one before."""

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import ConcurrentTransactions, CoordinatorLoadInProgressError
from aiokafka.protocol.transaction import AddOffsetsToTxnResponse_v0, AddPartitionsToTxnResponse_v0

from glaim_stream.core.retry import MARKERS
from glaim_stream.kafka.prompt_sender import _AddOffsets, _AddPartitions, send_promptly

TP = TopicPartition("in", 0)


def offsets(sender: Any, code: int) -> float | None:
    return _AddOffsets(sender, "group").handle_response(AddOffsetsToTxnResponse_v0(0, code))


def partitions(sender: Any, code: int) -> float | None:
    return _AddPartitions(sender, [TP]).handle_response(AddPartitionsToTxnResponse_v0(0, [("in", [(0, code)])]))


@pytest.mark.parametrize("answered", [offsets, partitions])
async def test_a_request_is_sent_again_soon_while_the_transaction_before_ends(
    answered: Callable[[Any, int], float | None],
) -> None:
    producer = send_promptly(AIOKafkaProducer(transactional_id="t"))
    sender, manager = producer._sender, producer._txn_manager
    manager.set_pid_and_epoch(1, 0)
    manager.begin_transaction()
    manager.maybe_add_partition_to_txn(TP)
    manager.add_offsets_to_txn({TP: 1}, "group")
    pauses = [answered(sender, ConcurrentTransactions.errno) or 0.0 for _ in range(6)]
    assert 0 < pauses[0] <= MARKERS.first_s < pauses[-1] <= MARKERS.longest_s
    assert answered(sender, CoordinatorLoadInProgressError.errno) == 0.1, "the client's own, for a broker in trouble"
    assert answered(sender, 0) is None
    assert answered(sender, ConcurrentTransactions.errno) <= MARKERS.first_s, "short again after a success"
