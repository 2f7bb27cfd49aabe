"""Transactions that a worker with exactly-once delivery has left open, ended by a worker that uses none.

Readers of committed records stand still at an open transaction until the broker ends it at its timeout. The next owner
with exactly-once delivery aborts it when it begins; this module aborts it after a change to at-least-once delivery.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from kafka.admin import TransactionState
from kafka.errors import KafkaError

from glaim_stream.core.errors import OwnershipLost, SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.kafka.topics import connected_admin
from glaim_stream.kafka.transactions import TransactionalPublisher, transactional_id

log = logging.getLogger(__name__)

_ONGOING = TransactionState.ONGOING.value  # kafka-python 3.0 would send the name of the member itself
_PATIENCE_S = 30.0  # limit for the group's coordinator to confirm the assignment, and for that of transactions


async def end_open_transactions(
    settings: Settings, partitions: Collection[int], confirm: Callable[[int], Awaitable[bool | None]]
) -> None:
    """Abort the open transactions on input partitions that were assigned to this worker.

    A broker without transactions has none, and a user who may not see them gets none: neither is an error.

    Args:
        settings: the worker's settings.
        partitions: numbers of the partitions.
        confirm: asks a broker whether a partition is ours now; returns None when no broker answers. A worker that was
            paused may hear of an assignment that is long past, and must not fence its successor.
    """
    ids = {transactional_id(settings, partition): partition for partition in partitions}
    try:
        left_open = ids.keys() & await asyncio.to_thread(_open_ids, settings)
    except (KafkaError, SettingsError) as error:
        log.debug("cannot list open transactions: %r", error)
        return
    for each in sorted(left_open):
        owner = TransactionalPublisher(settings, settings.input_topic, ids[each], partial(confirm, ids[each]))
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await owner.begin()  # a new owner of an id aborts what is open
            log.warning("%s: aborted the transaction that a worker with exactly-once delivery had left open", each)
        except OwnershipLost as error:
            log.info("%s: its open transaction is left to its owner: %s", each, error)
        except TimeoutError:
            log.warning("%s: its open transaction holds up readers until its timeout", each)
        finally:
            await owner.close()


def _open_ids(settings: Settings) -> set[str]:
    with connected_admin(settings) as admin:
        by_broker = admin.list_transactions(state_filters=[_ONGOING])
    return {each.transactional_id for listed in by_broker.values() for each in listed}
