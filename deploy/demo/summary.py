"""What a run measured, as summary.json and as a table on the screen."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

MEANING = {
    "readings_in": "readings that the input topic acknowledged; what was hidden was never sent",
    "readings_out": "of these, how many came out as observed, exactly as they went in",
    "dead_letters": "readings that were refused or too late, with the cause in their headers",
    "lost": "readings that are neither in the output nor in the dead letters, by glaim-stream audit",
    "holes": "cells (group, sensor, step) for which no reading arrived: hidden ones, and the data's own gaps",
    "filled": "holes by the method that had the last word on them; none: the gap was too old for an answer",
    "rows_out": "rows on the output topic: readings, first estimates of holes, and their final values",
    "mae": "mean absolute error of final values on hidden cells that the model filled, in deviations of the sensor's "
    "training data",
    "final": "a hole's value once `revise_after` more steps were known; the baselines knew the same steps",
    "provisional": "a hole's value the moment its step closed, when nothing after it was known",
    "latency_ms": "from the stamp on the newest input record of the batch that made a row to the output topic's stamp "
    "on the row, over all rows: waiting in the topic, decoding, windows, model, publishing",
    "readings_per_second": "readings_in over the time from the first send to the worker's last commit; at most what "
    "--speed asks for",
}


@dataclass
class Summary:
    """The numbers of one run; `document` is summary.json."""

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
    scores: Mapping[str, Any]  # final, provisional and by kind of dropout
    interval_coverage: Mapping[str, float]
    interval_level: float | None
    latency_ms: Mapping[str, float]
    readings_per_second: float
    speed: float | None
    hours: float
    imputer: str
    kafka: str
    machine: Mapping[str, Any]
    date: str
    audit: Mapping[str, Any]
    command: str = ""
    arrow_file: str = ""
    arrow_rows: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def better_percent(self) -> float:
        """How much smaller the model's error is than the better baseline's, in percent."""
        others = min(self.mae["interpolation"], self.mae["last_value"])
        return 100 * (1 - self.mae["model"] / others) if others else math.nan

    def document(self) -> dict[str, Any]:
        """Plain values; what could not be measured is null."""
        return {**_plain(asdict(self)), "meaning": MEANING}


def write(summary: Summary, path: Path) -> None:
    """Write summary.json."""
    path.write_text(json.dumps(summary.document(), indent=2, allow_nan=False) + "\n")


def machine() -> dict[str, Any]:
    """What it ran on, without the machine's name."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass  # not Linux, or a processor without a name: the architecture says enough
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": model, "cores": cores, "system": platform.system(), "python": platform.python_version()}


def show(summary: Summary, console: Console, *, report: Path) -> None:
    """Print the table."""
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim")
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim", overflow="fold")
    filled = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in summary.filled.items() if count)
    lost = f"[{'red' if summary.lost else 'green'}]{summary.lost:,}[/]"
    table.add_row("readings in", f"{summary.readings_in:,}", f"{summary.readings_per_second:,.0f} a second")
    table.add_row("readings out", f"{summary.readings_out:,}", f"in {summary.rows_out:,} rows")
    table.add_row("dead letters", f"{summary.dead_letters:,}", "")
    table.add_row("lost", lost, "")
    table.add_row("holes", f"{summary.holes:,}", f"filled: {filled}")
    latency = summary.latency_ms
    table.add_row("latency", f"{latency['p50']:,.0f} ms", f"half of the rows; 99 %: {latency['p99']:,.0f} ms")
    console.print()
    console.print(table)
    console.print()
    console.print(_errors(summary))
    if math.isfinite(summary.better_percent):
        share = summary.better_percent
        word = "smaller" if share >= 0 else "larger"
        console.print(f"The model's error is [bold]{abs(share):.0f} % {word}[/] than that of the better baseline.")
    console.print(f"\n{report.parent / 'summary.json'}  {report}  {summary.arrow_file}", soft_wrap=True)


def _errors(summary: Summary) -> Table:
    table = Table(box=None, padding=(0, 1), title_justify="left", header_style="dim")
    table.add_column("mean absolute error", no_wrap=True)
    table.add_column("cells", justify="right", no_wrap=True)
    for name in ("model", "interpolation", "last value"):
        table.add_column(name, justify="right", no_wrap=True)
    for label, score in (
        ("final value", summary.scores["final"]),
        ("first estimate, newest step", summary.scores["provisional"]),
        *((f"final, {KIND_WORDS[kind]}", part) for kind, part in summary.scores["by_kind"].items() if part["cells"]),
    ):
        table.add_row(
            label,
            f"{score['cells']:,}",
            *_best_bold([score["mae"][name] for name in ("model", "interpolation", "last_value")]),
        )
    return table


KIND_WORDS = {"reading": "single readings lost", "sensor": "one sensor silent", "group": "whole group silent"}


def _best_bold(errors: list[float | None]) -> list[str]:
    best = min((error for error in errors if error is not None), default=None)
    return ["–" if e is None else f"[bold green]{e:.3f}[/]" if e == best else f"{e:.3f}" for e in errors]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return round(value, 5) if math.isfinite(value) else None
    return value
