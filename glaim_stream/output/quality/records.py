"""A stretch as records: one JSON document for each group, with figures by sensor, position, gap age and method.

The key names group, source and slot, the stretch's number modulo `SLOTS`. So a topic that is compacted keeps at most
`2 * SLOTS` records of a group, one for each of the newest stretches and sources.

The regret of a stretch: the error that the best single method in hindsight would have saved.

Errors of sensors in different units are added as shares of the baseline's: an error is divided by the mean absolute
error of interpolation and last value on the same cells of its sensor, of all groups. Only cells for which every
method gave a value are compared, so that all answer the same questions. Cells at whose step the whole group is silent
are left out: they are more frequent among probes than among holes, and no method knows more than the others there.

Source: Hyndman and Koehler (2006), Another look at measures of forecast accuracy, scaled errors. Ours differs: the
baseline's errors are those of the stretch itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.times import text_of_ms
from glaim_stream.core.vocabulary import GAP_AGE_NAMES
from glaim_stream.output.quality.cells import COLUMNS, Column, JudgedCells, TruthSource
from glaim_stream.output.quality.stretches import Stretch
from glaim_stream.windows import STRETCH, Place

METHODS = ("model", "gaussian", "baseline", "published")
SLOTS = 30  # stretches whose records are kept: 1,440 steps, a day of steps of a minute
MOST_KEYS_A_GROUP = SLOTS * len(TruthSource)
_DIGITS = 9

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Comparison:
    """n cells on which the methods are compared."""

    cell: NDArray[np.int64]  # [n] index into the cells
    scaled: Doubles  # [n, METHODS] errors as shares of the baseline's; NaN in the column of an absent method

    @classmethod
    def of(cls, cells: JudgedCells, sensors: int) -> Comparison:
        """Compare the methods of a stretch's cells.

        Args:
            cells: cells of hidden readings.
            sensors: number of sensors of the model.
        """
        inner, last = cells.errors[:, Column.INTERPOLATION], cells.errors[:, Column.LAST_VALUE]
        baseline = np.where(np.isnan(inner), last, inner)
        model, form, published = (cells.errors[:, each] for each in (Column.MODEL, Column.GAUSSIAN, Column.PUBLISHED))
        errors = np.stack([model, form, baseline, published], axis=1)
        known = np.isfinite(errors)
        there = known.any(axis=0)
        alone = cells.place < Place.ROW_EDGE
        cell = np.flatnonzero((known | ~there).all(axis=1) & there[2] & alone)
        sensor, errors = cells.sensor[cell], errors[cell]
        count = np.bincount(sensor, minlength=sensors)
        scale = np.bincount(sensor, errors[:, 2], minlength=sensors) / np.maximum(count, 1)
        usable = scale[sensor] > 0  # a sensor that the baseline always knows has no share
        return cls(cell[usable], errors[usable] / scale[sensor[usable], None])

    def where(self, chosen: NDArray[np.bool_]) -> Comparison:
        """Some of the cells."""
        return Comparison(self.cell[chosen], self.scaled[chosen])

    def regret(self) -> dict[str, object] | None:
        """The regret as a document, None without a cell; negative where what was published beat every method."""
        if len(self.cell) == 0:
            return None
        means = {
            name: float(mean) for name, mean in zip(METHODS, self.scaled.mean(axis=0), strict=True) if mean == mean
        }
        published = means["published"]
        best = min((name for name in means if name != "published"), key=lambda name: means[name])
        share = (published - means[best]) / published if published > 0 else 0.0
        return {"count": len(self.cell), "scaled_mae": means, "best": best, "share": share}


@dataclass(frozen=True, slots=True)
class Record:
    """One message for the quality topic; without a value it deletes the key from the topic."""

    key: bytes
    value: bytes | None
    model: str = ""
    to_ms: int = 0  # end of the stretch


@dataclass(frozen=True, slots=True)
class Head:
    """The common fields of a model's records. `group_names` is by code."""

    model: str
    sensor_ids: Sequence[str]
    step_ms: int
    group_names: Sequence[str]


