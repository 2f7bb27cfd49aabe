"""`glaim-stream report` on topics of a real Kafka: rows and late readings by hand, and what a real worker published."""

import json
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.core.times import text_of_ms
from glaim_stream.core.vocabulary import FINAL, FIRST_CORRECTION, Method
from glaim_stream.kafka import ensure_topics
from tests.integration.worker_process import WorkerProcess, call_command, small_settings, wait_until_committed
from tests.operate.completeness.topic_rows import START_MS, STEP_MS, Row, message

CATALOGUE = """
models:
  - {name: m, step_s: 3600, window: 16, revise_after: 2, max_gap: 5, lateness_s: 0, idle_timeout_s: 100000,
     sensors: [{id: flow}]}
groups:
  - {model: m, pattern: "p*"}
  - {model: m, ids: [absent]}
"""
SINCE = ("--since", text_of_ms(START_MS))


@pytest.fixture
def settings(kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path) -> Settings:
    settings = small_settings(kafka.bootstrap_servers, topic_prefix, tmp_path, CATALOGUE)
    ensure_topics(settings)
    return settings


def send(settings: Settings, topic: str, *records: dict[str, Any]) -> None:
    """Send records in their order to the first partition, stamped soon after START_MS."""
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    for record in records:
        producer.send(topic, **{"partition": 0, "timestamp_ms": START_MS + 30 * STEP_MS} | record).get(30)
    producer.close()


