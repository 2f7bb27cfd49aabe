"""What the app reports to the health: here, by how much its event loop is late."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import faust
import pytest
from prometheus_client import REGISTRY

from glaim_stream.worker import health_watch
from glaim_stream.worker.health import Health


class App:
    """As much of a Faust app as is hooked into."""

    def __init__(self) -> None:
        self.tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
        self.agents: dict[str, Any] = {}
        self.should_stop = False
        self.on_partitions_assigned = SimpleNamespace(connect=lambda **_: lambda hook: hook)

    def task(self, made: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Coroutine[Any, Any, None]]:
        self.tasks[made.__name__] = made
        return made


def delays() -> tuple[float, float]:
    name = "glaim_loop_delay_seconds"
    return REGISTRY.get_sample_value(f"{name}_count") or 0.0, REGISTRY.get_sample_value(f"{name}_sum") or 0.0


async def test_the_delay_of_the_loop_is_what_a_beat_took_beyond_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    app, health, paused_s = App(), Health(), iter([0.0, 1.0, 1.75, 0.5])

    async def no_time(_: float) -> None:
        app.should_stop = left() == 0

    left = paused_s.__length_hint__
    monkeypatch.setattr(health, "beat", lambda *, agent_works: next(paused_s))
    monkeypatch.setattr(health_watch, "asyncio", SimpleNamespace(sleep=no_time))
    health_watch.watch(cast(faust.App, app), health, {}, None, {}, AsyncMock())
    count, total = delays()
    await asyncio.wait_for(app.tasks["beat"](), 5)
    assert delays() == (count + 4, pytest.approx(total + 0.75))
