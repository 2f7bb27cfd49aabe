"""Learns closed forms while the worker runs, for the models of the catalogue with `learn: true`.

`glaim-stream learn` runs as a process of the lowest priority with a limited memory and time, so that neither the event
loop nor the rows wait for it. It reads the input topic and not the windows, so a worker that has just started, or that
has one partition of many, learns from everything that the topic holds.

While there is no form, a worker begins with a short learning: as soon as it starts, from few records and the fewest
rows that can be tried. It takes seconds, so that a worker that is killed every minute gets a form too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glaim_stream.core import metrics
from glaim_stream.core.catalogue import Catalogue, Model
from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.settings import Settings
from glaim_stream.core.times import text_of_ms
from glaim_stream.models import can_write, form_folder

log = logging.getLogger(__name__)

CHECK_INTERVAL_S = 5.0
FIRST_WINDOWS = 2  # windows that the first fit needs
# Limits of the short learning. 288 rows of 20 groups with 8 sensors are fitted in 0.6 s, 400 rows in 19 s.
_SHORT_WINDOWS = 3
_SHORT_RECORDS = 300_000
LAST_DOUBLING = 16  # windows; with more rows a form is learned every hour
HOUR_S = 3600.0
_RETRY_S = 60.0  # pause after a failure; it doubles with each further one, up to an hour

# Limits of one run. 12,000 windows of 8 sensors take 40 s of a core and 1.1 GB.
_DEADLINE_S = 900.0
_MEMORY_BYTES = 2 << 30
_NEWEST_RECORDS = 3_000_000
_MOST_READINGS = 4_000_000
_LOWEST_PRIORITY = 19
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass
class Schedule:
    """The schedule of one model's learning: by event time while it has few rows, then by the hour.

    Attributes:
        due_ms: event time from which the stream has twice the rows of the last learning; None: learned every hour.
        earliest_s: monotonic time before which it is not learned again.
        began: True after the short learning, or if there was a form.
    """

    due_ms: int | None = 0
    earliest_s: float = 0.0
    failures: int = 0
    began: bool = False

    def due(self, newest_ms: int, now_s: float) -> bool:
        """Whether to learn now.

        Args:
            newest_ms: newest event time of the stream.
            now_s: monotonic clock.
        """
        return now_s >= self.earliest_s and (self.due_ms is None or newest_ms >= self.due_ms)

    def learned(self, model: Model, rows: int, until_ms: int, now_s: float) -> None:
        """Set the next time after a learning that found so many rows, the last of which ends at `until_ms`."""
        self.failures = 0
        windows = FIRST_WINDOWS
        while windows * model.window <= rows:
            windows *= 2
        if windows > LAST_DOUBLING:
            self.due_ms, self.earliest_s = None, now_s + HOUR_S
        else:
            self.due_ms, self.earliest_s = until_ms + (windows * model.window - rows) * model.step_ms, now_s

    def failed(self, now_s: float) -> None:
        """Set the next time after a failure."""
        self.earliest_s = now_s + min(HOUR_S, _RETRY_S * 2.0 ** min(self.failures, 10))
        self.failures += 1


async def learn_live(settings: Settings, catalogue: Catalogue, newest_ms: Callable[[], int | None]) -> None:
    """Learn the models of the catalogue that ask for it, one at a time, until cancelled.

    Args:
        settings: the worker's settings.
        catalogue: the models.
        newest_ms: returns the newest event time of the worker's partitions; None while there is none.
    """
    # Chosen once, as the imputer does, because a form may appear in a repository that cannot be written.
    folders = {
        model.name: form_folder(settings.model_repository, model.name, learned=True)
        for model in catalogue.models
        if model.learn
    }
    models = [each for each in catalogue.models if each.learn and _can_learn(settings, each, folders[each.name])]
    schedules = {model.name: Schedule() for model in models}
    while models:
        for model in models:
            newest, schedule = newest_ms(), schedules[model.name]
            short = not schedule.began and not (folders[model.name] / FORM_FILE).exists()
            schedule.began = True
            if short or (newest is not None and schedule.due(newest, time.monotonic())):
                await _learn(settings, model, folders[model.name], schedule, short=short)
        await asyncio.sleep(CHECK_INTERVAL_S)


def _can_learn(settings: Settings, model: Model, folder: Path) -> bool:
    if settings.trust.key is not None:
        log.warning("model %s is not learned: GLAIM_MANIFEST_KEY is set, and it would have no signature", model.name)
        return False
    if not can_write(folder):
        log.info("model %s is not learned: %s cannot be written and has a closed form", model.name, folder)
        return False
    if folder.parent != settings.model_repository:
        log.warning(
            "model %s is learned in %s, for this worker alone and until it stops: %s cannot be written",
            model.name, folder, settings.model_repository / model.name,
        )  # fmt: skip
    return True


async def _learn(settings: Settings, model: Model, folder: Path, schedule: Schedule, *, short: bool) -> None:
    """Learn a model; the outcome of a short learning leaves the schedule as it is, so that a whole one follows."""
    start_s, first = time.monotonic(), not (folder / FORM_FILE).exists()
    try:
        outcome = await _outcome(settings, model, folder, short=short)
    except (OSError, ValueError, TimeoutError) as error:
        if short:  # the topic may be empty yet
            log.info("model %s could not be learned: %s", model.name, error or "it took too long")
            return
        schedule.failed(time.monotonic())
        metrics.form_learnings.labels(model.name, "failed").inc()
        log.warning("model %s could not be learned: %s", model.name, error or "it took too long")
        return
    if not short:
        schedule.learned(model, outcome["rows"], outcome["until_ms"], time.monotonic())
    elif not outcome["chosen"]:
        return
    metrics.form_learnings.labels(model.name, "placed" if outcome["chosen"] else "kept").inc()
    placed = f"the closed form {outcome['digest'][:8]} is placed" if outcome["chosen"] else "nothing is placed"
    log.info(
        "model %s was learned from %d rows in %.1f s: %s; %s", model.name, outcome["rows"],
        time.monotonic() - start_s, placed, outcome["reason"],
    )  # fmt: skip
    if first and outcome["chosen"] and folder.parent == settings.model_repository:  # where a replay finds it
        since = text_of_ms(outcome["until_ms"] - outcome["rows"] * model.step_ms)
        log.info(
            "holes of model %s before its first form keep their values, except newest ones: `glaim-stream replay "
            "--since %s --out rows.parquet` fills them with it", model.name, since,
        )  # fmt: skip


async def _outcome(settings: Settings, model: Model, folder: Path, *, short: bool) -> dict[str, Any]:
    """Run `glaim-stream learn` and return what it found.

    It is killed when it takes too long or the worker stops, and ends by itself when the worker is killed.
    """
    command = ["learn", "--json", "--while-open", "--model", model.name]
    command += [f"--newest={_SHORT_RECORDS if short else _NEWEST_RECORDS}", f"--most={_MOST_READINGS}"]
    if short:
        command.append(f"--rows={_SHORT_WINDOWS * model.window}")
    if settings.scored:  # recent errors decide the share of it that is used
        command.append("--untried")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "glaim_stream", *command,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=os.environ | _ONE_THREAD | settings.environment | {"GLAIM_MODEL_REPOSITORY": str(folder.parent)},
    )  # fmt: skip
    try:
        _restrain(process.pid)
        async with asyncio.timeout(_DEADLINE_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:  # too late, or the worker stops
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        lines = err.decode(errors="replace").strip().splitlines()
        raise ValueError(f"exit status {process.returncode}: {lines[-1][:500] if lines else 'without a message'}")
    found: dict[str, Any] = json.loads(out)
    return found


def _restrain(pid: int) -> None:
    """Make the process yield to the worker: lowest priority, limited memory, first to be killed where it is short."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _LOWEST_PRIORITY)
        if sys.platform == "linux":
            resource.prlimit(pid, resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
