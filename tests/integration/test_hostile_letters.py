"""Letters that an intruder wrote: `dlq` shows them, obeys none of their text and reads no topic that they name."""

import pytest
from kafka import KafkaProducer

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.core.settings import Settings
from glaim_stream.decode.dead_letters import letters_of
from glaim_stream.kafka import ensure_topics
from tests.integration.worker_process import call_command
from tests.support import Record

ESCAPE = "\x1b]0;mine\x07"
SECRET = b"salaries of the year"


@pytest.fixture
def settings(kafka: LocalKafka | ExternalKafka, topic_prefix: str) -> Settings:
    return Settings(
        kafka=kafka.bootstrap_servers, input_topic=topic_prefix + "in", output_topic=topic_prefix + "out", partitions=1
    )


def test_names_are_shown_and_topics_that_a_letter_names_are_not_read(settings: Settings) -> None:
    ensure_topics(settings)
    other = settings.late_topic  # any topic beside the input
    (plain,) = letters_of(
        Record(b"{}", 0, b"pump-[/]"), [Reject(0, DeadLetterCause.MALFORMED, "[/] :warning: " + ESCAPE)],
        topic=settings.input_topic, partition=0,
    )  # fmt: skip
    (lured,) = letters_of(
        Record(b"", 0, ESCAPE.encode()), [Reject(0, DeadLetterCause.MALFORMED, "x")], topic=other, partition=0
    )
    cut = ("glaim-cut-from-bytes", str(len(SECRET)).encode())
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    producer.send(other, value=SECRET).get(10)
    for letter, headers in ((plain, plain.headers), (lured, [*lured.headers, cut])):
        producer.send(settings.dlq_topic, key=letter.key, value=letter.value, headers=headers, partition=0).get(10)
    producer.close()
    counts = call_command(settings, "dlq", "list")
    listed = call_command(settings, "dlq", "list", "--each")
    shown = call_command(settings, "dlq", "show", "0:0", "0:1")
    for done in (counts, listed, shown):
        assert done.returncode == 0, done.stderr
        assert all(char.isprintable() or char == "\n" for char in done.stdout)
    assert "pump-[/]" in listed.stdout
    assert "[/] :warning:" in listed.stdout
    assert r"\x1b]0;mine\x07" in shown.stdout
    assert SECRET.decode() not in shown.stdout
    assert f"original   {other} 0:0, " in shown.stdout
    assert f"not looked up, since the input topic is {settings.input_topic}" in shown.stdout
