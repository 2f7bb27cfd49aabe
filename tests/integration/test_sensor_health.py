"""Faulty sensors are reported on their topic by a real worker, and by one that was killed in between alike."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.core.times import text_of_ms
from glaim_stream.feed import Source, plant_source, produce
from glaim_stream.feed.plant import STEP_MS, STEPS_PER_DAY
from glaim_stream.kafka import ensure_topics
from tests.integration.worker_process import WorkerProcess, call_command, plant_settings, wait_until_committed

LEARNED, STEPS, START, LASTS = 2 * STEPS_PER_DAY, 640, 230, 130


def plant() -> Source:
    """Two pumps whose stamps come up to two seconds late: so the learned table tells something of their clocks."""
    made = plant_source(days=(LEARNED + STEPS) / STEPS_PER_DAY, groups=2, seed=11)
    return replace(made, time_ms=made.time_ms + np.random.default_rng(1).integers(0, 2_000, len(made.time_ms)))


def step_of(source: Source) -> np.ndarray:
    return source.time_ms // STEP_MS - int(source.time_ms.min()) // STEP_MS


def faulty(source: Source) -> Source:
    """The first pump's faults one after the other, and an outage of all sensors of the second but one."""
    step, value = step_of(source) - LEARNED, source.value.copy()
    first, second = list(dict.fromkeys(group for group, _ in source.cells))
    cells = {cell: code for code, cell in enumerate(source.cells)}
    during = (step >= START) & (step < START + LASTS)

    def of(sensor: str, later: int) -> np.ndarray:
        """Readings of a sensor of the first pump; faults that begin together would be one event."""
        mask: np.ndarray = during & (step >= START + later) & (source.cell == cells[first, sensor])
        return mask

    frozen, limit, spiky = of("flow", 0), of("speed", 20), of("tank_level", 40)
    value[frozen] = value[frozen][0]
    value[limit] = value[source.cell == cells[first, "speed"]].max()
    level = value[source.cell == cells[first, "tank_level"]]
    inwards = -np.sign(value[spiky] - level.mean())  # a reading beyond the catalogue's limits would be a dead letter
    value[spiky] += 3 * level.std() * inwards * (np.random.default_rng(2).random(int(spiky.sum())) < 0.15)
    time_ms = source.time_ms.copy()
    stutters = of("vibration", 30)
    time_ms[stutters] += np.random.default_rng(4).integers(0, STEP_MS, int(stutters.sum()))
    others = [code for (group, sensor), code in cells.items() if group == second and sensor != "flow"]
    return replace(source, time_ms=time_ms, value=value).where(~(np.isin(source.cell, others) & during))


def write(source: Source, path: Path) -> None:
    lines = ["group,sensor,ts,value"]
    for cell, time_ms, value in zip(source.cell.tolist(), source.time_ms.tolist(), source.value.tolist(), strict=True):
        group, sensor = source.cells[cell]
        lines.append(f"{group},{sensor},{text_of_ms(time_ms)},{value!r}")
    path.write_text("\n".join(lines) + "\n")


def health_events(settings: Settings) -> list[dict[str, Any]]:
    """The events of the topic, in order."""
    records = [record for part in read_topic(settings, settings.health_topic).values() for record in part]
    for record in records:
        assert dict(record.headers)["content-type"] == b"application/json"
        assert json.loads(record.value)["group"].encode() == record.key
    return [json.loads(record.value) for record in records]


@pytest.mark.slow  # quicker: tests/windows/test_sensor_health.py
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_faults_are_reported_once_and_a_killed_worker_reports_the_same(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path, delivery: str
) -> None:
    catalogue, repository = tmp_path / "groups.yaml", tmp_path / "models"
    settings = plant_settings(
        kafka.bootstrap_servers, topic_prefix, imputer="gaussian", partitions=1, delivery=delivery,
        instance_id="worker-0", health_topic=topic_prefix + "health",
        kafka_extra={"session_timeout_ms": 6000, "auto_commit_interval_ms": 100},
    )  # fmt: skip
    text = settings.catalogue.read_text()
    assert "idle_timeout_s: 5 " in text
    catalogue.write_text(text.replace("idle_timeout_s: 5 ", "idle_timeout_s: 100000 "))  # the clock is not in the topic
    settings = settings.model_copy(update={"model_repository": repository, "catalogue": catalogue})
    whole = faulty(plant())
    step = step_of(whole)
    write(whole.where(step < LEARNED), tmp_path / "learned.csv")
    learned = call_command(settings, "learn", "--data", str(tmp_path / "learned.csv"))
    assert learned.returncode == 0, learned.stderr
    assert "it has the habits of the sensors" in learned.stdout

    ensure_topics(settings)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        total = 0
        for first, last in ((LEARNED, LEARNED + START + 60), (LEARNED + START + 60, LEARNED + STEPS)):
            done = produce(settings, whole.where((step >= first) & (step < last)))
            assert done.failed_messages == 0
            total += done.messages
            wait_until_committed(settings, total=total)
            if last < LEARNED + STEPS:
                worker.kill()
                worker.start()
        assert worker.stop() == 0
    events = health_events(settings)
    by_id = {each["id"]: each for each in events}
    assert all(by_id[each["id"]] == each for each in events), "an event that is repeated is the same"
    if delivery == "exactly_once":
        assert len(by_id) == len(events)
    pump, other = list(dict.fromkeys(group for group, _ in whole.cells))
    begins = [each for each in by_id.values() if each["state"] == "begin"]
    begun = {(each["group"], each["kind"], tuple(each["sensors"])) for each in begins}
    assert (pump, "frozen", ("flow",)) in begun
    assert (pump, "limit", ("speed",)) in begun
    assert (pump, "spiking", ("tank_level",)) in begun
    assert (pump, "clock", ("vibration",)) in begun
    outages = [each for each in begun if each[:2] == (other, "outage")]
    assert [len(each[2]) for each in outages] == [7]
    assert {each["detector"] for each in by_id.values() if each["state"] == "end"} >= {
        "runs",
        "silence",
        "jumps",
        "clock",
    }

    # One that was never killed, over the same records:
    again = settings.model_copy(
        update={"consumer_group": topic_prefix + "second", "output_topic": topic_prefix + "out-2",
                "health_topic": topic_prefix + "health-2", "topic_names": {"outages": topic_prefix + "outages-2"}}
    )  # fmt: skip
    ensure_topics(again)
    with WorkerProcess(again, tmp_path / "second.log") as worker:
        wait_until_committed(again, total=total)
        assert worker.stop() == 0
    assert {each["id"]: each for each in health_events(again)} == by_id
