"""A Triton that hangs under load: the partitions pause, the worker's memory does not grow, and it resumes afterwards.

`GLAIM_CHAOS_HANG_S=600 make chaos CHAOS=tests/chaos/test_memory.py` hangs for ten minutes instead of one.
"""

import os
import time
from pathlib import Path

import pytest

from deploy.kafka import ExternalKafka, LocalKafka
from deploy.triton import LocalTriton
from glaim_stream.feed import hide, plant_source
from tests.chaos.conftest import MakeScenario, port_of
from tests.chaos.harness import TIMEOUT_S
from tests.chaos.proxy import Proxy
from tests.integration.worker_process import WorkerProcess

HANG_S = float(os.environ.get("GLAIM_CHAOS_HANG_S", "60"))
PUMPS, SENSORS = 200, 8
RATE_PER_S = 5000
# Few holes, because each one is a window to impute once the server is back.
HOLES = 0.003

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900 + 4 * HANG_S)]


def resident_mb(worker: WorkerProcess) -> float:
    pages = int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.parametrize("waits", [True, False], ids=["longer-deadline", "deadline-expires"])
def test_memory_stays_bounded_while_triton_hangs_under_load(
    waits: bool, kafka: LocalKafka | ExternalKafka, plant_scenario: MakeScenario, disposable_triton: LocalTriton
) -> None:
    with Proxy(port_of(disposable_triton.grpc_url)) as proxy:
        run = plant_scenario(
            kafka.bootstrap_servers,
            f"Triton hangs for {HANG_S:.0f} s under {RATE_PER_S:,} readings/s, "
            + ("longer deadline" if waits else "deadline 5 s"),
            triton=proxy.address,
            triton_deadline_s=HANG_S + 900 if waits else 5,
        )
        speed = RATE_PER_S * 60 / (PUMPS * SENSORS)
        whole = plant_source(days=(HANG_S + 15) * speed / 86_400, groups=PUMPS, seed=4)
        source = whole.where(~hide(whole, HOLES, seed=4).mask)
        worker = run.worker()
        with run.replaying(source, speed=speed):
            run.wait(additional=5 * RATE_PER_S)
            proxy.hold()
            samples, consumed = [], []
            start_s = time.monotonic()
            while time.monotonic() < start_s + HANG_S:
                samples.append(resident_mb(worker))
                consumed.append(run.metric(worker, "glaim_records_total"))
                time.sleep(1)
            proxy.heal()
            run.wait(total=len(source), timeout_s=TIMEOUT_S + 2 * HANG_S)
        after_mb = resident_mb(worker)
        run.stop()
    third = len(samples) // 3
    run.extra = {
        "resident_mb": {
            "before": round(samples[0]),
            "max, first third": round(max(samples[:third])),
            "max, last third": round(max(samples[-third:])),
            "after": round(after_mb),
        },
        "records during hang": round(consumed[-1] - consumed[0]),
    }
    run.end()
    # Only memory is asserted, not time: the backlog stays in Kafka.
    assert max(samples[-third:]) < 1.15 * max(samples[:third]) + 20
    if waits:
        assert consumed[-1] == consumed[len(consumed) // 2], "the partitions must be paused"
        assert run.count_in_logs("fills in") == 0
    else:
        assert consumed[-1] > consumed[len(consumed) // 2], "records must continue after the deadline"