def reported(settings: Settings, tmp_path: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    out = tmp_path / "report.json"
    done = call_command(settings, "report", "--json", str(out), *arguments)
    assert done.returncode == code, done.stderr
    found = json.loads(out.read_text())
    for each in [found["total"], *found["days"], *found["sensors"]]:
        assert each["expected"] == each["arrived"] + sum(each["filled"].values()) + each["null"]
    return found  # type: ignore[no-any-return]


def of(found: dict[str, Any], group: str) -> dict[str, Any]:
    (each,) = [each for each in found["sensors"] if each["group"] == group]
    return each  # type: ignore[no-any-return]


def letter(group: str, step: int, *, positions: str = "[0]") -> dict[str, Any]:
    """A late reading as the worker sends it, after the start of its step by a minute."""
    reading = {"group": group, "sensor": "flow", "ts": START_MS + step * STEP_MS + 60_000, "value": 3.5}
    headers = [("glaim-cause", b"too-late"), ("glaim-positions", positions.encode())]
    return {"value": json.dumps(reading).encode(), "headers": headers}


def test_a_range_by_hand(settings: Settings, tmp_path: Path) -> None:
    """Hours of p1: 0 and 1 observed, 2 null and then filled, 3 late, 4 too late, 5 null; from 6 on p2 is alone."""
    first = message(
        Row("p1", 0), Row("p1", 1), Row("p1", 2, Method.NONE), Row("p1", 3, Method.MODEL), Row("p1", 4, Method.BLEND),
        Row("p1", 5, Method.NONE), *(Row("p2", step) for step in range(48)),
    )  # fmt: skip
    second = message(Row("p1", 2, Method.GAUSSIAN, FINAL), Row("p1", 3, Method.OBSERVED, FIRST_CORRECTION))
    send(settings, settings.output_topic, *({"value": each} for each in (first, second, second)))
    send(settings, settings.late_topic, letter("p1", 4), letter("p1", 4), letter("p2", 7), letter("p1", -30))
    found = reported(settings, tmp_path, *SINCE, "--html", str(tmp_path / "page.html"))
    p1 = of(found, "p1")
    assert {name: p1[name] for name in ("expected", "arrived", "good", "late", "too_late", "null", "without_row")} == {
        "expected": 48, "arrived": 3, "good": 3, "late": 2, "too_late": 1, "null": 43, "without_row": 42,
    }  # fmt: skip
    assert {name: count for name, count in p1["filled"].items() if count} == {"gaussian": 1, "blend": 1}
    assert (p1["longest_gap"], p1["longest_gap_s"]) == (44, 44 * 3600)
    assert [(day["date"], day["expected"], day["longest_gap"]) for day in p1["days"]] == [
        ("2026-03-01", 24, 20),
        ("2026-03-02", 24, 24),
    ]
    # Each of the rows was published 30 hours after the first step.
    assert p1["mean_delay_s"] == pytest.approx((30 * 3 - (0 + 1 + 3)) * 3600 / 3)
    assert of(found, "p2")["pct_good"] == 100.0
    assert of(found, "absent")["without_row"] == 48
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")

    cut = reported(settings, tmp_path, "--since", "2026-03-01T02:00Z", "--until", "2026-03-01T05:30Z", "--group", "p1")
    assert [each["group"] for each in cut["sensors"]] == ["p1"]
    assert (of(cut, "p1")["expected"], of(cut, "p1")["arrived"]) == (3, 1)
    berlin = reported(settings, tmp_path, *SINCE, "--timezone", "Europe/Berlin", "--group", "p2")
    assert [(day["date"], day["expected"]) for day in berlin["days"]] == [
        ("2026-03-01", 23), ("2026-03-02", 24), ("2026-03-03", 1),
    ]  # fmt: skip


@pytest.mark.slow  # quicker: the range by hand, above, and tests/operate/completeness
def test_a_group_that_went_dark_before_the_range_is_in_the_report(settings: Settings, tmp_path: Path) -> None:
    event = {"group": "p1", "kind": "dark", "by_clock": False}
    times = {"ts": text_of_ms(START_MS - 40 * STEP_MS), "last_ts": text_of_ms(START_MS - 50 * STEP_MS)}
    send(settings, settings.outage_topic, {"value": json.dumps({**event, "model": "m", **times}).encode()})
    send(settings, settings.output_topic, {"value": message(*(Row("p2", step) for step in range(12)))})
    assert of(reported(settings, tmp_path, *SINCE), "p1")["without_row"] == 12


@pytest.mark.slow  # quicker: the range by hand, above, and tests/operate/completeness
def test_what_retention_has_removed_is_not_missing(settings: Settings, tmp_path: Path) -> None:
    rows = [message(*(Row(group, step) for group in ("p1", "p2"))) for step in range(24)]
    send(settings, settings.output_topic, *({"value": each} for each in rows))
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    admin.delete_records({TopicPartition(settings.output_topic, 0): 4})
    admin.close()
    found = reported(settings, tmp_path, *SINCE, "--group", "p*")
    # Any of the first ten messages that are left may only correct earlier steps; here they are the steps 4 to 13.
    assert found["begin"] == text_of_ms(START_MS + 13 * STEP_MS)
    assert (found["total"]["expected"], found["total"]["arrived"]) == (22, 22)
    assert f"retention has removed rows before {found['begin']}: the report begins there" in found["notes"]


@pytest.mark.slow  # quicker: the range by hand, above, and tests/operate/completeness
def test_what_cannot_be_read_and_what_is_not_there(settings: Settings, tmp_path: Path) -> None:
    empty = call_command(settings, "report", "--json", str(tmp_path / "none.json"))
    assert (empty.returncode, (tmp_path / "none.json").exists()) == (1, False)
    assert empty.stderr == f"error: {settings.output_topic}: expected rows, found none\n"
    send(settings, settings.output_topic, {"value": message(Row("p1", 0), Row("q1", 0))}, {"value": b"no rows"})
    send(settings, settings.late_topic, letter("p1", 0, positions="?"))
    found = reported(settings, tmp_path, code=1)
    assert found["unread"] == 2
    assert of(found, "p1")["expected"] == 1
    notes = "\n".join(found["notes"])
    assert f"messages of {settings.output_topic} that are not in the schema, so their rows do not count: 1" in notes
    assert f"letters of {settings.late_topic} that cannot be read whole, so more cells are late: 1" in notes
    assert f"rows of groups or sensors that {settings.catalogue} does not name, left out: 1" in notes
    unknown = call_command(settings, "report", "--group", "pp1")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "expected a group of" in unknown.stderr
    assert "did you mean p1? known: absent, p1" in unknown.stderr
    absent = settings.output_topic[:-1]
    topic = call_command(settings, "report", "--output-topic", absent)
    assert topic.returncode == 2
    assert f"there is no topic '{absent}' at {settings.kafka} yet; did you mean " in topic.stderr
    assert settings.output_topic in topic.stderr
    future = call_command(settings, "report", "--since", "2099-01-01")
    assert future.returncode == 1


@pytest.mark.slow  # quicker: the range by hand, above
def test_what_a_worker_published(settings: Settings, tmp_path: Path) -> None:
    sent = [
        {"group": "p1", "sensor": "flow", "ts": START_MS + step * STEP_MS, "value": step + 0.5}
        for step in range(40)
        if step not in (5, 6, 30)
    ]
    # Again, late, and older than the window of 16 steps. The reading of step 39 closes the steps below it.
    sent += [{**sent[0], "ts": START_MS + round(step * STEP_MS)} for step in (37.5, 30, 5)]
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    for each in sent:
        producer.send(settings.input_topic, json.dumps(each).encode(), b"p1")
    producer.close()
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        wait_until_committed(settings, total=len(sent))
        assert worker.stop() == 0
    p1 = of(reported(settings, tmp_path), "p1")
    assert (p1["expected"], p1["arrived"], sum(p1["filled"].values())) == (39, 37, 2)
    assert (p1["late"], p1["too_late"], p1["longest_gap"]) == (2, 1, 2)
