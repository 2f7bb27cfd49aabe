"""Consumer lag: the end offsets of the partitions, read from the broker, minus the answered offsets.

The driver's own high watermark is not enough: it moves with a fetch, and a paused partition, whose lag matters most, is
not fetched. One request every few seconds costs little beside the polls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition

from glaim_stream.core import metrics
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import consumer_options

log = logging.getLogger(__name__)

INTERVAL_S = 5.0


async def watch_lag(
    settings: Settings,
    answered: Callable[[], Mapping[int, int | None]],
    *,
    interval_s: float = INTERVAL_S,
) -> None:
    """Update `glaim_consumer_lag_records` and `glaim_input_partitions` until cancelled.

    While the broker does not answer, they keep their last values.

    Args:
        settings: the worker's settings, which name the broker.
        answered: returns, for every assigned partition, the offset before which everything is answered, or None while
            nothing of it was delivered: then the consumer group's commit is used.
        interval_s: seconds between two updates.
    """
    options = consumer_options(settings) | {"isolation_level": "read_uncommitted"}
    while True:
        # Without a topic it joins no group and fetches nothing. The end is the last record's, whether or not it is
        # committed: records behind an open transaction wait, and a figure must show it.
        consumer = AIOKafkaConsumer(**options, group_id=settings.consumer_group)
        try:
            await consumer.start()
            while True:
                await _update(consumer, settings.input_topic, answered())
                await asyncio.sleep(interval_s)
        except Exception as error:  # an unknown lag is no reason to end a worker
            log.debug("the lag is not known: %r", error)
        finally:
            await consumer.stop()
        await asyncio.sleep(interval_s)


async def _update(consumer: AIOKafkaConsumer, topic: str, answered: Mapping[int, int | None]) -> None:
    lags = await _lags(consumer, topic, answered)
    shown = {
        sample.labels["partition"] for metric in metrics.consumer_lag_records.collect() for sample in metric.samples
    }
    for gone in shown - {str(partition) for partition in answered}:
        metrics.consumer_lag_records.remove(gone)
    for partition, lag in lags.items():
        metrics.consumer_lag_records.labels(str(partition)).set(lag)
    known = consumer.partitions_for_topic(topic)
    if known is not None:
        metrics.input_partitions.set(len(known))


async def _lags(consumer: AIOKafkaConsumer, topic: str, answered: Mapping[int, int | None]) -> dict[int, int]:
    if not answered:
        return {}
    ends = await consumer.end_offsets([TopicPartition(topic, partition) for partition in answered])
    out = {}
    for tp, end in ends.items():
        start = answered[tp.partition]
        if start is None:
            start = await consumer.committed(tp)
        if start is None:  # a group that never committed begins with the oldest record
            start = (await consumer.beginning_offsets([tp]))[tp]
        out[tp.partition] = max(0, end - start)
    return out
