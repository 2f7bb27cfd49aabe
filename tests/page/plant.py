"""The shipped plant in a worker of this process, with its closed form as the imputer."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from deploy.cache import CHECKOUT
from glaim_stream.build import create_pipeline
from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.settings import Settings
from tests.page.worker import PagedWorker, paged_worker

CATALOGUE = CHECKOUT / "deploy" / "catalogues" / "plant.yaml"
SENSORS = 8
_STEP_MS = 60_000
_START = 29_000_000  # a step in 2025


@asynccontextmanager
async def plant(*, health: bool = False, board_runs: bool = True) -> AsyncIterator[PagedWorker]:
    """Run a worker for the shipped plant, which judges the health of its sensors where that is asked for."""
    settings = Settings(
        catalogue=CATALOGUE,
        model_repository=CHECKOUT / "model_repo",
        imputer="gaussian",
        health_topic="sensor-health" if health else "",
    )
    pipeline, _ = create_pipeline(settings)
    async with paged_worker(pipeline=pipeline, board_runs=board_runs) as it:
        yield it


def plant_readings(first: int, last: int, groups: int = 4, hidden: float = 0.12) -> list[dict[str, Any]]:
    """Readings of some pumps over some minutes; each is missing with probability `hidden`, the same at every call."""
    sensors = read_catalogue(CATALOGUE).models[0].sensors
    sent = []
    for step in range(first, last):
        chance = np.random.default_rng(step).random((groups, len(sensors)))
        for group in range(groups):
            load = 0.5 + 0.3 * math.sin((step + 7 * group) / 14) + 0.05 * math.sin(step / 3)
            for place, sensor in enumerate(sensors):
                low, high = sensor.limits
                if chance[group, place] >= hidden:
                    value = low + (high - low) * (0.25 + 0.4 * load + 0.02 * chance[group, place])
                    ts = (_START + step) * _STEP_MS
                    sent.append({"group": f"pump-{group + 1}", "sensor": sensor.id, "ts": ts, "value": value})
    return sent
