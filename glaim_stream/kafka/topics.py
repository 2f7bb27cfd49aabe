"""Creates the topics that the worker needs where they are absent, and gives them the partitions of the input."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import InvalidReplicationFactorError, InvalidTopicError, KafkaError, TopicAlreadyExistsError

from glaim_stream.core.errors import BrokerUnready, SettingsError
from glaim_stream.core.retry import CREATE_TOPIC
from glaim_stream.core.settings import Settings
from glaim_stream.kafka.connection import blocking_options
from glaim_stream.kafka.diagnosis import no_broker, require_accepted

log = logging.getLogger(__name__)

_LONGEST_PAUSE_MS = 1000  # kafka-python's pauses double up to 30 s, and a fenced broker may be back for a moment only
_BOOTSTRAP_TIMEOUT_MS = 10_000  # an absent broker is reported soon; a worker tries again (worker/prerequisites.py)
_SEGMENT_MS = 3_600_000
_FENCED_TIMEOUT_S = 30.0  # brokers are fenced 9 s after their last heartbeat, and until they catch up after a start


def ensure_topics(settings: Settings) -> dict[str, int]:
    """Create the topics of a worker where they are absent; returns the number of partitions of each.

    Rows, outages, sensor health and live accuracy go to the partition number that their readings came from, so their
    topics get partitions where they have fewer than the input.

    Raises:
        BrokerUnready: no broker answers, there are too few for the replicas of a topic, they refuse to create a topic,
            or add no partitions to a topic that needs those of the input.
        SettingsError: the brokers refuse the connection, or the name of a topic.
    """
    with connected_admin(settings) as admin:
        partitions = _partitions(admin, settings.input_topic) or settings.partitions
        for topic in settings.topics:
            if _partitions(admin, topic) is None:
                _create(admin, topic, partitions, settings.replication_factor, _configs(settings, topic))
        counts = {topic: _partitions(admin, topic) or partitions for topic in settings.topics}
        for topic in settings.parallel_topics:
            if counts[topic] < counts[settings.input_topic]:
                counts[topic] = _extend(admin, topic, counts, settings.input_topic)
    return counts


def _configs(settings: Settings, topic: str) -> dict[str, str]:
    if topic == settings.input_topic:  # the broker's time and not the producer's limits how far ahead a reading may be
        return {"message.timestamp.type": "LogAppendTime"}
    if topic == settings.quality_topic:  # the newest segment is not compacted
        return {"cleanup.policy": "compact", "segment.ms": str(_SEGMENT_MS)}
    return {}


def ensure_topic(settings: Settings, topic: str, partitions: int) -> int:
    """Create one topic where it is absent; returns its number of partitions.

    Raises:
        SettingsError: the broker cannot be reached, or has too few brokers for the replicas of the topic.
    """
    with connected_admin(settings) as admin:
        if _partitions(admin, topic) is None:
            _create(admin, topic, partitions, settings.replication_factor)
        return _partitions(admin, topic) or partitions


@contextmanager
def connected_admin(settings: Settings) -> Iterator[KafkaAdminClient]:
    """A connected admin client, closed at the end.

    Raises:
        BrokerUnready: no broker answers.
        SettingsError: all brokers refuse the connection.
    """
    require_accepted(settings)  # before the client, which hides a refusal and tries again until its timeout
    try:
        admin = KafkaAdminClient(
            **blocking_options(settings),
            bootstrap_timeout_ms=_BOOTSTRAP_TIMEOUT_MS,
            reconnect_backoff_max_ms=_LONGEST_PAUSE_MS,
        )
    except KafkaError as error:
        raise no_broker(settings, error) from error
    try:
        yield admin
    finally:
        admin.close()


def topic_identity(settings: Settings, topic: str) -> str | None:
    """The ids of the cluster and of the topic, `CLUSTER/TOPIC`, the second of which a topic keeps for its life.

    None if there is no such topic, or from brokers before 2.8.

    Raises:
        BrokerUnready: no broker answers.
        SettingsError: the brokers refuse the connection.
    """
    with connected_admin(settings) as admin:
        (found,) = admin.describe_topics([topic])
        cluster = admin.describe_cluster().get("cluster_id") or ""
    id_ = str(found.get("topic_id") or "")
    return f"{cluster}/{id_}" if id_.strip("0-") else None


def is_replaced(former: str, now: str | None) -> bool:
    """Whether a topic was deleted and made anew in its cluster, by its identities; "" and None are unknown.

    A mirror copies commits to a cluster where the topic has another id, and the same records.
    """
    return bool(former and now) and former != now and former.split("/")[0] == str(now).split("/")[0]


def _partitions(admin: KafkaAdminClient, topic: str) -> int | None:
    if topic not in admin.list_topics():
        return None
    return len(admin.describe_topics([topic])[0]["partitions"])


def _create(
    admin: KafkaAdminClient, topic: str, partitions: int, replicas: int, configs: Mapping[str, str] | None = None
) -> None:
    pauses, started_s = CREATE_TOPIC.pauses(), time.monotonic()
    while True:
        try:
            admin.create_topics([NewTopic(topic, partitions, replicas, topic_configs=dict(configs or {}))])
            break
        except TopicAlreadyExistsError:
            return  # another worker created it meanwhile
        except InvalidReplicationFactorError as error:
            # The same code stands for too few brokers and for brokers that the controller has fenced for a moment.
            fenced = "fenced" in str(error)
            if not fenced or time.monotonic() - started_s > _FENCED_TIMEOUT_S:
                found = "found all of them fenced" if fenced else "found fewer"
                raise BrokerUnready(
                    f"GLAIM_REPLICATION_FACTOR: expected {replicas} brokers for the replicas of {topic}, {found}"
                ) from error
        except InvalidTopicError as error:
            raise SettingsError(f"expected the name of a topic, found {topic!r}") from error
        except KafkaError as error:
            raise BrokerUnready(
                f"topic {topic}: expected it to be there, or this user to have DESCRIBE and CREATE, found "
                f"{type(error).__name__}; kafka-topics.sh --create --topic '{topic}' --partitions {partitions}"
                + "".join(f" --config {key}={value}" for key, value in (configs or {}).items())
            ) from error
        time.sleep(next(pauses))
    log.info("created topic %s with %d partitions, %d replicas", topic, partitions, replicas)


def _extend(admin: KafkaAdminClient, topic: str, counts: Mapping[str, int], source: str) -> int:
    """Add partitions to a topic until it has those of `source`; returns their number."""
    try:
        admin.create_partitions({topic: counts[source]})
    except KafkaError as error:
        found = _partitions(admin, topic) or 0  # another worker may have added them meanwhile
        if found < counts[source]:
            raise BrokerUnready(
                f"{topic} needs at least the {counts[source]} partitions of {source}, found {found}, and the broker "
                f"adds none: {type(error).__name__}"
            ) from error
        return found
    log.warning("%s has %d partitions now, as %s has; it had %d", topic, counts[source], source, counts[topic])
    return counts[source]
