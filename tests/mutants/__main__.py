"""Measures how many small code changes the unit tests detect: `python -m tests.mutants glaim_stream/windows`."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.cache import CHECKOUT
from tests.chaos.table import machine
from tests.mutants.mutations import Mutant, mutants
from tests.mutants.trial import KILLED, NO_TESTS, SURVIVED, TIMED_OUT, Copy, digest_of, preload, unit_tests_of

RESULTS = Path(os.environ.get("GLAIM_MUTANT_RESULTS", CHECKOUT / "build" / "mutants.jsonl"))  # a line per mutant
PAGE = CHECKOUT / "docs" / "mutants.md"


@dataclass(frozen=True)
class Task:
    """One mutant to try."""

    module: Path
    digest: str
    mutant: Mutant

    @property
    def key(self) -> tuple[str, str, int]:
        """Identifies the trial: the same key has the same outcome."""
        return (str(self.module), self.digest, self.mutant.number)


def modules_in(names: list[str]) -> list[Path]:
    """The Python files in these files and folders, relative to the checkout."""
    files = [
        file
        for name in names
        for file in (sorted((CHECKOUT / name).rglob("*.py")) if (CHECKOUT / name).is_dir() else [CHECKOUT / name])
    ]
    return [file.relative_to(CHECKOUT) for file in files if file.read_text().strip()]


def tasks_of(modules: list[Path], sample: int | None, seed: int) -> list[Task]:
    """The mutants to try, in an order that depends only on the seed.

    The order mixes modules, so that a run that stops early has tried some mutants of each.
    """
    tasks = [
        Task(module, digest_of(module), mutant)
        for module in modules
        for mutant in mutants((CHECKOUT / module).read_text(), sample=sample, seed=f"{seed} {module}")
    ]
    random.Random(seed).shuffle(tasks)
    return tasks


def results() -> dict[tuple[str, str, int], dict[str, Any]]:
    """The results of earlier runs."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {(line["module"], line["digest"], line["number"]): line for line in map(json.loads, lines)}


def work(tasks: list[Task], end_s: float) -> None:
    """Try mutants one by one until the time is up; append one line per mutant."""
    with tempfile.TemporaryDirectory(prefix="glaim-mutants-") as folder, RESULTS.open("a") as file:
        copy = Copy(Path(folder) / "checkout")
        for task in tasks:
            if time.monotonic() > end_s:
                return
            outcome = copy.trial(task.module, task.mutant.source)
            module, digest, number = task.key
            line = {"module": module, "digest": digest, "number": number, "outcome": outcome}
            file.write(json.dumps(line | {"line": task.mutant.line, "change": task.mutant.change}) + "\n")
            file.flush()


def table(modules: list[Path], tasks: list[Task]) -> str:
    """Return the Markdown table: mutants tried and killed per module."""
    known = results()
    rows = ["| module | mutants | killed | % |", "|---|---:|---:|---:|"]
    total = total_killed = 0
    for module in modules:
        outcomes = [known[task.key]["outcome"] for task in tasks if task.module == module and task.key in known]
        killed = sum(outcome in (KILLED, TIMED_OUT) for outcome in outcomes)
        total, total_killed = total + len(outcomes), total_killed + killed
        if outcomes and NO_TESTS in outcomes:
            rows.append(f"| `{module}` | {len(outcomes)} | no unit tests | |")
        elif outcomes:
            rows.append(f"| `{module}` | {len(outcomes)} | {killed} | {100 * killed / len(outcomes):.0f} |")
    rows.append(f"| **all** | {total} | {total_killed} | {100 * total_killed / max(total, 1):.0f} |")
    return "\n".join(rows) + "\n"


def page(command: str, modules: list[Path], tasks: list[Task]) -> str:
    """The document that holds the table."""
    known = results()
    tried = sum(task.key in known for task in tasks)
    progress = "" if tried == len(tasks) else f", stopped after {tried} of {len(tasks)} mutants"
    measured = f"`{command}`{progress}, {machine()}, {time.strftime('%Y-%m-%d', time.gmtime())}"
    return f"""# Mutants

A mutant is a copy of a module with one small change: a comparison flipped, a number off by one, `and` for `or`, a `not`
left out, another arithmetic operator, a keyword argument dropped, `None` returned, or a call left out. The unit tests
of the module's package run on it, without a broker or a Triton. If one fails or hangs, the mutant is killed. A mutant
that survives is a change that no unit test notices; a few survivors cannot be noticed, because they change nothing.
[testing.md](testing.md) says how to run it.

{measured}:

{table(modules, tasks)}"""


def main() -> int:
    """Try mutants, write the table, and list the survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", default=["glaim_stream"], help="files and folders (default: glaim_stream)"
    )
    parser.add_argument("--sample", type=int, help="number of mutants per module (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the sample (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="time limit; the next run continues from there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once (default: %(default)s)")
    parser.add_argument("--page", type=Path, default=PAGE, help="the document to write (default: docs/mutants.md)")
    options = parser.parse_args()
    modules = modules_in(options.modules)
    tasks = tasks_of(modules, options.sample, options.seed)
    done = results()
    left = [task for task in tasks if task.key not in done]
    print(f"{len(tasks)} mutants of {len(modules)} modules, {len(left)} not tried yet", flush=True)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    end_s = time.monotonic() + options.minutes * 60
    preload()
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=work, args=(left[first :: options.jobs], end_s)) for first in range(options.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    done = results()
    for task in sorted(tasks, key=lambda task: (task.module, task.mutant.line)):
        if task.key in done and done[task.key]["outcome"] == SURVIVED:
            print(f"{task.module}:{task.mutant.line}: {task.mutant.change}")
    untested = [str(module) for module in modules if not unit_tests_of(module)]
    if untested:
        print(f"no unit tests by convention: {', '.join(untested)}")
    sampled = f" SAMPLE={options.sample}" if options.sample else ""
    named = f" MODULES='{' '.join(options.modules)}'" if options.modules != ["glaim_stream"] else ""
    options.page.write_text(page(f"make mutants{named}{sampled}", modules, tasks))
    print(f"wrote {options.page}")
    return 1 if any(worker.exitcode for worker in workers) else 0


if __name__ == "__main__":
    raise SystemExit(main())
