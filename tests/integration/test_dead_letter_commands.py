"""`dlq list`, `show` and `requeue` on a real broker, with dead letters of a real worker."""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from glaim_stream.output import read_rows
from tests.integration.worker_process import WorkerProcess, call_command, small_settings, wait_until_committed

STEP_MS = 60_000
START_MS = 1_700_000_000_000 // STEP_MS * STEP_MS
HUGE = json.dumps(
    {"group": "g1", "readings": [{"sensor": "new", "ts": START_MS, "value": 1, "pad": "x" * 9000}] * 3}
).encode()
CATALOGUE = """
models:
  - name: m
    step_s: 60
    revise_after: 2
    idle_timeout_s: 100000
    sensors: [{{id: a, max: 100}}{more}]
groups:
  - {{model: m, pattern: "g*"}}
"""


@pytest.fixture
def settings(kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path) -> Settings:
    catalogue = CATALOGUE.format(more="")
    return small_settings(
        kafka.bootstrap_servers, topic_prefix, tmp_path, catalogue, model_repository=tmp_path, partitions=2
    )


def dlq(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call_command(settings, "dlq", *arguments)


def send(settings: Settings, *messages: tuple[bytes | None, bytes, list[tuple[str, bytes]]]) -> None:
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    for key, value, headers in messages:
        producer.send(settings.input_topic, key=key, value=value, headers=headers).get(10)
    producer.close()


def step(number: int, **sensors: float) -> bytes:
    return json.dumps({"group": "g1", "ts": START_MS + number * STEP_MS, "values": sensors}).encode()


def work(settings: Settings, tmp_path: Path) -> None:
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        wait_until_committed(settings)
        assert worker.stop() == 0


def every(settings: Settings, topic: str) -> list[Any]:
    return [record for part in read_topic(settings, topic).values() for record in part]


def observed(settings: Settings) -> Counter[tuple[str, int, float]]:
    """Observed rows (sensor, step, value) with the number of times each was published."""
    rows: Counter[tuple[str, int, float]] = Counter()
    for record in every(settings, settings.output_topic):
        for row in read_rows(record.value).to_pylist():
            if row["observed"]:
                number = int(row["ts"].timestamp() * 1000 - START_MS) // STEP_MS
                rows[row["sensor"], number, row["value"]] += 1
    return rows


def test_letters_are_listed_shown_and_requeued_once(settings: Settings, tmp_path: Path) -> None:
    ensure_topics(settings)
    trace = [("trace", b"7")]
    send(
        settings,
        *((b"g1", step(number, a=number, new=10 + number), trace) for number in range(6)),
        (b"g1", step(6, a=500), []),
        (b"g1", b"rubb\xffish", []),
    )
    work(settings, tmp_path)

    listed = dlq(settings, "list")
    assert listed.returncode == 0, listed.stderr
    lines = [line.split() for line in listed.stdout.replace("│", " ").splitlines()]
    counted = {line[0]: line[2:6] for line in lines if len(line) == 8 and line[1].isdigit()}
    assert counted == {
        "unknown-sensor": ["6", "6", "0", "0"],
        "out-of-limits": ["1", "1", "0", "0"],
        "undecodable": ["1", "1", "0", "0"],
    }
    assert "8 letters" in listed.stdout
    assert "1 letters" in dlq(settings, "list", "--cause", "undecodable").stdout
    assert "0 letters" in dlq(settings, "list", "--group", "g2").stdout
    assert "0 letters" in dlq(settings, "list", "--since", "2100-01-01T00:00:00Z").stdout
    assert dlq(settings, "list", "--cause", "nonsense").returncode == 2
    one_each = dlq(settings, "list", "--each", "--limit", "3").stdout
    assert one_each.count("│ g1 ") == 3
    assert "5 more letters" in one_each

    letters = {dict(record.headers)["glaim-cause"]: record for record in every(settings, settings.dlq_topic)}
    place = "{0.partition}:{0.offset}".format(letters[b"unknown-sensor"])
    shown = dlq(settings, "show", place, "{0.partition}:{0.offset}".format(letters[b"undecodable"]))
    assert shown.returncode == 0, shown.stderr
    for text in ("sensor 'new' is not one of group 'g1'", "still holds it", "readings   1 of the record", '"new": 15'):
        assert text in shown.stdout
    assert "header     trace: 7" in shown.stdout
    assert "72 75 62 62 ff 69 73 68" in shown.stdout
    missing = dlq(settings, "show", "0:99999")
    assert (missing.returncode, "has no letter at 0:99999" in missing.stderr) == (2, True)

    # Add the sensor to the catalogue and requeue the readings that were rejected without it.
    assert settings.catalogue.write_text(CATALOGUE.format(more=", {id: new}"))
    before = len(every(settings, settings.input_topic))
    dry = dlq(settings, "requeue", "--cause", "unknown-sensor")
    assert "would send 6 letters with 6 readings" in dry.stdout
    assert "add --yes" in dry.stdout
    assert dlq(settings, "requeue", "--cause", "unknown-sensor", "--yes", "--dry-run").returncode == 0
    assert len(every(settings, settings.input_topic)) == before, "a dry run sends nothing"
    some = dlq(settings, "requeue", "--cause", "unknown-sensor", "--limit", "2", "--yes")
    assert "sent 2 letters" in some.stdout
    assert "4 are beyond the limit" in some.stdout
    rest = dlq(settings, "requeue", "--cause", "unknown-sensor", "--yes")
    assert "sent 4 letters" in rest.stdout
    assert "2 were sent back already" in rest.stdout
    nothing = dlq(settings, "requeue", "--cause", "unknown-sensor", "--yes")
    assert "sent 0 letters" in nothing.stdout
    assert "6 were sent back already" in nothing.stdout

    requeued = [
        record for record in every(settings, settings.input_topic) if ("glaim-requeued", b"1") in record.headers
    ]
    assert len(requeued) == 6
    original = next(record for record in every(settings, settings.input_topic) if record.value == step(0, a=0, new=10))
    for number, record in enumerate(requeued):
        assert json.loads(record.value) == {
            "group": "g1",
            "ts": START_MS + number * STEP_MS,
            "values": {"new": 10 + number},
        }, "only the rejected reading is requeued"
        assert (record.key, record.partition) == (b"g1", original.partition)
        assert ("trace", b"7") in record.headers
    work(settings, tmp_path)
    rows = observed(settings)
    assert {key[:2] for key in rows if key[0] == "new"} >= {("new", number) for number in range(5)}
    assert all(count == 1 for key, count in rows.items() if key[0] == "a"), "good readings must be published once"

    # A reading that is still wrong becomes a letter again, and is requeued only with --returned.
    assert "sent 1 letters" in dlq(settings, "requeue", "--cause", "out-of-limits", "--yes").stdout
    work(settings, tmp_path)
    again = dlq(settings, "requeue", "--cause", "out-of-limits", "--yes")
    assert "sent 0 letters" in again.stdout
    assert "1 were sent back already" in again.stdout
    assert "1 came back after having been sent back" in again.stdout
    returned = dlq(settings, "requeue", "--cause", "out-of-limits", "--yes", "--returned")
    assert "sent 1 letters" in returned.stdout
    assert any(("glaim-requeued", b"2") in record.headers for record in every(settings, settings.input_topic))
    work(settings, tmp_path)
    report = audit(settings)
    assert report.clean, report.problems


@pytest.mark.slow  # quicker: tests/operate/dlq
def test_a_truncated_letter_is_completed_from_the_input_while_it_is_retained(
    settings: Settings, tmp_path: Path
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    admin.create_topics([NewTopic(settings.input_topic, 1, 1)])
    admin.create_topics([NewTopic(settings.dlq_topic, 1, 1, topic_configs={"max.message.bytes": "8000"})])
    ensure_topics(settings)
    send(settings, (b"g1", step(0, a=1), []), (b"g1", HUGE, []))
    work(settings, tmp_path)
    (letter,) = every(settings, settings.dlq_topic)
    assert len(letter.value) < 1000
    place = f"{letter.partition}:{letter.offset}"  # attempts that were refused have offsets too

    shown = dlq(settings, "show", place).stdout
    assert f"of {len(HUGE)} bytes; the rest is from the input topic" in shown
    assert "readings   0, 1, 2 of the record" in shown
    done = dlq(settings, "requeue", "--yes")
    assert done.returncode == 0, done.stderr
    assert "sent 1 letters with 3 readings" in done.stdout
    again = every(settings, settings.input_topic)[-1]
    assert (again.key, again.value) == (b"g1", HUGE)

    admin.delete_records({TopicPartition(settings.input_topic, 0): 3})
    admin.close()
    shown = dlq(settings, "show", place).stdout
    assert "no longer holds it" in shown
    assert "the rest is gone" in shown
    gone = dlq(settings, "requeue", "--again", "--yes")
    assert gone.returncode == 1
    assert f"{place} was cut, and the input topic no longer holds the whole" in gone.stderr


@pytest.mark.slow  # quicker: tests/operate/dlq
def test_late_readings_are_listed_separately(settings: Settings, tmp_path: Path) -> None:
    ensure_topics(settings)
    send(settings, *((b"g1", step(number, a=1), []) for number in (0, 300, 1)))
    work(settings, tmp_path)
    assert "0 letters" in dlq(settings, "list").stdout
    listed = dlq(settings, "list", "--late").stdout
    assert "too-late" in listed
    assert f"{settings.late_topic}: 1 letters" in listed
    (letter,) = every(settings, settings.late_topic)
    shown = dlq(settings, "show", "--late", f"{letter.partition}:{letter.offset}").stdout
    assert f"late by    {299 * 60} s" in shown
    assert "would send 1 letters with 1 readings" in dlq(settings, "requeue", "--late").stdout


def test_an_absent_topic_is_reported(settings: Settings) -> None:
    done = dlq(settings, "list")
    assert done.returncode == 2
    assert f"there is no topic '{settings.dlq_topic}' at {settings.kafka} yet" in done.stderr
