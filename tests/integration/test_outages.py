"""The servers that the worker stands on die and come back: nothing is lost, and every value says who made it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition

from deploy.cache import CHECKOUT
from deploy.demo.topic import read_topic
from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka
from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.audit import audit
from glaim_stream.feed.dropouts import hide
from glaim_stream.feed.produce import ProduceReport, produce
from glaim_stream.feed.sources import plant_source
from glaim_stream.records import read_rows
from glaim_stream.settings import Settings
from glaim_stream.topics import ensure_topics
from tests.integration.worker_process import WorkerProcess, wait_until_committed

SPEED = 400  # times real time: three hours in 27 s, time enough for an end and a new start in the middle
MODEL_FREE = {"interpolation", "last_value"}


def settings_for(kafka: str, prefix: str, **more: object) -> Settings:
    return Settings(
        kafka=kafka,
        catalogue=CHECKOUT / "deploy" / "catalogues" / "plant.yaml",
        model_repository=CHECKOUT / "model_repo",
        input_topic=prefix + "in",
        output_topic=prefix + "out",
        consumer_group=prefix + "worker",
        partitions=2,
        commit_interval_s=0.2,
        **more,  # type: ignore[arg-type]
    )


@contextmanager
def plant_streams_into(settings: Settings) -> Iterator[tuple[int, Future[ProduceReport]]]:
    """Streams a plant with holes in the background; how many readings, and the report to come."""
    ensure_topics(settings)
    whole = plant_source(groups=4, days=0.125, seed=3)
    source = whole.where(~hide(whole, 0.15, seed=3).mask)
    with ThreadPoolExecutor(1) as pool:
        yield len(source), pool.submit(produce, settings, source, speed=SPEED)


def methods_in_order(settings: Settings) -> list[set[str]]:
    """Who made the values of each message of the first partition."""
    records = read_topic(settings, settings.output_topic)[0]
    return [set(read_rows(record.value)["method"].to_pylist()) for record in records]


def test_interpolation_stands_in_while_triton_is_dead_and_the_model_comes_back(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    with LocalTriton(CHECKOUT / "model_repo", models=["plant-pump"]) as triton:
        settings = settings_for(kafka.bootstrap_servers, topic_prefix, triton=triton.grpc_url, triton_deadline_s=1)
        with (
            WorkerProcess(settings, tmp_path / "worker.log") as worker,
            plant_streams_into(settings) as (readings, produced),
        ):
            wait_until_committed(settings, more=readings // 5)
            triton.kill()
            wait_until_committed(settings, more=readings // 5)
            triton.restart()
            assert produced.result().failed_messages == 0
            wait_until_committed(settings, all_of=readings)
            assert worker.stop() == 0
    report = audit(settings)
    assert report.clean, report.problems
    assert report.counts["identical_duplicates"] == 0
    methods = methods_in_order(settings)
    stood_in = [place for place, made in enumerate(methods) if made & MODEL_FREE]
    by_model = [place for place, made in enumerate(methods) if "model" in made]
    assert by_model[0] < stood_in[0] < stood_in[-1] < by_model[-1]
    assert not any(made & MODEL_FREE for made in methods[: stood_in[0]] + methods[stood_in[-1] + 1 :])


def test_a_broker_that_dies_and_comes_back_costs_nothing(topic_prefix: str, tmp_path: Path) -> None:
    with LocalKafka(tmp_path / "kafka", jvm_options=QUICK_START) as broker:
        settings = settings_for(broker.bootstrap_servers, topic_prefix, imputer="interpolation")
        with (
            WorkerProcess(settings, tmp_path / "worker.log") as worker,
            plant_streams_into(settings) as (readings, produced),
        ):
            wait_until_committed(settings, more=readings // 4)
            broker.kill()
            time.sleep(2)
            broker.restart()
            assert produced.result().failed_messages == 0
            wait_until_committed(settings, all_of=readings, deadline_s=90)
            assert worker.stop() == 0
        report = audit(settings)
        assert report.clean, report.problems
        assert report.counts["readings"] >= readings, "the producer may have sent some twice, none never"


def test_an_input_that_forgot_what_a_rebuild_needs_is_said_and_the_rest_flows(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    settings = settings_for(kafka.bootstrap_servers, topic_prefix, imputer="interpolation")
    ensure_topics(settings)
    day = plant_source(groups=4, days=0.2, seed=3)
    noon_ms = int(day.time_ms[len(day) // 2])
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        produce(settings, day.between(None, noon_ms))
        wait_until_committed(settings)
        assert worker.stop() == 0
        records = read_topic(settings, settings.input_topic)
        admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
        admin.delete_records(
            {TopicPartition(settings.input_topic, number): len(part) for number, part in records.items()}
        )
        admin.close()
        produce(settings, day.between(noon_ms, None))
        worker.start()
        wait_until_committed(settings, all_of=len(day))
        assert worker.stop() == 0
    assert "retention has kept only" in worker.log.read_text()
    report = audit(settings)
    assert report.lost == 0, report.problems
