"""Kafka outside of Faust: connections, topics, ranges of offsets, publishing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.kafka.commits import read_commit
    from glaim_stream.kafka.connection import (
        LINGER_MS,
        admin_options,
        commit_interval_s,
        consumer_options,
        extra_options,
        kafka_options,
        poll_records,
        producer_options,
        transaction_timeout_ms,
    )
    from glaim_stream.kafka.dumping import ENDINGS, dump
    from glaim_stream.kafka.left_open import end_open_transactions
    from glaim_stream.kafka.losses import Loss, lost_range, read_losses
    from glaim_stream.kafka.offsets import Commit, Delivery, OffsetLedger, commit_from_metadata, rebuild_from_metadata
    from glaim_stream.kafka.outgoing import ONCE_FROM
    from glaim_stream.kafka.own_loop import OwnLoop
    from glaim_stream.kafka.partitions import require_partition
    from glaim_stream.kafka.publish import KafkaPublisher
    from glaim_stream.kafka.quality import quality_records
    from glaim_stream.kafka.ranges import Progress, Range, no_topic, partitions_of, ranges_of, read_range, reader
    from glaim_stream.kafka.send import Headers, Send, send_errors
    from glaim_stream.kafka.tail import Filter, Start, await_output, fits, follow_rows, names_there
    from glaim_stream.kafka.topics import connected_admin, ensure_topic, ensure_topics, is_replaced, topic_identity
    from glaim_stream.kafka.transactions import TransactionalPublisher, transactional_id
    from glaim_stream.kafka.unreadable import read_every_record
    from glaim_stream.kafka.wire import Record

__all__ = [
    "ENDINGS",
    "LINGER_MS",
    "ONCE_FROM",
    "Commit",
    "Delivery",
    "Filter",
    "Headers",
    "KafkaPublisher",
    "Loss",
    "OffsetLedger",
    "OwnLoop",
    "Progress",
    "Range",
    "Record",
    "Send",
    "Start",
    "TransactionalPublisher",
    "admin_options",
    "await_output",
    "commit_from_metadata",
    "commit_interval_s",
    "connected_admin",
    "consumer_options",
    "dump",
    "end_open_transactions",
    "ensure_topic",
    "ensure_topics",
    "extra_options",
    "fits",
    "follow_rows",
    "is_replaced",
    "kafka_options",
    "lost_range",
    "names_there",
    "no_topic",
    "partitions_of",
    "poll_records",
    "producer_options",
    "quality_records",
    "ranges_of",
    "read_commit",
    "read_every_record",
    "read_losses",
    "read_range",
    "reader",
    "rebuild_from_metadata",
    "require_partition",
    "send_errors",
    "topic_identity",
    "transaction_timeout_ms",
    "transactional_id",
]

__getattr__ = opened(__name__)
