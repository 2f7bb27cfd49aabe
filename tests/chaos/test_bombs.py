"""Small records that would fill the memory: the worker stays within its budgets, and the rest of the stream flows."""

import asyncio
import json
from pathlib import Path

import pytest

from deploy.kafka import ExternalKafka, LocalKafka
from tests.chaos.conftest import MakeScenario
from tests.chaos.stream import START_MS, STEP_MS, Message, Sent, messages
from tests.decode.bombs import HEADERS, bombs
from tests.integration.test_damaged_records import produce, unknown_readings
from tests.integration.worker_process import WorkerProcess
from tests.kafka.batches import GZIP, PACK, batch, record

MOST_MB = 600
NAMES = 40_000  # a partition has windows for 10,000 groups
WIDE = 40  # messages with more rejected readings than headers could list

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


def peak_mb(worker: WorkerProcess) -> float:
    """The largest resident memory of the process so far, as the kernel counts it."""
    lines = Path(f"/proc/{worker.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM:"))


def new_names(step: int) -> Sent:
    """A reading of each of many groups that the catalogue's pattern admits."""
    ts = START_MS + step * STEP_MS
    names = (f"g-{number}" for number in range(NAMES))
    return [
        (name.encode(), json.dumps({"group": name, "sensor": "s0", "ts": ts, "value": 1.0}).encode(), [])
        for name in names
    ]


def test_records_that_would_fill_the_memory(kafka: LocalKafka | ExternalKafka, scenario: MakeScenario) -> None:
    run = scenario(
        kafka.bootstrap_servers,
        "Arrow that expands a million-fold, 40,000 new group names, gzip of 60 MB",
        partitions=1,
        kafka_extra={"max_poll_records": 20_000},
    )
    good = messages(steps=60, seed=31, bad=False)
    arrow: Sent = [(b"g0", value, HEADERS) for value in bombs().values()]
    wide: Message = (b"g0", unknown_readings(240_000), HEADERS)
    worker = run.worker()
    with run.streaming(good[: len(good) // 2], rate_per_s=100_000):
        run.wait(total=len(good) // 2)
    rest_mb = peak_mb(worker)
    with run.streaming([*arrow, *[wide] * WIDE, *new_names(step=59), *good[len(good) // 2 :]], rate_per_s=100_000):
        pass
    bomb = record(0, bytes(60_000_000))
    asyncio.run(produce(run.settings, [batch([bomb], attributes=GZIP, body=PACK["gzip"][1](bomb))]))
    run.sent += 1
    run.wait(total=run.sent)
    run.extra = {"peak_mb": {"before": round(rest_mb), "after": round(peak_mb(worker))}}
    assert peak_mb(worker) < MOST_MB, run.extra
    run.stop()
    causes = [headers["glaim-cause"] for headers in run.dead_letters()]
    assert causes.count(b"unknown-sensor") >= WIDE
    assert causes.count(b"too-many-groups") > NAMES // 2
    assert causes.count(b"unreadable") == 1
    run.end()
