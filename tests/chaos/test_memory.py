"""A Triton that hangs under load: the partitions pause, the worker does not grow, and then it goes on.

`GLAIM_CHAOS_HANG_S=600 make chaos CHAOS=tests/chaos/test_memory.py` hangs for ten minutes instead of one.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from deploy.kafka import ExternalKafka, LocalKafka
from deploy.triton import LocalTriton
from glaim_stream.feed.dropouts import hide
from glaim_stream.feed.sources import plant_source
from tests.chaos.conftest import MakeScenario, port_of
from tests.chaos.harness import PATIENCE_S
from tests.chaos.proxy import Proxy
from tests.integration.worker_process import WorkerProcess

HANG_S = float(os.environ.get("GLAIM_CHAOS_HANG_S", "60"))
PUMPS, SENSORS = 200, 8
RATE_PER_S = 5000
# A few steps are withheld, since every hole is a window to impute once the server is back.
HOLES = 0.003

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900 + 4 * HANG_S)]


def resident_mb(worker: WorkerProcess) -> float:
    pages = int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.parametrize("waits", [True, False], ids=["and-the-worker-waits", "and-its-deadline-passes"])
def test_a_triton_that_hangs_under_load_does_not_grow_the_worker(
    waits: bool, kafka: LocalKafka | ExternalKafka, plant_scenario: MakeScenario, own_triton: LocalTriton
) -> None:
    with Proxy(port_of(own_triton.grpc_url)) as proxy:
        it = plant_scenario(
            kafka.bootstrap_servers,
            f"Triton hangs for {HANG_S:.0f} s under {RATE_PER_S:,} readings/s, "
            + ("deadline longer than that" if waits else "deadline 5 s"),
            triton=proxy.address,
            triton_deadline_s=HANG_S + 900 if waits else 5,
        )
        speed = RATE_PER_S * 60 / (PUMPS * SENSORS)
        whole = plant_source(days=(HANG_S + 15) * speed / 86_400, groups=PUMPS, seed=4)
        source = whole.where(~hide(whole, HOLES, seed=4).mask)
        worker = it.worker()
        with it.replaying(source, speed=speed):
            it.wait(more=5 * RATE_PER_S)
            proxy.hold()
            samples, taken = [], []
            start_s = time.monotonic()
            while time.monotonic() < start_s + HANG_S:
                samples.append(resident_mb(worker))
                taken.append(it.measured(worker, "glaim_records_total"))
                time.sleep(1)
            proxy.heal()
            it.wait(all_of=len(source), patience_s=PATIENCE_S + 2 * HANG_S)
        samples_after = resident_mb(worker)
        it.stop()
    third = len(samples) // 3
    it.more = {
        "resident_mb": {
            "before": round(samples[0]),
            "first third, most": round(max(samples[:third])),
            "last third, most": round(max(samples[-third:])),
            "after": round(samples_after),
        },
        "taken while it hung": round(taken[-1] - taken[0]),
    }
    it.end()
    # Time is what the worker cannot be asked for here, but room is: what waits, waits in Kafka.
    assert max(samples[-third:]) < 1.15 * max(samples[:third]) + 20
    if waits:
        assert taken[-1] == taken[len(taken) // 2], "the partitions are paused"
        assert it.said("fills in") == 0
    else:
        assert taken[-1] > taken[len(taken) // 2], "what the deadline lets go flows on"
