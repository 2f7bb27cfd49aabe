"""The README's consumer program works as printed."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from deploy.cache import CHECKOUT
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.pipeline import Pipeline
from tests.support import json_record

START_MS = 1_700_000_040_000


def published(hours: int) -> list[bytes]:
    """Messages of the output topic for a pump with one active and otherwise silent sensors."""
    pipeline = Pipeline(read_catalogue(CHECKOUT / "deploy/catalogues/plant.yaml"), {}, Ladder([Interpolation()]))
    records = [
        json_record(step, group="pump-1", sensor="flow", ts=START_MS + step * 60_000, value=200.0 + step)
        for step in range(hours * 60)
        if step % 10
    ]
    applied = pipeline.apply(pipeline.windows(), records, now_ms=START_MS + 10**9)
    return [message.value for message in pipeline.messages(asyncio.run(pipeline.fill(applied.closed)))]


def test_the_consumer_in_the_readme_reads_the_output_with_kafka_python_and_pyarrow_alone(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    readme = (CHECKOUT / "README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert "glaim_stream" not in program
    topic = topic_prefix + "out"
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for message in published(hours=3):
        producer.send(topic, message)
    producer.close()

    program = program.replace("localhost:9092", kafka.bootstrap_servers).replace("imputed-readings", topic)
    program = program.replace('auto_offset_reset="earliest"', 'auto_offset_reset="earliest", consumer_timeout_ms=5000')
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(" observed " in line for line in lines) > 100
    assert any(" interpolation " in line for line in lines)
    assert all("pump-1" in line for line in lines)
