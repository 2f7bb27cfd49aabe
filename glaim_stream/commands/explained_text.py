"""An explained value as text for people, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from glaim_stream.core.catalogue import Model
from glaim_stream.core.printable import printable
from glaim_stream.core.times import text_of_ms
from glaim_stream.core.vocabulary import METHODS
from glaim_stream.operate.explain import Explained

_WIDTH = 58  # of the column of names


@dataclass(frozen=True)
class Cell:
    """The cell of the value; `place` is that of its sensor in the model."""

    model: Model
    group: str
    sensor: str
    place: int
    ts_ms: int

    @property
    def name(self) -> str:
        """Group, sensor and time."""
        return f"{self.group}/{self.sensor} at {text_of_ms(self.ts_ms)}"

    @property
    def unit(self) -> str:
        """The sensor's unit; empty where the catalogue states none."""
        return self.model.sensors[self.place].unit


def _readings(done: Explained, cell: Cell) -> list[dict[str, Any]]:
    """The contributions of readings, largest first."""
    window, contributions = done.window, done.parts.contributions
    assert window.values is not None
    found = [
        {
            "sensor": cell.model.sensor_ids[place],
            "ts": text_of_ms(cell.ts_ms + (step - window.step) * cell.model.step_ms),
            "steps_ago": window.step - step,
            "reading": float(window.values[place, step]),
            "contribution": float(contributions[place, step]),
        }
        for place, step in zip(*(each.tolist() for each in contributions.nonzero()), strict=True)
    ]
    return sorted(found, key=lambda each: -abs(each["contribution"]))


def json_text(done: Explained, cell: Cell, notes: list[str]) -> str:
    """Everything about a value as one JSON document."""
    from glaim_stream.core.times import text_of_ms

    row = done.row
    document = {
        "group": cell.group,
        "sensor": cell.sensor,
        "ts": text_of_ms(cell.ts_ms),
        "unit": cell.unit,
        "value": row.value,
        "method": METHODS[row.method],
        "lower": row.lower,
        "upper": row.upper,
        "revision": row.revision,
        "gap_age": row.gap_age,
        "model_version": row.version,
        "recomputed": done.recomputed,
        "parts": [asdict(part) for part in done.parts.parts],
        "by_sensor": _by_sensor(done, cell),
        "readings": _readings(done, cell),
        "sum": done.parts.total,
        "notes": [*done.notes, *notes],
    }
    return json.dumps(document)


def _by_sensor(done: Explained, cell: Cell) -> dict[str, float]:
    """The sums over steps, largest first; sensors without a contribution are left out."""
    sums = done.parts.contributions.sum(axis=1)
    places = np.flatnonzero((done.parts.contributions != 0).any(axis=1)).tolist()
    named = {cell.model.sensor_ids[place]: float(sums[place]) for place in places}
    return dict(sorted(named.items(), key=lambda each: -abs(each[1])))


def text_lines(done: Explained, cell: Cell, notes: list[str], top: int) -> Iterator[str]:
    """A value and its parts as lines of a table, with the `top` largest readings one by one."""
    row, unit = done.row, f" {cell.unit}" if cell.unit else ""
    band = "" if row.lower is None or row.upper is None else f", 90 % band {row.lower:.6g} to {row.upper:.6g}"
    version = f" ({row.version})" if row.version else ""
    yield printable(f"{cell.name}: {row.value:.8g}{unit}{band}")
    yield printable(f"method {METHODS[row.method]}{version}, revision {row.revision}, gap age {row.gap_age}")
    if done.recomputed is not None and not math.isclose(done.recomputed, row.value, rel_tol=1e-9):
        yield f"made again from its window: {done.recomputed:.8g}{unit}"
    for note in (*done.notes, *notes):
        yield printable(f"note: {note}")
    readings = _readings(done, cell)
    size = max([abs(row.value), *(abs(each["contribution"]) for each in readings)])
    digits = max(0, 5 - math.floor(math.log10(size))) if size > 0 else 5

    def line(name: str, value: float, sign: str = "+") -> str:
        return f"{printable(name):<{_WIDTH}}{value:>{sign}16.{min(digits, 12)}f}"

    for number, part in enumerate(done.parts.parts):
        yield line(part.name, part.value, "" if number == 0 else "+")
    yield "by sensor"
    for sensor, value in _by_sensor(done, cell).items():
        count = sum(each["sensor"] == sensor for each in readings)
        yield line(f"  {sensor}, {_counted(count, 'reading')}", value)
    yield "the same by reading"
    for each in readings[:top]:
        yield line(f"  {each['sensor']} {_when(each['steps_ago'])}, {each['reading']:.6g}", each["contribution"])
    if rest := readings[top:]:
        yield line(f"  {_counted(len(rest), 'other')}", sum(each["contribution"] for each in rest))
    yield line(f"sum{unit and ',' + unit}", done.parts.total, "")


def _when(steps_ago: int) -> str:
    if steps_ago == 0:
        return "in the same step"
    return f"{_counted(abs(steps_ago), 'step')} {'ago' if steps_ago > 0 else 'later'}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
