"""Output rows on a regular grid [group, sensor, step], for scoring and drawing. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.output import METHODS, Method, newest_revisions

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Places = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Grid:
    """The axes of the grid: G groups, C sensors, T steps."""

    groups: tuple[str, ...]
    sensors: tuple[str, ...]
    first_ms: int
    step_ms: int
    steps: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(G, C, T)."""
        return len(self.groups), len(self.sensors), self.steps

    @property
    def times_ms(self) -> NDArray[np.int64]:
        """Start of each step, int64 [T]."""
        return self.first_ms + self.step_ms * np.arange(self.steps, dtype=np.int64)

    def places(self, table: pa.Table) -> tuple[Places, Bools]:
        """Group, sensor and step index of each row, and a mask of the rows on the grid; other rows have index 0."""
        step = (_milliseconds(table["ts"]) - self.first_ms) // self.step_ms
        group, sensor = _codes(table["group"], self.groups), _codes(table["sensor"], self.sensors)
        inside = (step >= 0) & (step < self.steps) & (group >= 0) & (sensor >= 0)
        return (np.where(inside, group, 0), np.where(inside, sensor, 0), np.where(inside, step, 0)), inside

    def values(self, table: pa.Table) -> Floats:
        """The column `value` of a table with group, sensor, ts and value; NaN for cells without a row."""
        places, inside = self.places(table)
        out = np.full(self.shape, np.nan, np.float32)
        out[tuple(place[inside] for place in places)] = _floats(table["value"])[inside]
        return out


@dataclass(frozen=True)
class Layer:
    """One estimate of every cell, as arrays [G, C, T]; `method` is NO_ROW for cells without a row."""

    value: Floats
    lower: Floats
    upper: Floats
    method: NDArray[np.int8]


NO_ROW = -1


@dataclass(frozen=True)
class Outcome:
    """The output for every cell: its observed value, or the first and the final estimate of a hole."""

    observed: Floats  # NaN where no reading arrived
    provisional: Layer  # made when the step closed, before any later step was known
    final: Layer  # made `revise_after` steps later
    newest_method: NDArray[np.int8]  # method of the row with the highest revision, or NO_ROW


def outcome(grid: Grid, tables: Iterable[pa.Table]) -> Outcome:
    """Place output rows, in the order of their topic, on the grid.

    Per cell the highest revision wins; ties go to the later row.
    """
    observed = np.full(grid.shape, np.nan, np.float32)
    provisional, final = _empty(grid), _empty(grid)
    newest_method = np.full(grid.shape, NO_ROW, np.int8)
    kept = list(tables)
    newest = newest_revisions(kept)
    places, inside = grid.places(newest)
    newest_method[_at(places, np.flatnonzero(inside))] = _codes(newest["method"], METHODS)[inside]
    seen = np.flatnonzero(inside & newest["observed"].to_numpy(zero_copy_only=False))
    observed[_at(places, seen)] = _floats(newest["value"])[seen]
    for table in kept:
        places, inside = grid.places(table)
        arrived = table["observed"].to_numpy(zero_copy_only=False)
        is_final = table["final"].to_numpy(zero_copy_only=False)
        method = _codes(table["method"], METHODS).astype(np.int8)
        value = _floats(table["value"])
        for layer, rows in ((provisional, ~arrived & ~is_final), (final, ~arrived & is_final)):
            chosen = np.flatnonzero(inside & rows)
            cells = _at(places, chosen)
            layer.value[cells] = value[chosen]
            layer.lower[cells] = _floats(table["lower"])[chosen]
            layer.upper[cells] = _floats(table["upper"])[chosen]
            layer.method[cells] = method[chosen]
    return Outcome(observed, provisional, final, newest_method)


def holes_by_method(result: Outcome) -> dict[str, int]:
    """The number of holes by the method of their newest row."""
    counts = {name: int((result.newest_method == code).sum()) for code, name in enumerate(METHODS)}
    return {name: count for name, count in counts.items() if name != Method.OBSERVED.name.lower()}


def _at(places: Places, rows: NDArray[np.int64]) -> Places:
    return places[0][rows], places[1][rows], places[2][rows]


def _empty(grid: Grid) -> Layer:
    nothing = np.full(grid.shape, np.nan, np.float32)
    return Layer(nothing, nothing.copy(), nothing.copy(), np.full(grid.shape, NO_ROW, np.int8))


def _codes(column: pa.ChunkedArray, names: Iterable[str]) -> NDArray[np.int64]:
    """Index of each text in `names`; -1 if it is not among them."""
    found = pc.index_in(column.cast(pa.string()), value_set=pa.array(list(names), pa.string()))
    return np.asarray(pc.fill_null(found, -1).to_numpy(), np.int64)


def _milliseconds(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(column.cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()).to_numpy(), np.int64)


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(column.cast(pa.float32()).to_numpy(zero_copy_only=False), np.float32)
