"""A replay publishes the live worker's rows: for a whole topic, a range in its middle, and a file."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import TopicAlreadyExistsError

from deploy.cache import CHECKOUT
from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.triton import ExternalTriton, LocalTriton
from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.settings import Settings
from glaim_stream.core.vocabulary import FIRST_CORRECTION
from glaim_stream.feed import hide, plant_source, produce
from glaim_stream.kafka import ensure_topics
from glaim_stream.output import read_rows
from tests.integration.worker_process import WorkerProcess, run_command, wait_until_committed

pytestmark = pytest.mark.slow

STEPS = 420  # minutes: more than four windows, so that a range in the middle has input before its warm-up
SERVED_BATCH = 256
Key = tuple[str, str, int, int]
Rows = dict[Key, dict[str, Any]]


@pytest.fixture
def settings(
    kafka: LocalKafka | ExternalKafka, triton: LocalTriton | ExternalTriton, topic_prefix: str, tmp_path: Path
) -> Settings:
    plant = (CHECKOUT / "deploy" / "catalogues" / "plant.yaml").read_text()
    catalogue = tmp_path / "groups.yaml"
    # The wall clock must close no step, because it is not in the topic. Lateness makes the disorder matter.
    catalogue.write_text(
        plant.replace("idle_timeout_s: 5 ", "idle_timeout_s: 100000 ").replace("lateness_s: 0 ", "lateness_s: 120 ")
    )
    assert read_catalogue(catalogue).models[0].lateness_s == 120
    return Settings(
        kafka=kafka.bootstrap_servers,
        triton=triton.grpc_url,
        catalogue=catalogue,
        model_repository=CHECKOUT / "model_repo",
        input_topic=topic_prefix + "in",
        output_topic=topic_prefix + "out",
        consumer_group=topic_prefix + "worker",
        partitions=2,
        kafka_extra={"max_poll_records": 400},
        triton_deadline_s=60,
    )


@dataclass(frozen=True)
class Sent:
    """A reading and the time at which it is sent; the record carries that time."""

    arrival_ms: int
    key: bytes
    value: bytes


def disordered(seed: int = 3) -> list[Sent]:
    random = np.random.default_rng(seed)
    source = plant_source(STEPS / 1440, groups=2, seed=seed)
    source = source.where(~hide(source, 0.15, seed=seed).mask)
    out = []
    for cell, time_ms, value in zip(source.cell.tolist(), source.time_ms.tolist(), source.value.tolist(), strict=True):
        group, sensor = source.cells[cell]
        reading = {"group": group, "sensor": sensor, "ts": time_ms, "value": value}
        late_ms = random.integers(0, 100_000) + (random.random() < 0.01) * 20 * 60_000
        out.append(Sent(time_ms + int(late_ms), group.encode(), json.dumps(reading).encode()))
    return sorted(out, key=lambda each: each.arrival_ms)


def send(settings: Settings, sent: Iterable[Sent]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    with suppress(TopicAlreadyExistsError):  # an explicitly created topic keeps the given record times
        admin.create_topics([NewTopic(settings.input_topic, settings.partitions, 1)])
    admin.close()
    ensure_topics(settings)
    producer = KafkaProducer(bootstrap_servers=settings.kafka, linger_ms=20)
    for each in sent:
        producer.send(settings.input_topic, key=each.key, value=each.value, timestamp_ms=each.arrival_ms)
    producer.flush()
    producer.close()


def work(settings: Settings, tmp_path: Path) -> dict[int, list[ConsumerRecord]]:
    """Run a worker over the topic and return what it publishes, by partition."""
    ensure_topics(settings)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        wait_until_committed(settings, deadline_s=120)
        assert worker.stop() == 0
    return read_topic(settings, settings.output_topic)


def replay(settings: Settings, out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_replay(settings, "--out", str(out), "--all-revisions", *arguments)


def run_replay(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(settings, "replay", *arguments, timeout_s=120)


def rows_of(tables: Iterable[pa.Table]) -> Rows:
    rows: Rows = {}
    for table in tables:
        columns = table.set_column(table.column_names.index("ts"), "ts", table["ts"].cast("int64"))
        for row in columns.to_pylist():
            key = (row["group"], row["sensor"], row["ts"], row["revision"])
            assert rows.setdefault(key, row) == row, f"{key} was published twice with different content"
    return rows


def live_rows(records: Iterable[ConsumerRecord]) -> Rows:
    return rows_of(read_rows(record.value) for record in records)


def every(output: dict[int, list[ConsumerRecord]]) -> list[ConsumerRecord]:
    return [record for part in output.values() for record in part]


def origin(record: ConsumerRecord) -> int:
    return int(dict(record.headers)["glaim-input-offset"])


def assert_equal(found: Rows, expected: Rows, settings: Settings, *, to_the_byte: bool) -> None:
    assert found.keys() == expected.keys()
    resolution = {sensor.id: sensor.resolution for sensor in read_catalogue(settings.catalogue).models[0].sensors}
    for key, row in expected.items():
        other = found[key]
        if to_the_byte or row["observed"]:
            assert other == row, key
            continue
        for name, value in row.items():
            if name in ("value", "lower", "upper") and value is not None:
                # One step, and the rounding of float32 at the size of the value.
                assert abs(other[name] - value) <= resolution[key[1]] * 1.001 + abs(value) * 1e-6, (key, name)
            else:
                assert other[name] == value, (key, name)
    methods = Counter(row["method"] for row in expected.values())
    assert methods["model"] + methods["blend"] + methods["gaussian"] > 500


def test_a_replay_with_a_fixed_batch_equals_the_live_output_to_the_byte(settings: Settings, tmp_path: Path) -> None:
    fixed = settings.model_copy(update={"triton_batch": SERVED_BATCH, "triton_fixed_batch": True})
    sent = disordered()
    send(fixed, sent)
    output = work(fixed, tmp_path)

    done = replay(fixed, tmp_path / "whole.parquet")
    assert done.returncode == 0, done.stderr
    whole = rows_of([pq.read_table(tmp_path / "whole.parquet")])
    assert_equal(whole, live_rows(every(output)), fixed, to_the_byte=True)
    assert any(row["revision"] >= FIRST_CORRECTION for row in whole.values()), (
        "late readings must have corrected some rows"
    )

    # A range that begins and ends at the worker's batch boundaries yields the rows of the messages in between.
    partition, records = max(output.items(), key=lambda item: len(item[1]))
    edges = sorted({origin(record) for record in records})
    begin, end = edges[-4], edges[-2]
    expected = live_rows(record for record in records if begin < origin(record) <= end)
    span = ["--from-offset", f"{partition}:{begin + 1}", "--until-offset", f"{partition}:{end + 1}"]
    done = replay(fixed, tmp_path / "range.arrow", "--partition", str(partition), *span)
    assert done.returncode == 0, done.stderr
    with pa.OSFile(str(tmp_path / "range.arrow")) as file:
        found = rows_of([pa.ipc.open_file(file).read_all()])
    assert found.keys() == expected.keys()
    assert found == expected
    warm = int(done.stdout.split("windows warmed up by ")[1].split()[0])
    assert 0 < warm <= begin + 1
    cold = replay(fixed, tmp_path / "cold.parquet", "--partition", str(partition), *span, "--no-warm-up")
    assert cold.returncode == 0, cold.stderr
    assert rows_of([pq.read_table(tmp_path / "cold.parquet")]) != expected, "without warm-up the rows must differ"


def test_a_replay_without_a_fixed_batch_differs_by_at_most_one_resolution_step(
    settings: Settings, tmp_path: Path
) -> None:
    send(settings, disordered(seed=4))
    output = work(settings, tmp_path)
    other_batches = settings.model_copy(update={"kafka_extra": {"max_poll_records": 1700}, "triton_batch": 17})
    done = replay(other_batches, tmp_path / "whole.parquet")
    assert done.returncode == 0, done.stderr
    found = rows_of([pq.read_table(tmp_path / "whole.parquet")])
    assert_equal(found, live_rows(every(output)), settings, to_the_byte=False)


def test_a_replay_of_a_file_equals_the_workers_output_for_the_same_readings(settings: Settings, tmp_path: Path) -> None:
    fixed = settings.model_copy(update={"triton_batch": SERVED_BATCH, "triton_fixed_batch": True})
    source = plant_source(STEPS / 1440, groups=3, seed=5)
    source = source.where(~hide(source, 0.15, seed=5).mask)
    group, sensor = ([cell[side] for cell in source.cells] for side in (0, 1))
    table = {
        "group": pa.array([group[cell] for cell in source.cell]),
        "sensor": pa.array([sensor[cell] for cell in source.cell]),
        "ts": pa.array(source.time_ms, pa.timestamp("ms", tz="UTC")),
        "value": pa.array(source.value),
    }
    pq.write_table(pa.table(table), tmp_path / "readings.parquet")
    produce(fixed, source)
    expected = live_rows(every(work(fixed, tmp_path)))

    done = replay(fixed, tmp_path / "rows.parquet", str(tmp_path / "readings.parquet"), "--leave-open")
    assert done.returncode == 0, done.stderr
    assert_equal(rows_of([pq.read_table(tmp_path / "rows.parquet")]), expected, fixed, to_the_byte=True)


def test_a_replay_to_a_topic_publishes_the_workers_messages(settings: Settings, tmp_path: Path) -> None:
    model_free = settings.model_copy(update={"imputer": "interpolation", "model_repository": tmp_path})
    send(model_free, disordered(seed=6))
    output = work(model_free, tmp_path)
    again = settings.output_topic + "-again"
    for _ in range(2):
        done = run_replay(model_free, "--output-topic", again)
        assert done.returncode == 0, done.stderr
    repeated = read_topic(model_free, again)
    assert {number: live_rows(part) for number, part in repeated.items()} == {
        number: live_rows(part) for number, part in output.items()
    }
    of_worker = {name for name, _ in every(output)[0].headers} - {"glaim-once-from"}  # of transactions
    assert {name for name, _ in every(repeated)[0].headers} == of_worker
