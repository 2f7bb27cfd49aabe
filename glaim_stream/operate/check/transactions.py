"""Checks that the broker supports the transactions of exactly-once delivery, and that this user may use them.

A worker's own id is used, but no producer is initialised with it, which would fence a running worker. A request to add
offsets to a transaction of a producer that does not exist is authorised like one that does, and then refused.
"""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    KafkaError,
    NoError,
    NotCoordinatorError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedVersionError,
    for_code,
)
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import AddOffsetsToTxnRequest

from glaim_stream.core.errors import BrokerUnready, SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import connected_admin, transaction_timeout_ms, transactional_id
from glaim_stream.operate.check.findings import CheckFinding, Grade, failed, ok
from glaim_stream.operate.check.rights import grant

_SUBJECT = "transactions"
_PATIENCE_S = 8.0  # a new cluster first creates the log of transactions; one that cannot says so within 10 s
_PAUSE_S = 0.2
_NOBODY = -1  # a producer id that no broker gives
_REPLICAS, _LONGEST_MS = "transaction.state.log.replication.factor", "transaction.max.timeout.ms"
_WITH_TRANSACTIONS = "a broker with transactions, as GLAIM_DELIVERY=exactly_once needs"
_ALTERNATIVE = "; with GLAIM_DELIVERY=at_least_once the worker runs without transactions"
_WAIT = (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)
_AUTHORISED = (NoError, InvalidProducerIdMappingError, InvalidProducerEpochError)


def transaction_findings(admin: KafkaAdminClient, settings: Settings, partitions: int) -> list[CheckFinding]:
    """Findings on the transactions of every input partition; none with delivery at_least_once."""
    if settings.delivery != "exactly_once":
        return []
    try:
        return [_finding(admin, settings, partitions)]
    except UnsupportedVersionError as error:
        return [_without_transactions(error)]


def _without_transactions(error: UnsupportedVersionError) -> CheckFinding:
    return failed(_SUBJECT, expected=_WITH_TRANSACTIONS, found=f"{type(error).__name__}{_ALTERNATIVE}")


def _finding(admin: KafkaAdminClient, settings: Settings, partitions: int) -> CheckFinding:
    """The finding from the broker's answers.

    Raises:
        UnsupportedVersionError: the broker knows no transactions.
    """
    config = _broker_config(admin)
    longest_ms = config.get(_LONGEST_MS)
    if longest_ms is not None and int(longest_ms) < (least_ms := transaction_timeout_ms(settings.kafka_extra)):
        return failed(
            _SUBJECT,
            expected=f"{_LONGEST_MS} of the broker of at least the worker's transaction_timeout_ms, {least_ms}",
            found=f"{longest_ms}; set transaction_timeout_ms in GLAIM_KAFKA_EXTRA to at most that{_ALTERNATIVE}",
        )
    ids = [transactional_id(settings, partition) for partition in range(max(partitions, 1))]
    try:
        for each in ids:
            error = _refusal(admin, each, settings.consumer_group)
            if error is not None:
                return _refused(admin, settings, each, error, config)
    except UnsupportedVersionError:
        raise
    except KafkaError as error:
        return failed(_SUBJECT, expected=_WITH_TRANSACTIONS, found=repr(error))
    return ok(_SUBJECT, f"this user may use {len(ids)} ids, the first one {ids[0]}")


def require_transactions(settings: Settings) -> None:
    """Check the transactions of a starting worker.

    Raises:
        BrokerUnready: a right, a setting of the broker or another broker is missing.
        SettingsError: the broker knows no transactions, or refuses the connection.
    """
    if settings.delivery != "exactly_once":
        return
    with connected_admin(settings) as admin:
        partitions = len(admin.describe_topics([settings.input_topic])[0]["partitions"])
        try:
            finding = _finding(admin, settings, partitions)
        except UnsupportedVersionError as error:
            raise SettingsError(str(_without_transactions(error))) from error
        if finding.outcome is Grade.FAILED:
            raise BrokerUnready(str(finding))


def _refusal(admin: KafkaAdminClient, id_: str, group: str) -> type[Exception] | None:
    """Return the error that keeps a producer from working, None if there is none."""
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        error: type[Exception] = admin._manager.run(_ask, admin, id_, group)
        if issubclass(error, _AUTHORISED):
            return None
        if not issubclass(error, _WAIT) or time.monotonic() > end_s:
            return error
        time.sleep(_PAUSE_S)


async def _ask(admin: KafkaAdminClient, id_: str, group: str) -> type[Exception]:
    try:
        node_id = await admin._find_coordinator_id(id_, CoordinatorType.TRANSACTION)
    except (*_WAIT, TransactionalIdAuthorizationFailedError) as error:
        return type(error)
    request = AddOffsetsToTxnRequest(
        transactional_id=id_, producer_id=_NOBODY, producer_epoch=0, group_id=group, max_version=3
    )
    response = await admin._manager.send(request, node_id=node_id)
    found: type[Exception] = for_code(response.error_code)
    return found


def _refused(
    admin: KafkaAdminClient, settings: Settings, id_: str, error: type[Exception], config: dict[str, str]
) -> CheckFinding:
    subject = f"transactions of {id_}"
    if issubclass(error, TransactionalIdAuthorizationFailedError):
        prefix = f"{settings.consumer_group}-{settings.input_topic}-"
        command = grant("transactional-id", prefix, "Write", "Describe", prefixed=True)
        return failed(
            subject,
            expected="this user to have WRITE and DESCRIBE on the transactional id",
            found=f"{error.__name__}; {command}{_ALTERNATIVE}",
        )
    if issubclass(error, GroupAuthorizationFailedError):
        return failed(
            subject,
            expected="this user to have READ on the consumer group",
            found=f"{error.__name__}; {grant('group', settings.consumer_group, 'Read')}",
        )
    if issubclass(error, _WAIT):
        brokers = len(admin.describe_cluster()["brokers"])
        replicas = config.get(_REPLICAS)
        if replicas is None:
            why = f"{_REPLICAS}, which this user may not read, may be above the number of brokers, {brokers}"
        elif int(replicas) > brokers:
            why = f"{_REPLICAS} is {replicas}, above the number of brokers, {brokers}: their log cannot be created"
        else:
            why = f"{_REPLICAS} is {replicas} of {brokers} brokers; the broker's log names the reason"
        return failed(subject, expected="a coordinator", found=f"none in {_PATIENCE_S:.0f} s: {why}{_ALTERNATIVE}")
    return failed(subject, expected=_WITH_TRANSACTIONS, found=f"{error.__name__}{_ALTERNATIVE}")


def _broker_config(admin: KafkaAdminClient) -> dict[str, str]:
    """The configuration of one broker; empty if this user may not read it."""
    try:
        node_id = admin.describe_cluster()["brokers"][0]["broker_id"]
        resource = ConfigResource(ConfigResourceType.BROKER, str(node_id))
        found: dict[str, Any] = admin.describe_configs([resource], config_filter="all").get("broker", {})
    except (KafkaError, IndexError):
        return {}
    entries: dict[str, Any] = next(iter(found.values()), {})
    return {key: str(each["value"]) for key, each in entries.items()}