def key_of(group: str, source: str, index: int) -> bytes:
    """The key of a stretch's record."""
    return json.dumps([group, source, index % SLOTS], ensure_ascii=False, separators=(",", ":")).encode()


def group_of_key(key: bytes | None) -> str | None:
    """The group that a key names, None where it is not a key of this topic."""
    try:
        group, source, slot = json.loads(key or b"")
    except (ValueError, TypeError):
        return None
    known = isinstance(group, str) and source in list(TruthSource) and isinstance(slot, int)
    return group if known else None


def records_of(stretch: Stretch, source: TruthSource, head: Head) -> Iterator[Record]:
    """Yield the records of a stretch, in the order of the groups' codes."""
    cells, from_ms = stretch.cells, stretch.index * STRETCH * head.step_ms
    to_ms = from_ms + STRETCH * head.step_ms
    compared = Comparison.of(cells, len(head.sensor_ids)) if source is TruthSource.HIDDEN else None
    times = {"from": text_of_ms(from_ms), "to": text_of_ms(to_ms), "steps": STRETCH}
    encoder = msgspec.json.Encoder()
    of_compared = None if compared is None else cells.group[compared.cell]
    figures = _figures(cells, head)
    for code in sorted(figures):
        group = head.group_names[code]
        document: dict[str, Any] = {"group": group, "model": head.model, "source": source.value, **times}
        if compared is not None and of_compared is not None:
            document["regret"] = _rounded(compared.where(of_compared == code).regret())
        document["sensors"] = figures[code]
        yield Record(key_of(group, source, stretch.index), encoder.encode(document), head.model, to_ms)


def _figures(cells: JudgedCells, head: Head) -> dict[int, list[dict[str, Any]]]:
    """By group code: the figures of each sensor, place and class of gap ages with a cell."""
    ages, sensors, places = len(GAP_AGE_NAMES), len(head.sensor_ids), len(Place)
    codes, group = np.unique(cells.group, return_inverse=True)
    number = ((group * sensors + cells.sensor) * places + cells.place) * ages + cells.age
    key, entry = np.unique(number, return_inverse=True)

    def summed(weights: Doubles, counted: NDArray[np.bool_]) -> tuple[list[int], list[float]]:
        count = np.bincount(entry[counted], minlength=len(key))
        total = np.bincount(entry[counted], weights[counted], minlength=len(key))
        return count.tolist(), total.tolist()

    methods = [summed(cells.errors[:, column], np.isfinite(cells.errors[:, column])) for column in Column]
    drawn = np.isfinite(cells.width)
    intervals, widths = summed(cells.width, drawn)
    _, held = summed(cells.held.astype(np.float64), drawn)
    out: dict[int, list[dict[str, Any]]] = {}
    for at, of_key in enumerate(key.tolist()):
        rest, age = divmod(of_key, ages)
        rest, place = divmod(rest, places)
        of_group, sensor = divmod(rest, sensors)
        by_method = {
            name: {"count": count[at], "mae": _number(total[at] / count[at])}
            for name, (count, total) in zip(COLUMNS, methods, strict=True)
            if count[at]
        }
        drawn_here = intervals[at]
        figures = {
            "sensor": head.sensor_ids[sensor],
            "position": Place(place).name.lower(),
            "gap_age": GAP_AGE_NAMES[age],
            "methods": by_method,
            "intervals": drawn_here,
            "coverage": _number(held[at] / drawn_here) if drawn_here else None,
            "width": _number(widths[at] / drawn_here) if drawn_here else None,
        }
        out.setdefault(int(codes[of_group]), []).append(figures)
    return out


def _rounded(document: dict[str, Any] | None) -> dict[str, Any] | None:
    if document is None:
        return None
    scaled = {name: _number(value) for name, value in document["scaled_mae"].items()}
    return {**document, "scaled_mae": scaled, "share": _number(document["share"])}


def _number(value: float) -> float:
    """Nine digits: an imputer's last bits depend on the batch that a window came in."""
    return float(f"{value:.{_DIGITS}g}")
