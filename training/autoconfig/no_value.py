"""Detects words among numbers, and numbers far from all others, that may mean "no value" in a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.feed.files import usual_no_value
from glaim_stream.feed.kinds import is_number, is_text
from training.data.series import DataSpec

NINES = re.compile(r"-9{2,}(\.9+)?|9{4,}(\.9+)?")  # -99, -999.9, -9999, 9999, 99999
NUMBER = r"^\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*$"
MOST_WORDS = 8  # of one column


def words_among_numbers(table: pa.Table) -> dict[str, list[str]]:
    """Return the words in text columns that are numbers apart from a few words (`Bad`, `-`), by column.

    Words contain no digit and are in the minority: names such as P-101 and codes are not taken for them.
    """
    found = {}
    for field in table.schema:
        if not is_text(field.type):
            continue
        text = table.column(field.name).drop_null()
        text = text.filter(pc.invert(pc.is_in(text, pa.array(usual_no_value(), text.type))))
        rest = text.filter(pc.invert(pc.match_substring_regex(text, NUMBER)))
        words = pc.unique(rest).slice(0, MOST_WORDS + 1).to_pylist()
        few = len(rest) < len(text) / 2 and len(words) <= MOST_WORDS
        if words and few and not any(re.search(r"\d", word) for word in words):
            found[field.name] = words
    return found


def sentinel_warnings(table: pa.Table, spec: DataSpec) -> list[str]:
    """Warn of undeclared numbers that look like "no value": nines, far outside the other values of the column.

    Far means further from the next value than all other values are from each other. Only a person can decide, so
    nothing is changed; but a single -9999 ruins a sensor's deviation.
    """
    warnings = []
    declared = _as_compared(spec.sentinels)
    for name in table.column_names:
        if name in (spec.time, spec.group) or not is_number(table.column(name).type):
            continue
        values = numbers_of(table.column(name))
        values = values[np.isfinite(values)]
        levels = np.unique(values)
        own = declared | _as_compared(spec.sensor_sentinels.get(name, ()))
        for level, rest in ((levels[:1], levels[1:]), (levels[-1:], levels[:-1])):
            if rest.size < 2 or float(np.float32(level[0])) in own or not NINES.fullmatch(f"{level[0]:g}"):
                continue
            if min(abs(level[0] - rest[0]), abs(level[0] - rest[-1])) > rest[-1] - rest[0]:
                count = int((values == level[0]).sum())
                times = "once" if count == 1 else f"{count} times"
                where = f"in {name!r}" if spec.layout == "wide" else f"in column {name!r}"
                warnings.append(
                    f"{level[0]:g} occurs {times} {where}, far from all other values: if it stands for no value, "
                    f"declare it with --sentinel {level[0]:g}"
                )
    return warnings


def numbers_of(column: Any) -> NDArray[np.float64]:
    """Return a column as numbers; NaN where it is empty."""
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)


def _as_compared(numbers: Sequence[float]) -> set[float]:
    """Round to 32 bits, as readings are stored."""
    return {float(np.float32(number)) for number in numbers}
