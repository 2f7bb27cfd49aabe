"""Every figure of a worker's page and of its metrics beside the topics, computed a second time from their bytes."""

import base64
import json
import re
import urllib.request
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kafka import KafkaProducer

from deploy.cache import CHECKOUT
from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from glaim_stream.core.settings import Settings
from glaim_stream.feed.plant import STEP_MS, simulate
from glaim_stream.kafka import ensure_topics
from tests.integration.worker_process import WorkerProcess, plant_settings, wait_until_committed
from tests.page.http_client import ask

pytestmark = pytest.mark.slow  # quicker: tests/page/test_board.py, tests/blend/test_scores.py

STEPS, WINDOW, NEWEST, STRETCH, GROUPS = 192, 96, 12, 48, 4  # four stretches; the page looks at the newest 12 steps
DARK = "pump-4"  # silent for longer than max_gap at the end
FAULTY = {
    "undecodable": [b"\0\0\0\0\x2a\2x", b"temperature=4"],
    "malformed": [b'{"group": "pump-1"}'],
    "unknown-group": [b'{"group": "nobody", "sensor": "flow", "ts": 1767225600000, "value": 1}'] * 3,
    "unknown-sensor": [b'{"group": "pump-1", "sensor": "colour", "ts": 1767225600000, "value": 1}'],
    "bad-time": [b'{"group": "pump-1", "sensor": "flow", "ts": "yesterday", "value": 1}'],
    "out-of-limits": [b'{"group": "pump-1", "sensor": "flow", "ts": %d, "value": 1e9}'],
}

Cell = tuple[str, str, int]


class Stream:
    """What is sent: readings by cell, with holes; some come four steps late, and some are never sent."""

    def __init__(self) -> None:
        whole = simulate(STEPS / 1440, groups=GROUPS, seed=5, start_ms=1_767_225_600_000)
        draws = np.random.default_rng(5)
        self.truth: dict[Cell, float] = {}
        self.sent: set[Cell] = set()
        self.records: list[tuple[int, int, dict[str, Any]]] = []  # (step of sending, partition, document)
        self.first_ms, self.sensors = int(whole.times_ms[0]), whole.sensor_ids
        assert self.first_ms % (STRETCH * STEP_MS) == 0
        for number, group in enumerate(whole.groups):
            silent_for = np.zeros(len(self.sensors), int)
            for step in range(STEPS if group != DARK else STEPS - 70):
                now: dict[str, float] = {}
                for at, sensor in enumerate(self.sensors):
                    ts, value = self.first_ms + step * STEP_MS, float(np.round(whole.values[number, at, step], 3))
                    self.truth[group, sensor, ts] = value
                    if silent_for[at] == 0 and draws.random() < 0.06:
                        silent_for[at] = draws.integers(1, 6)
                    if silent_for[at] > 0:
                        silent_for[at] -= 1
                        continue
                    self.sent.add((group, sensor, ts))
                    if draws.random() < 0.03 and step < STEPS - 5:
                        self._add(step + 4, group, ts, {sensor: value})
                    else:
                        now[sensor] = value
                if now:
                    self._add(step, group, self.first_ms + step * STEP_MS, now)
        self.records.sort(key=lambda each: each[0])
        self.end_ms = self.first_ms + (STEPS - 1) * STEP_MS  # the newest step is open

    def _add(self, step: int, group: str, ts: int, values: dict[str, float]) -> None:
        self.records.append((step, int(group[-1]) % 2, {"group": group, "ts": ts, "values": values}))

    def missing(self, group: str) -> int:
        """Percent of the cells of the newest closed steps without a reading."""
        times = range(self.end_ms - NEWEST * STEP_MS, self.end_ms, STEP_MS)
        there = sum((group, sensor, ts) in self.sent for sensor in self.sensors for ts in times)
        return int(np.ceil(100 * (1 - there / (NEWEST * len(self.sensors)))))

    def behind_s(self, group: str) -> int:
        newest = max(ts for name, _, ts in self.sent if name == group and ts < self.end_ms)
        return (self.end_ms - STEP_MS - newest) // 1000


def rows_of(settings: Settings) -> list[dict[str, Any]]:
    """The rows of the output topic in the order of their offsets, read with pyarrow alone."""
    found = []
    for messages in read_topic(settings, settings.output_topic).values():
        for message in messages:
            table = pa.ipc.open_stream(message.value).read_all()
            times = table["ts"].cast(pa.int64()).to_pylist()
            found += [row | {"ts": ts} for row, ts in zip(table.to_pylist(), times, strict=True)]
    return found


