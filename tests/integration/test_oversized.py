"""Topics that take only small messages: rows go in pieces, dead letters keep their head, nothing stops."""

from __future__ import annotations

from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.audit import audit
from glaim_stream.feed.produce import produce
from glaim_stream.feed.sources import plant_source
from glaim_stream.plant import SENSORS
from glaim_stream.settings import Settings
from tests.integration.worker_process import WorkerProcess, wait_until_committed

SMALL_BYTES = 8_000  # an Arrow stream of our schema weighs 4 kB before its first row
RUBBISH = b"{" + b"x" * 50_000


def test_what_a_topic_finds_too_large_goes_in_pieces(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    catalogue = tmp_path / "groups.yaml"
    sensors = "".join(f"      - id: {sensor.id}\n" for sensor in SENSORS)
    catalogue.write_text(
        f"models:\n  - name: m\n    step_s: 60\n    idle_timeout_s: 600\n    sensors:\n{sensors}"
        "groups:\n  - {model: m, pattern: 'pump-*'}\n"
    )
    settings = Settings(
        kafka=kafka.bootstrap_servers,
        catalogue=catalogue,
        model_repository=tmp_path,
        imputer="interpolation",
        input_topic=topic_prefix + "in",
        output_topic=topic_prefix + "out",
        consumer_group=topic_prefix + "worker",
    )
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    small = {"max.message.bytes": str(SMALL_BYTES)}
    admin.create_topics([NewTopic(settings.input_topic, 1, 1)])
    admin.create_topics(
        [NewTopic(name, 1, 1, topic_configs=small) for name in (settings.output_topic, settings.dlq_topic)]
    )
    admin.close()
    source = plant_source(groups=4, days=0.2, seed=1)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        produce(settings, source)
        producer = KafkaProducer(bootstrap_servers=settings.kafka)
        producer.send(settings.input_topic, key=b"pump-1", value=RUBBISH)
        producer.close()
        wait_until_committed(settings)
        assert worker.stop() == 0
    report = audit(settings)
    assert report.clean, report.problems
    assert report.counts["found"] > 8_000
    outputs = [record.value for part in read_topic(settings, settings.output_topic).values() for record in part]
    assert len(outputs) > 2
    (letter,) = [record for part in read_topic(settings, settings.dlq_topic).values() for record in part]
    headers = dict(letter.headers)
    assert headers["glaim-cut-from-bytes"] == str(len(RUBBISH)).encode()
    assert headers["glaim-offset"] == str(len(source)).encode()
    assert RUBBISH.startswith(letter.value)
