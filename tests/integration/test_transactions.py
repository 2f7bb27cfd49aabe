"""Transactions of one partition on a real broker: one owner at a time, and all of an output or nothing of it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import TopicPartition
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from prometheus_client import REGISTRY

from deploy.demo.topic import read_topic
from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka
from glaim_stream.core.errors import OwnershipLost
from glaim_stream.core.settings import Settings
from glaim_stream.decode import DeadLetter
from glaim_stream.kafka import Commit, TransactionalPublisher, commit_from_metadata, ensure_topics, read_commit
from glaim_stream.output import Message, Origin, Output, read_rows
from glaim_stream.windows import ClockClose
from tests.chaos.randomised.topics import held_back
from tests.support import rows_message


async def yes() -> bool | None:
    return True


def settings_for(kafka: str, topic_prefix: str) -> Settings:
    given = Settings(
        kafka=kafka,
        input_topic=topic_prefix + "in",
        output_topic=topic_prefix + "out",
        consumer_group=topic_prefix + "worker",
        partitions=2,
        delivery="exactly_once",
    )
    ensure_topics(given)
    return given


@pytest.fixture
def settings(kafka: LocalKafka | ExternalKafka, topic_prefix: str) -> Settings:
    return settings_for(kafka.bootstrap_servers, topic_prefix)


def publisher(settings: Settings, confirm: Callable[[], Awaitable[bool | None]] = yes) -> TransactionalPublisher:
    return TransactionalPublisher(settings, settings.input_topic, 1, confirm)


def output(offset: int, *values: bytes, letters: int = 0) -> Output:
    messages = [Message(value, 1, "m") for value in values]
    return Output(1, Origin(offset, 1_000), messages, [DeadLetter(b"k", b"x" * 2000)] * letters)


def values_of(settings: Settings, topic: str) -> list[bytes | None]:
    return [record.value for part in read_topic(settings, topic).values() for record in part]


async def committed(settings: Settings) -> Commit | None:
    found = await read_commit(settings, TopicPartition(settings.input_topic, 1))
    return None if found is None else commit_from_metadata(found.offset, found.metadata)


def transactions(outcome: str) -> float:
    return REGISTRY.get_sample_value("glaim_transactions_total", {"outcome": outcome}) or 0.0


async def test_rows_letters_and_commit_become_visible_together(settings: Settings) -> None:
    owner = publisher(settings)
    before = transactions("committed"), transactions("aborted")
    assert await owner.begin() is None
    first = Commit(5, 2, (ClockClose(4, "m", 17),), "0:1000")
    await owner.publish([output(3, b"a"), output(4, b"b", letters=1)], first)
    assert values_of(settings, settings.output_topic) == [b"a", b"b"]
    assert values_of(settings, settings.dlq_topic) == [b"x" * 2000]
    assert await committed(settings) == first
    await owner.publish([output(4, b"c")], Commit(5, 2, (ClockClose(4, "m", 18),)))  # the clock closes another step
    assert values_of(settings, settings.output_topic) == [b"a", b"b", b"c"]
    assert (transactions("committed"), transactions("aborted")) == (before[0] + 2, before[1])
    await owner.close()


async def test_an_earlier_owner_is_fenced_and_its_output_never_appears(settings: Settings) -> None:
    first, second = publisher(settings), publisher(settings)
    await first.begin()
    await first.publish([output(0, b"first")], Commit(1, 0))
    assert await second.begin() == 1
    with pytest.raises(OwnershipLost, match="was fenced"):
        await first.publish([output(1, b"zombie")], Commit(2, 0))
    await second.publish([output(1, b"second")], Commit(2, 0))
    assert values_of(settings, settings.output_topic) == [b"first", b"second"]
    await first.close()
    await second.close()


async def test_a_worker_that_stops_in_between_leaves_no_transaction_open(settings: Settings) -> None:
    owner = publisher(settings)
    await owner.begin()
    reached = asyncio.Event()

    async def hang(*_: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    assert owner._producer is not None
    owner._producer.send_offsets_to_transaction = hang  # the rows are there, the offsets are not
    publishing = asyncio.create_task(owner.publish([output(0, b"a")], Commit(1, 0)))
    await reached.wait()
    assert held_back(settings.kafka, settings.output_topic) > 0
    publishing.cancel()
    await asyncio.gather(publishing, return_exceptions=True)
    await owner.close()
    assert held_back(settings.kafka, settings.output_topic) == 0
    assert values_of(settings, settings.output_topic) == []
    assert await committed(settings) is None


async def test_messages_that_a_topic_refuses_are_made_smaller_and_published_once(settings: Settings) -> None:
    limits = {settings.output_topic: 9_000, settings.dlq_topic: 1_500}
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    admin.alter_configs(
        [
            ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": str(limit)})
            for topic, limit in limits.items()
        ]
    )
    admin.close()
    groups = [f"{number:03}" + "g" * 200 for number in range(64)]
    large = rows_message(groups)
    assert len(large) > 9_000
    owner = publisher(settings)
    await owner.begin()
    await owner.publish([output(0, large, letters=1)], Commit(1, 0))
    small = values_of(settings, settings.output_topic)[0] or b""  # a part of the first, which is published as it is
    await owner.publish([output(1, large, small, large, large, letters=2)], Commit(2, 0))
    found = [read_rows(value or b"")["group"].to_pylist() for value in values_of(settings, settings.output_topic)]
    assert [group for message in found for group in message] == [*groups, *groups, *found[0], *groups, *groups]
    assert found.count(found[0]) == 5, "the parts of each large message, and the small one, which is not halved"
    assert values_of(settings, settings.dlq_topic) == [b"x" * 500] * 3
    assert await committed(settings) == Commit(2, 0)
    await owner.close()


@pytest.mark.slow  # quicker: what a failed transaction leads to, above
async def test_a_broker_that_restarts_in_between_costs_nothing_and_repeats_nothing(topic_prefix: str) -> None:
    with LocalKafka(jvm_options=QUICK_START) as broker:
        settings = settings_for(broker.bootstrap_servers, topic_prefix)
        owner = publisher(settings)
        await owner.begin()
        await owner.publish([output(0, b"0")], Commit(1, 0))
        await asyncio.to_thread(broker.kill)
        publishing = asyncio.create_task(owner.publish([output(1, b"1")], Commit(2, 0)))
        await asyncio.sleep(1)
        assert not publishing.done()
        await asyncio.to_thread(broker.restart)
        await asyncio.wait_for(publishing, 120)
        await owner.publish([output(2, b"2")], Commit(3, 0))
        assert values_of(settings, settings.output_topic) == [b"0", b"1", b"2"]
        await owner.close()
