"""Transactions that a worker with exactly-once delivery has left open, ended by a worker that uses none.

Readers of committed records stand still at an open transaction until the broker ends it at its timeout. The next owner
with exactly-once delivery aborts it when it begins; after a change back to at-least-once delivery this does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress

from aiokafka import AIOKafkaProducer
from kafka.admin import TransactionState
from kafka.errors import KafkaError

from glaim_stream.errors import SettingsError
from glaim_stream.kafka.connection import kafka_options
from glaim_stream.kafka.topics import connected_admin
from glaim_stream.kafka.transactions import transactional_id
from glaim_stream.settings import Settings

log = logging.getLogger(__name__)

_ONGOING = TransactionState.ONGOING.value  # kafka-python 3.0 would send the name of the member itself
_PATIENCE_S = 10.0  # the client itself looks for the coordinator of transactions without an end


async def end_open_transactions(settings: Settings, partitions: Collection[int]) -> None:
    """Abort the open transactions on these input partitions, which must be assigned to this worker.

    A broker without transactions has none, and a user who may not see them gets none: neither is an error.
    """
    ids = {transactional_id(settings, partition) for partition in partitions}
    try:
        left_open = ids & await asyncio.to_thread(_open_ids, settings)
    except (KafkaError, SettingsError) as error:
        log.debug("cannot list open transactions: %r", error)
        return
    for each in sorted(left_open):
        producer = AIOKafkaProducer(**kafka_options(settings), transactional_id=each)
        try:
            await asyncio.wait_for(producer.start(), _PATIENCE_S)  # a new producer of an id aborts what is open
            log.warning("%s: aborted the transaction that a worker with exactly-once delivery had left open", each)
        except (KafkaError, TimeoutError) as error:
            log.warning("%s: its open transaction holds up readers until its timeout: %r", each, error)
        finally:
            with suppress(Exception):
                await asyncio.wait_for(producer.stop(), _PATIENCE_S)


def _open_ids(settings: Settings) -> set[str]:
    with connected_admin(settings) as admin:
        by_broker = admin.list_transactions(state_filters=[_ONGOING])
    return {each.transactional_id for listed in by_broker.values() for each in listed}
