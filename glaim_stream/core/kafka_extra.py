"""Options of the Kafka clients that a user must not set, because delivery or a setting of its own depends on them."""

from __future__ import annotations

_LOGIN = "security_protocol and the settings beside it say how Kafka is called"
_DELIVERY = "a row counts as published once all replicas that are in sync have it"
_DECODED = "records are decoded by the worker"
_REFUSED = {
    "bootstrap_servers": "the setting kafka names the brokers",
    "group_id": "the setting consumer_group names the group",
    "group_instance_id": "the setting instance_id names the member",
    "max_request_size": "the setting max_message_bytes is the largest message",
    "security_protocol": _LOGIN,
    "ssl_context": _LOGIN,
    "acks": _DELIVERY,
    "enable_idempotence": _DELIVERY,
    "enable_auto_commit": "an offset is committed once the output of its record is acknowledged",
    "isolation_level": "records of transactions that are open or aborted would be imputed",
    "auto_offset_reset": "readings would be skipped, and lost offsets not be reported",
    "transactional_id": "it is made of consumer group, topic and partition, so that a new owner fences the former one",
    "partition_assignment_strategy": "workers of one group must share the strategy",
    "partitioner": "rows go to the partition of their readings",
    "check_crcs": "damaged records would be imputed instead of refused",
    "consumer_timeout_ms": "the worker would stop where no record comes",
    "exclude_internal_topics": "the worker reads its own topics alone",
    "api_version": "the client finds out what the broker speaks",
    "loop": "the worker has one event loop",
    "key_serializer": _DECODED,
    "value_serializer": _DECODED,
    "key_deserializer": _DECODED,
    "value_deserializer": _DECODED,
}


def why_refused(name: str) -> str | None:
    """The reason why an option of the client cannot be given; None if it can."""
    return _LOGIN if name.startswith(("sasl_", "ssl_")) else _REFUSED.get(name)
