"""The table of imputers that need no network."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from pathlib import Path

from benchmarks.paper import lines
from benchmarks.paper.datasets import DATASETS
from benchmarks.paper.tables import EMPTY, grid, shown

FILE = "simple.jsonl"
IDENTITY = ("method", "dataset", "pattern", "rate")
OURS = "closed form"
SHOWN = (0.3, 0.7)  # rates that have a row; the last row is over all
COLUMNS = (
    "interpolation", "last value", "window mean", "cubic spline", "profile", "nearest windows", "low rank",
    "other sensors", "chained regressions", "each sensor alone", OURS,
)  # fmt: skip
NOTE = """MSE on the hidden cells of draw 0, the least of a row in bold. `cubic spline`: monotone, through the sensor's
readings. `profile`: departures from the sensor's mean at that time of the day (the week for daily steps, the year for
weekly ones) are interpolated. `nearest windows`: the mean of the training windows that are nearest in the observed
cells. `low rank`: soft-impute on each window. `other sensors`: regression on what is observed at the same step.
`chained regressions`: each sensor on the others and on the steps before and after, in turns (scikit-learn). For these
four the means of a window are taken from it first where validation windows gain by that. `each sensor alone`: a closed
form of one sensor, which is what smoothing by a stationary process can do; what the last column gains over it comes
from the other sensors. The rates 0.1 and 0.5 are in `simple.jsonl` alone; the last row is the geometric mean over all
cells of the ratio to the closed form's MSE.
"""

_Cell = tuple[str, str, float]


def section(folder: Path) -> str:
    """Return the table; empty without lines."""
    found = lines.read(folder / FILE)
    if not found:
        return ""
    cells: dict[_Cell, dict[str, float]] = {}
    for line in found:
        cells.setdefault((line["dataset"], line["pattern"], line["rate"]), {})[line["method"]] = line["mse"]
    order = list(DATASETS)
    places = sorted(cells, key=lambda place: (order.index(place[0]), place[1] != "random", place[2]))
    rows = [[place[0], place[1], f"{place[2]:g}", *_row(cells[place])] for place in places if place[2] in SHOWN]
    rows.append(["**all**", EMPTY, EMPTY, *_ratios(cells)])
    commands = "\n".join(f"- `{text}`" for text in dict.fromkeys(_of_set(line["command"]) for line in found))
    where = "; ".join(dict.fromkeys(f"{line['machine']}, {line['date']}" for line in found))
    return f"{grid(['data set', 'pattern', 'rate', *COLUMNS], rows)}\n{NOTE}{where}.\n\n{commands}\n"


def _row(errors: Mapping[str, float]) -> list[str]:
    least = min(errors.values())
    texts = []
    for name in COLUMNS:
        text = shown(errors[name]) if name in errors else EMPTY
        texts.append(f"**{text}**" if errors.get(name) == least else text)
    return texts


def _ratios(cells: Mapping[_Cell, Mapping[str, float]]) -> list[str]:
    texts = []
    for name in COLUMNS:
        logs = [math.log(errors[name] / errors[OURS]) for errors in cells.values() if {name, OURS} <= errors.keys()]
        texts.append(f"{math.exp(statistics.fmean(logs)):.2f}" if logs else EMPTY)
    return texts


def _of_set(command: str) -> str:
    """The command for all cells of the data set."""
    return " ".join(word.split("/")[0] for word in command.split())