def metric(text: str, name: str) -> dict[tuple[str, ...], float]:
    """The series of a metric by the values of their labels, which are in the order of their names."""
    found = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE)
    return {tuple(re.findall(r'\w+="([^"]*)"', labels)): float(value) for labels, value in found}


def above_zero(series: dict[tuple[str, ...], float]) -> dict[str, int]:
    return {key[0]: int(value) for key, value in series.items() if value}


def numbers(text: str, kind: str = "u1") -> list[int]:
    return np.frombuffer(base64.b64decode(text), f"<{kind}").tolist()


def kind_of(row: dict[str, Any]) -> int:
    """Observed 0, first estimate 1, final 2, late correction 3."""
    return 3 if row["revision"] >= 3 else 0 if row["observed"] else 2 if row["revision"] else 1


def page_of(settings: Settings, group: str) -> dict[str, Any]:
    """The events of a new viewer of a group, once the page has its rows."""
    for _ in range(20):
        answer = ask(settings.page_address[1] if settings.page_address else 0, f"/api/state?group={group}")
        events: dict[str, Any] = dict(answer.document["events"])
        if "group" in events:
            return events
    raise AssertionError(f"expected rows of {group}, found {sorted(events)}")


def test_the_page_and_the_metrics_are_what_the_topics_hold(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    stream = Stream()
    catalogue = tmp_path / "groups.yaml"
    text = (CHECKOUT / "deploy" / "catalogues" / "plant.yaml").read_text()
    catalogue.write_text(text.replace("idle_timeout_s: 5 ", "idle_timeout_s: 100000 "))  # no step by the wall clock
    settings = plant_settings(
        kafka.bootstrap_servers, topic_prefix, imputer="gaussian", partitions=3, score_share=0.5,
        quality_topic=topic_prefix + "quality", page=str(choose_port()),
        metrics_host=LOOPBACK, metrics_port=choose_port(),
    ).model_copy(update={"catalogue": catalogue})  # fmt: skip
    ensure_topics(settings)
    producer = KafkaProducer(bootstrap_servers=settings.kafka, enable_idempotence=True)

    def send(partition: int, value: bytes) -> None:
        producer.send(settings.input_topic, value, partition=partition)

    for _, partition, document in stream.records:
        send(partition, json.dumps(document).encode())
    for records in FAULTY.values():
        for value in records:
            send(1, value % stream.end_ms if b"%d" in value else value)
    too_late = {"group": "pump-1", "ts": stream.first_ms, "values": {"flow": 1.0, "speed": 2.0}}
    send(1, json.dumps(too_late).encode())
    producer.flush()
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        wait_until_committed(settings, deadline_s=120)
        check_page(settings, stream)
        # Steps far ahead with one sensor end the stretches and add no hidden reading of the other sensors.
        for step in range(8):
            for group in (f"pump-{number + 1}" for number in range(GROUPS)):
                ts = stream.end_ms + (500 + step) * STEP_MS
                values = {"tank_level": 50.0}
                send(int(group[-1]) % 2, json.dumps({"group": group, "ts": ts, "values": values}).encode())
        producer.flush()
        producer.close()
        wait_until_committed(settings, deadline_s=60)
        address = f"http://{LOOPBACK}:{settings.metrics_port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            metrics = answer.read().decode()
        assert worker.stop() == 0
    rows = rows_of(settings)
    check_counts(settings, metrics, rows)
    check_letters(settings, metrics)
    check_scores(settings, metrics)
    check_errors(metrics, rows, stream)


def check_page(settings: Settings, stream: Stream) -> None:
    events = page_of(settings, "pump-1")
    overview, names = events["overview"], events["names"]["names"]
    assert sorted(names) == [f"pump-{number + 1}" for number in range(GROUPS)]
    assert overview["count"] == GROUPS
    assert overview["partitions"] == [0, 1]
    assert sorted(overview["health"]["partitions"]) == ["0", "1", "2"], "an empty one is held, too"
    assert {each["group"] for each in overview["outages"] if each["kind"] == "dark"} == {DARK}
    states = dict(zip(names, numbers(overview["state"]), strict=True))
    assert states == {name: 2 if name == DARK else 1 if stream.missing(name) else 0 for name in names}
    alive = [name for name in names if name != DARK]
    missing = dict(zip(names, numbers(overview["missing"]), strict=True))
    assert {name: missing[name] for name in alive} == {name: stream.missing(name) for name in alive}
    assert max(missing.values()) <= 100
    behind = dict(zip(names, numbers(overview["behind_s"], "u4"), strict=True))
    assert behind == {name: stream.behind_s(name) for name in names}
    rows = rows_of(settings)
    for name in alive:
        found = page_of(settings, name)["group"]
        assert (found["end_ms"], found["step_ms"], found["window"]) == (stream.end_ms, STEP_MS, WINDOW)
        oldest_ms = stream.end_ms - (WINDOW + 1) * STEP_MS
        expected = {
            (row["sensor"], row["ts"], kind_of(row)): (row["value"], row["lower"], row["upper"], row["method"])
            for row in rows
            if row["group"] == name and row["ts"] > oldest_ms
        }
        ids = [each["id"] for each in found["sensors"]]
        assert {(ids[line[0]], line[1], line[2]): tuple(line[3:7]) for line in found["rows"]} == expected


def check_counts(settings: Settings, metrics: str, rows: list[dict[str, Any]]) -> None:
    assert above_zero(metric(metrics, "glaim_rows_total")) == Counter(row["method"] for row in rows)
    filled = [row for row in rows if not row["observed"] and row["value"] is not None]
    assert len(filled) > 500
    assert sum(metric(metrics, "glaim_filled_rows_total").values()) == len(filled)
    withheld = [row for row in rows if row["value"] is None]
    assert sum(metric(metrics, "glaim_withheld_rows_total").values()) == len(withheld) > 0
    assert metric(metrics, "glaim_revisions_total")[()] == sum(row["revision"] > 0 for row in rows)
    records = sum(len(part) for part in read_topic(settings, settings.input_topic).values())
    assert metric(metrics, "glaim_records_total")[()] == records


def check_letters(settings: Settings, metrics: str) -> None:
    causes = Counter(
        dict(letter.headers)["glaim-cause"].decode()
        for part in read_topic(settings, settings.dlq_topic).values()
        for letter in part
    )
    assert causes == {cause: len(records) for cause, records in FAULTY.items()}
    assert above_zero(metric(metrics, "glaim_dead_letters_total")) == causes
    late = [letter for part in read_topic(settings, settings.late_topic).values() for letter in part]
    positions = [json.loads(dict(letter.headers)["glaim-positions"]) for letter in late]
    assert metric(metrics, "glaim_late_readings_total")[()] == sum(map(len, positions)) == 2


def check_scores(settings: Settings, metrics: str) -> None:
    """Errors, questions and intervals of each sensor are the sums of the records of live accuracy."""
    newest = {each.key: each.value for part in read_topic(settings, settings.quality_topic).values() for each in part}
    counts, errors = defaultdict[tuple[str, ...], int](int), defaultdict[tuple[str, ...], float](float)
    for document in map(json.loads, filter(None, newest.values())):
        for each in document["sensors"] if document["source"] == "hidden" else ():
            for method, score in each["methods"].items():
                name = {"published": "blend", "gaussian": "gaussian"}.get(method, "baseline")
                key = (name, document["model"], each["position"], each["sensor"])
                counts[key] += score["count"]
                errors[key] += score["count"] * (score["mae"] or 0.0)
    questions, error = metric(metrics, "glaim_score_questions_total"), metric(metrics, "glaim_score_error_total")
    exact = {key for key in questions if key[3] != "tank_level"}
    assert {key[0] for key in exact} == {"blend", "gaussian", "baseline"}
    assert {key: questions[key] for key in exact if questions[key]} == {
        key: count for key, count in counts.items() if key in exact and count
    }
    assert sum(questions[key] for key in exact) > 5000
    for key in exact:
        assert error[key] == pytest.approx(errors.get(key, 0.0), rel=1e-6, abs=1e-9), key


def check_errors(metrics: str, rows: list[dict[str, Any]], stream: Stream) -> None:
    """The errors of live accuracy resemble those on the readings that were never sent."""
    questions, error = metric(metrics, "glaim_score_questions_total"), metric(metrics, "glaim_score_error_total")
    for position, kind in (("edge", 1), ("interior", 2)):
        ratios = []
        for sensor in stream.sensors:
            off = [
                abs(row["value"] - stream.truth[cell])
                for row in rows
                if row["sensor"] == sensor and kind_of(row) == kind and row["value"] is not None
                and (cell := (row["group"], sensor, row["ts"])) in stream.truth.keys() - stream.sent
            ]  # fmt: skip
            assert len(off) > 30
            key = ("blend", "plant-pump", position, sensor)
            ratios.append(error[key] / questions[key] / np.mean(off))
        assert 0.6 < np.median(ratios) < 1.6, (position, ratios)
        assert 0.25 < min(ratios) < max(ratios) < 4, (position, ratios)
