"""Artificial dropouts, so that the values that the model fills can be compared with the true ones.

Sensors fail in two ways: single readings get lost, or a sensor, or a whole group with its gateway, falls silent for a
while. A model that was trained on the first alone fills the second badly.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError
from glaim_stream.feed.sources import Source

SENSOR_SHARE, GROUP_SHARE = 0.45, 0.15  # shares of the hidden readings; the rest are single ones
LONGEST_RUN = 24  # readings in a dropout
KINDS = ("reading", "sensor", "group")  # kinds of dropouts

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Hidden:
    """Withheld readings: `mask` bool [n] over the source's readings, and `kind` int8 [n], index into KINDS or -1."""

    mask: Bools
    kind: NDArray[np.int8]


def hide(source: Source, rate: float, *, seed: int = 0) -> Hidden:
    """Choose the readings to withhold.

    Args:
        source: source with readings in order of time.
        rate: share of the readings, 0 to below 1.
        seed: random seed; the same seed hides the same readings.

    Raises:
        SettingsError: the rate is out of range.
    """
    if not 0 <= rate < 1:
        raise SettingsError(f"expected a share of readings to hide from 0 to below 1, found {rate}")
    rng = np.random.default_rng(seed)
    wanted = round(rate * len(source))
    kind = np.full(len(source), -1, np.int8)
    if wanted:
        group = source.group_of_cell[source.cell]
        for code in range(len(source.groups)):
            rows = np.flatnonzero(group == code)
            times, place = np.unique(source.time_ms[rows], return_inverse=True)
            kind[rows[_runs(rng, len(times), rate * GROUP_SHARE)[place]]] = KINDS.index("group")
        by_cell = np.argsort(source.cell, kind="stable")
        edges = np.searchsorted(source.cell[by_cell], np.arange(len(source.cells) + 1))
        for start, end in pairwise(edges.tolist()):
            rows = by_cell[start:end]
            rows = rows[_runs(rng, len(rows), rate * SENSOR_SHARE) & (kind[rows] < 0)]
            kind[rows] = KINDS.index("sensor")
        _correct(rng, kind, wanted)
    return Hidden(kind >= 0, kind)


def write_hidden(source: Source, hidden: Hidden, path: Path) -> int:
    """Write the withheld readings to a Parquet file: group, sensor, ts, value, kind. Return the number of rows."""
    import pyarrow.parquet as pq

    truth = source.where(hidden.mask)
    names = [pa.array([cell[side] for cell in source.cells], pa.string()) for side in (0, 1)]
    table = pa.table(
        {
            "group": pa.DictionaryArray.from_arrays(truth.cell, names[0]).dictionary_decode(),
            "sensor": pa.DictionaryArray.from_arrays(truth.cell, names[1]).dictionary_decode(),
            "ts": pa.array(truth.time_ms, pa.timestamp("ms", tz="UTC")),
            "value": pa.array(truth.value),
            "kind": pa.DictionaryArray.from_arrays(hidden.kind[hidden.mask], list(KINDS)).dictionary_decode(),
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    pq.write_table(table, partial, compression="zstd")
    partial.replace(path)
    return len(truth)


def _runs(rng: np.random.Generator, length: int, share: float) -> Bools:
    """Random runs of 2 to LONGEST_RUN places that cover about `share` of `length`; bool [length]."""
    count = rng.poisson(share * length / ((2 + LONGEST_RUN) / 2))
    starts = rng.integers(0, max(length, 1), count)
    edges = np.zeros(length + 1, np.int64)
    np.add.at(edges, starts, 1)
    np.add.at(edges, np.minimum(starts + rng.integers(2, LONGEST_RUN + 1, count), length), -1)
    return np.cumsum(edges[:-1]) > 0


def _correct(rng: np.random.Generator, kind: NDArray[np.int8], wanted: int) -> None:
    """Hide single readings, or show some again, until exactly `wanted` are hidden."""
    short = wanted - int((kind >= 0).sum())
    rows = np.flatnonzero(kind < 0) if short > 0 else np.flatnonzero(kind >= 0)
    kind[rng.choice(rows, abs(short), replace=False)] = KINDS.index("reading") if short > 0 else -1
