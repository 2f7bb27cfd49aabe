"""Draws the counts of a `make chaos`: `python -m tests.chaos.table [--into docs/faults.md]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from deploy.cache import CHECKOUT

RESULTS = Path(os.environ.get("GLAIM_CHAOS_RESULTS", CHECKOUT / "build" / "chaos.jsonl"))  # a line a scenario
BEGIN, END = "<!-- counts: begin -->\n", "<!-- counts: end -->\n"


def table(lines: list[dict[str, Any]]) -> str:
    """Markdown, a row a scenario."""
    out = [
        "| fault | readings in | rows out | lost | came twice, alike | came twice, by the clock or another imputer "
        "| dead letters | restarts | s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for line in lines:
        letters = ", ".join(f"{count} {cause}" for cause, count in sorted(line["dead_letters"].items())) or "0"
        counts = [line[name] for name in ("readings", "rows", "lost", "identical_duplicates", "other_duplicates")]
        cells = [
            line["fault"],
            *(f"{count:,}" for count in counts),
            letters,
            line["restarts"],
            f"{line['seconds']:.0f}",
        ]
        out.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    more = [
        f"- {line['fault']}: resident memory of the worker {mb['before']} MB before, at most "
        f"{mb['first third, most']} MB in the first third and {mb['last third, most']} MB in the last, "
        f"{mb['after']} MB after; {line['taken while it hung']:,} records taken meanwhile"
        for line in lines
        if (mb := line.get("resident_mb"))
    ]
    return "\n".join([*out, "", *more]).rstrip() + "\n"


def machine() -> str:
    """This machine in a few words."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{' '.join((names or [platform.machine()])[0].split()[:2])} ({os.cpu_count()} cores)"


def main() -> None:
    """Print the table; write it into a document if asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.table", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--into", type=Path, help="replace the table of this document")
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.results.read_text().splitlines()]
    minutes = sum(line["seconds"] for line in lines) / 60
    when = time.strftime("%Y-%m-%d", time.gmtime(options.results.stat().st_mtime))
    drawn = f"`make chaos`, {machine()}, {when}, {len(lines)} faults in {minutes:.0f} minutes:\n\n{table(lines)}"
    print(drawn)
    if options.into is not None:
        text = options.into.read_text()
        before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
        options.into.write_text(f"{text[:before]}\n{drawn}\n{text[after:]}")


if __name__ == "__main__":
    main()
