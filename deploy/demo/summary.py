"""The results of a run, as summary.json and as a table on the screen."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NotRequired, TypedDict

from rich.console import Console
from rich.table import Table

from deploy.demo.score import ScoreDocument, contenders, gain_percent

MEANING = {
    "readings_in": "readings acknowledged by the input topic; hidden readings were never sent",
    "readings_out": "readings of the input that were published as observed, unchanged",
    "dead_letters": "readings that were rejected or late, with the cause in their headers",
    "lost": "readings that are neither in the output nor in the dead letters, according to glaim-stream audit",
    "holes": "cells (group, sensor, step) for which no reading arrived: hidden ones, and the data's own gaps",
    "filled": "holes by the method of their newest row; none: the gap was too old to be filled",
    "rows_out": "rows on the output topic: readings, first estimates of holes, and their final values",
    "mae": "mean absolute error of final values on hidden cells that were filled, in standard deviations of the "
    "sensor in the training data. model: as published, by any method; gaussian: the closed form alone",
    "final": "the value of a hole after `revise_after` more steps; the baselines used the same steps",
    "provisional": "the value of a hole when its step closed, before any later step was known",
    "latency_ms": "from the timestamp of the newest input record of a row's batch to the row's timestamp in the output "
    "topic, over all rows: waiting in the topic, decoding, windows, model, publishing",
    "readings_per_second": "readings_in divided by the time from the first send to the worker's last commit; limited "
    "by --speed",
}


class Scores(TypedDict):
    """Scores of final and first estimates, and of final estimates by kind of dropout."""

    final: ScoreDocument
    provisional: ScoreDocument
    by_kind: dict[str, ScoreDocument]


class Machine(TypedDict):
    """The machine of a run."""

    cpu: str
    cores: int | None
    system: NotRequired[str]
    python: NotRequired[str]


class AuditDocument(TypedDict):
    """The result of the audit."""

    clean: bool
    counts: NotRequired[dict[str, int]]
    warnings: NotRequired[list[str]]


@dataclass
class Summary:
    """The results of one run; `document` is the content of summary.json."""

    scenario: str
    title: str
    detail: str
    readings_in: int
    readings_out: int
    dead_letters: int
    lost: int
    holes: int
    hidden: int
    filled: Mapping[str, int]
    rows_out: int
    mae: Mapping[str, float]
    scores: Scores
    interval_coverage: Mapping[str, float]
    interval_level: float | None
    latency_ms: Mapping[str, float]
    readings_per_second: float
    speed: float | None
    hours: float
    imputer: str
    kafka: str
    machine: Machine
    date: str
    audit: AuditDocument
    command: str = ""
    arrow_file: str = ""
    arrow_rows: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def document(self) -> dict[str, object]:
        """The results as JSON values; NaN becomes null."""
        return {**{name: _plain(value) for name, value in asdict(self).items()}, "meaning": MEANING}


def write(summary: Summary, path: Path) -> None:
    """Write summary.json."""
    path.write_text(json.dumps(summary.document(), indent=2, allow_nan=False) + "\n")


def machine() -> Machine:
    """The processor and software of this machine, without its host name."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass  # not Linux, or a processor without a name: the architecture has to suffice
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": model, "cores": cores, "system": platform.system(), "python": platform.python_version()}


def show(summary: Summary, console: Console, *, report: Path) -> None:
    """Print the results as tables."""
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim")
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim", overflow="fold")
    filled = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in summary.filled.items() if count)
    lost = f"[{'red' if summary.lost else 'green'}]{summary.lost:,}[/]"
    table.add_row("readings in", f"{summary.readings_in:,}", f"{summary.readings_per_second:,.0f} per second")
    table.add_row("readings out", f"{summary.readings_out:,}", f"in {summary.rows_out:,} rows")
    table.add_row("dead letters", f"{summary.dead_letters:,}", "")
    table.add_row("lost", lost, "")
    table.add_row("holes", f"{summary.holes:,}", f"filled: {filled}")
    latency = summary.latency_ms
    table.add_row("latency", f"{latency['p50']:,.0f} ms", f"median; 99th percentile {latency['p99']:,.0f} ms")
    console.print()
    console.print(table)
    console.print()
    console.print(_errors(summary))
    percent = gain_percent(summary.mae)
    if math.isfinite(percent):
        word = "smaller" if percent <= 0 else "larger"
        console.print(f"The model's error is [bold]{abs(percent):.0f} % {word}[/] than that of the better baseline.")
    console.print(f"\n{report.parent / 'summary.json'}  {report}  {summary.arrow_file}", soft_wrap=True)


def _errors(summary: Summary) -> Table:
    table = Table(box=None, padding=(0, 1), title_justify="left", header_style="dim")
    table.add_column("mean absolute error", no_wrap=True)
    table.add_column("cells", justify="right", no_wrap=True)
    shown = contenders(summary.mae)
    for label in shown.values():
        table.add_column(label, justify="right", no_wrap=True)
    for label, score in (
        ("final value", summary.scores["final"]),
        ("first estimate, newest step", summary.scores["provisional"]),
        *((f"final, {KIND_LABELS[kind]}", part) for kind, part in summary.scores["by_kind"].items() if part["cells"]),
    ):
        table.add_row(
            label,
            f"{score['cells']:,}",
            *_best_bold([score["mae"][name] for name in shown]),
        )
    return table


KIND_LABELS = {"reading": "single readings lost", "sensor": "one sensor silent", "group": "whole group silent"}


def _best_bold(errors: list[float | None]) -> list[str]:
    best = min((error for error in errors if error is not None), default=None)
    return ["–" if e is None else f"[bold green]{e:.3f}[/]" if e == best else f"{e:.3f}" for e in errors]


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return round(value, 5) if math.isfinite(value) else None
    return value
