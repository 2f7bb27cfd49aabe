"""The gauge of holds follows rollbacks and releases of the repository."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from glaim_stream.core import metrics
from glaim_stream.models import open_store, release
from glaim_stream.models.hold import hold
from glaim_stream.worker import holds as module
from glaim_stream.worker.holds import watch_holds
from tests.support import until


def since_s(model: str) -> float | None:
    return REGISTRY.get_sample_value("glaim_model_held_timestamp_seconds", {"model": model})


@asynccontextmanager
async def watching(repository: Path) -> AsyncIterator[None]:
    metrics.model_held_seconds.clear()
    task = asyncio.create_task(watch_holds(repository, ["pump", "fan"], interval_s=0.01))
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "models" / "pump").mkdir(parents=True)
    return tmp_path / "models"


async def test_a_hold_is_shown_until_it_is_released(repository: Path) -> None:
    store = open_store(str(repository))
    async with watching(repository):
        await asyncio.sleep(0.05)
        assert since_s("pump") is None
        hold(store, "pump", [8], 7, 5_000)
        await until(lambda: since_s("pump") == 5)
        hold(store, "pump", [7], 6, 9_000)
        await asyncio.sleep(0.05)
        assert since_s("pump") == 5, "a second rollback does not begin a new hold"
        assert since_s("fan") is None
        release(store, "pump")
        await until(lambda: since_s("pump") is None)


async def test_a_hold_that_cannot_be_read_counts_from_its_file(repository: Path) -> None:
    file = repository.with_name("models.withdrawn") / "pump" / "hold.json"
    file.parent.mkdir(parents=True)
    file.write_text("{")
    os.utime(file, (77, 77))
    async with watching(repository):
        await until(lambda: since_s("pump") == 77)


async def test_a_repository_that_cannot_be_read_changes_nothing(
    repository: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stale(*arguments: object) -> None:
        raise OSError(116, "Stale file handle")

    hold(open_store(str(repository)), "pump", [8], 7, 5_000)
    async with watching(repository):
        await until(lambda: since_s("pump") == 5)
        monkeypatch.setattr(module, "_holds", stale)
        await until(lambda: "Stale file handle" in caplog.text)
        assert since_s("pump") == 5
