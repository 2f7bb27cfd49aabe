"""Learning while the worker runs: its times, its process, and its failures."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.settings import Settings
from glaim_stream.worker import live_learning
from glaim_stream.worker.live_learning import HOUR_S, Schedule, learn_live
from tests.support import catalogue

RULES = catalogue(window=10, max_gap=4, revise_after=2, step_s=60, learn=True)
(MODEL,) = RULES.models
STEP_MS = MODEL.step_ms


def test_it_is_due_at_the_first_reading_and_then_at_two_four_eight_and_sixteen_windows_and_every_hour() -> None:
    schedule = Schedule()
    assert schedule.due(1, 0.0)
    rows, found = 7, []
    while schedule.due_ms is not None:
        schedule.learned(MODEL, rows, rows * STEP_MS, 0.0)
        if schedule.due_ms is not None:
            assert not schedule.due(schedule.due_ms - 1, 0.0)
            assert schedule.due(schedule.due_ms, 0.0)
            rows = schedule.due_ms // STEP_MS
            found.append(rows)
    assert found == [20, 40, 80, 160]
    assert not schedule.due(10**15, HOUR_S - 1)
    assert schedule.due(0, HOUR_S)


def test_failures_are_repeated_at_growing_distances() -> None:
    schedule, now_s, pauses = Schedule(), 0.0, []
    for _ in range(2_000):
        schedule.failed(now_s)
        assert not schedule.due(1, schedule.earliest_s - 1)
        pauses.append(schedule.earliest_s - now_s)
        now_s = schedule.earliest_s
    assert pauses[:8] == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert set(pauses[8:]) == {3600}
    schedule.learned(MODEL, 7, 0, now_s)
    schedule.failed(now_s)
    assert schedule.earliest_s == now_s + 60


def program(body: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with which another program runs in place of `glaim-stream learn`; `python -m glaim_stream` finds it."""
    (directory / "glaim_stream").mkdir()
    (directory / "glaim_stream" / "__init__.py").touch()
    (directory / "glaim_stream" / "__main__.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(directory))
    monkeypatch.chdir(directory)
    monkeypatch.setattr(live_learning, "CHECK_INTERVAL_S", 0.01)
    return Settings(model_repository=directory / "models")


async def run_until(settings: Settings, file: Path) -> None:
    """Run the learning until its program has written a file, and then cancel it."""
    task = asyncio.create_task(learn_live(settings, RULES, lambda: 1))
    while not file.exists() and not task.done():  # noqa: ASYNC110, ASYNC240  another process writes it
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_process_has_the_lowest_priority_one_thread_and_a_limited_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
import json, os, pathlib, resource, sys, time
while os.nice(0) != 19 or open("/proc/self/oom_score_adj").read().strip() != "1000":
    time.sleep(0.01)
found = {"arguments": sys.argv[1:], "threads": os.environ["OPENBLAS_NUM_THREADS"],
         "memory": resource.getrlimit(resource.RLIMIT_DATA)[0], "models": os.environ["GLAIM_MODEL_REPOSITORY"]}
pathlib.Path("partial").write_text(json.dumps(found))
os.rename("partial", "found")
"""
    settings = program(body, tmp_path, monkeypatch)
    if sys.platform != "linux":
        pytest.skip("limits of other systems differ")
    await run_until(settings, tmp_path / "found")
    found = json.loads((tmp_path / "found").read_text())
    assert (found["threads"], found["memory"]) == ("1", 2 << 30)
    assert found["models"] == str(tmp_path / "models")
    assert found["arguments"][:5] == ["learn", "--json", "--while-open", "--model", MODEL.name]
    assert found["arguments"][-1] == "--untried"  # because the blend judges it


async def test_without_a_form_a_short_learning_comes_first_and_does_not_wait_for_a_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
import pathlib, sys
with pathlib.Path("runs").open("a") as file:
    print(*sys.argv[1:], file=file)
sys.exit("the topic is empty")
"""
    settings = program(body, tmp_path, monkeypatch)
    newest: list[int] = []
    task = asyncio.create_task(learn_live(settings, RULES, lambda: newest[0] if newest else None))

    async def run(number: int) -> str:
        file = tmp_path / "runs"
        while not file.exists() or file.read_text().count("\n") < number:
            assert not task.done()
            await asyncio.sleep(0.01)
        return file.read_text().splitlines()[number - 1]

    assert "--rows=30" in await run(1)
    newest.append(1)
    assert "--rows" not in await run(2), "no pause follows a short one"
    task.cancel()
    (tmp_path / "models" / MODEL.name).mkdir(parents=True)
    (tmp_path / "models" / MODEL.name / FORM_FILE).touch()
    (tmp_path / "runs").unlink()
    task = asyncio.create_task(learn_live(settings, RULES, lambda: 1))
    assert "--rows" not in await run(1)
    task.cancel()


async def test_a_worker_that_stops_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
import os, pathlib, time
pathlib.Path("partial").write_text(str(os.getpid()))
os.rename("partial", "pid")
time.sleep(600)
"""
    settings = program(body, tmp_path, monkeypatch)
    await run_until(settings, tmp_path / "pid")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def learnings(outcome: str) -> float:
    return REGISTRY.get_sample_value("glaim_form_learnings_total", {"model": MODEL.name, "outcome": outcome}) or 0.0


@pytest.mark.parametrize(("chosen", "outcome"), [(True, "placed"), (False, "kept")])
async def test_a_learning_is_counted_by_its_outcome(
    chosen: bool, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = {"rows": 40, "until_ms": 40 * STEP_MS, "digest": "0" * 64, "chosen": chosen, "reason": "it is better"}
    settings = program(f"print({json.dumps(found)!r})", tmp_path, monkeypatch)
    before = {each: learnings(each) for each in ("placed", "kept", "failed")}
    with caplog.at_level("INFO", live_learning.log.name):
        task = asyncio.create_task(learn_live(settings, RULES, lambda: 1))
        while "was learned from 40 rows" not in caplog.text:
            assert not task.done()
            await asyncio.sleep(0.01)
        task.cancel()
    replay = "`glaim-stream replay --since 1970-01-01T00:00:00Z --out rows.parquet` fills them with it"
    assert (replay in caplog.text) == chosen
    assert {name: learnings(name) - then for name, then in before.items()} == {
        each: float(each == outcome) for each in ("placed", "kept", "failed")
    }


async def test_a_failure_is_logged_with_its_message_and_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = program('import sys\nsys.exit("no such topic")', tmp_path, monkeypatch)
    before = learnings("failed")
    task = asyncio.create_task(learn_live(settings, RULES, lambda: 1))
    while "could not be learned" not in caplog.text:
        assert not task.done()
        await asyncio.sleep(0.01)
    assert "exit status 1: no such topic" in caplog.text
    assert learnings("failed") == before + 1
    task.cancel()


async def test_models_that_do_not_ask_for_it_are_not_learned(tmp_path: Path) -> None:
    rules = catalogue(window=10, max_gap=4, revise_after=2)
    await asyncio.wait_for(learn_live(Settings(model_repository=tmp_path), rules, lambda: 1), 5)


async def test_a_signed_repository_is_not_learned_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
    settings = Settings(model_repository=tmp_path, manifest_key=key)
    await asyncio.wait_for(learn_live(settings, RULES, lambda: 1), 5)
    assert "is not learned: GLAIM_MANIFEST_KEY is set" in caplog.text
