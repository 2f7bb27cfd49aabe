"""Prints the counts of a `make chaos` run: `python -m tests.chaos.table [--into docs/faults.md]`."""

import argparse
import json
import os
import platform
import time
from collections import Counter
from pathlib import Path
from typing import Any

from deploy.cache import CHECKOUT
from glaim_stream.core.settings import Settings

RESULTS = Path(os.environ.get("GLAIM_CHAOS_RESULTS", CHECKOUT / "build" / "chaos.jsonl"))  # one line per scenario
BEGIN, END = "<!-- counts {}: begin -->\n", "<!-- counts {}: end -->\n"  # by delivery


def table(lines: list[dict[str, Any]], *, only_repeated: bool = False) -> str:
    """Return the Markdown table, one row per scenario.

    Args:
        lines: One of each scenario.
        only_repeated: Leave out scenarios in which no row came twice, as nearly all with exactly-once delivery.
    """
    out = ["| fault | rows out | twice, identical | s |", "|---|---:|---:|---:|"]
    for line in lines:
        if line["identical_duplicates"] or not only_repeated:
            out.append(
                f"| {line['fault']} | {line['rows']:,} | {line['identical_duplicates']:,} | {line['seconds']:.0f} |"
            )
    out += ["", f"Lost: {total(lines, 'lost')}. Twice with another value: {total(lines, 'other_duplicates')}.", ""]
    memory_notes = [
        f"- {line['fault']}: resident memory of the worker {mb['before']} MB before, at most "
        f"{mb['max, first third']} MB in the first third and {mb['max, last third']} MB in the last, "
        f"{mb['after']} MB after; {line['records during hang']:,} records consumed meanwhile"
        for line in lines
        if (mb := line.get("resident_mb"))
    ]
    memory_notes += [
        f"- {line['fault']}: at most {mb['before']} MB of resident memory before, {mb['after']} MB with them"
        for line in lines
        if (mb := line.get("peak_mb"))
    ]
    return "\n".join([*out, *memory_notes]).rstrip() + "\n"


def total(lines: list[dict[str, Any]], count: str) -> str:
    """Return the sum of a count and the faults that contribute to it."""
    faults = [line["fault"] for line in lines if line[count]]
    return f"{sum(line[count] for line in lines):,}" + (f" ({'; '.join(faults)})" if faults else "")


def machine() -> str:
    """Processor and number of cores of this machine."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{' '.join((names or [platform.machine()])[0].split()[:2])} ({os.cpu_count()} cores)"


def main() -> None:
    """Print the table; with `--into`, write it into a document."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.table", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--into", type=Path, help="replace the table of this delivery in a document")
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.results.read_text().splitlines()]
    lines.sort(key=lambda line: line["family"])  # processes append in turns
    minutes = sum(line["seconds"] for line in lines) / 60
    when = time.strftime("%Y-%m-%d", time.gmtime(options.results.stat().st_mtime))
    delivery = Counter(line["delivery"] for line in lines).most_common(1)[0][0]  # a few faults change it
    by_default = delivery == Settings.model_fields["delivery"].default
    command = "make chaos" if by_default else f"make chaos DELIVERY={delivery}"
    section = f"`{command}`, {machine()}, {when}, {len(lines)} faults in {minutes:.0f} minutes:\n\n"
    section += table(lines, only_repeated=delivery == "exactly_once")
    print(section)
    if options.into is not None:
        text = options.into.read_text()
        begin, end = BEGIN.format(delivery), END.format(delivery)
        before, after = text.index(begin) + len(begin), text.index(end)
        options.into.write_text(f"{text[:before]}\n{section}\n{text[after:]}")


if __name__ == "__main__":
    main()
