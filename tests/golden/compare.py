"""Compares the output of a run with the frozen output, cell by cell, with pyarrow and numpy alone."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tests.golden.runs import Output

KEY = ("group", "sensor", "ts", "revision")
FLOATS = ("value", "lower", "upper")
COMPUTED = pa.array(["model", "blend", "gaussian"])  # last bits depend on the processor
_MOST_REPORTED = 5


def sorted_rows(rows: pa.Table) -> pa.Table:
    """The rows sorted by their keys."""
    return rows.sort_by([(name, "ascending") for name in KEY]).combine_chunks()


def differences(found: Output, expected: Output, steps: Mapping[str, float] | None = None) -> list[str]:
    """Describe each difference; empty when there is none.

    Args:
        found: Output of a run.
        expected: Frozen output.
        steps: The resolution of each sensor. With it, values of network and closed form may differ by one such step;
            without it, nothing may differ.
    """
    problems = _row_differences(found.rows, expected.rows, steps)
    problems += _document_differences("reject", found.rejects, expected.rejects)
    problems += _document_differences("outage", found.outages, expected.outages)
    for group in sorted({document["group"] for document in expected.outages}):
        events = [[each for each in outages if each["group"] == group] for outages in (found.outages, expected.outages)]
        if events[0] != events[1]:
            problems.append(f"the outages of {group} are in another order")
    return problems


def _document_differences(
    kind: str, found: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]
) -> list[str]:
    counts = [Counter(json.dumps(each, sort_keys=True) for each in documents) for documents in (found, expected)]
    more, less = counts[0] - counts[1], counts[1] - counts[0]
    problems = [f"unexpected {kind}: {text}" for text in list(more.elements())[:_MOST_REPORTED]]
    return problems + [f"missing {kind}: {text}" for text in list(less.elements())[:_MOST_REPORTED]]


def _row_differences(found: pa.Table, expected: pa.Table, steps: Mapping[str, float] | None) -> list[str]:
    schemas = found.schema, expected.schema
    if not schemas[0].equals(schemas[1], check_metadata=True):
        return [f"the schema is {schemas[0].to_string()}, expected {schemas[1].to_string()}"]
    found, expected = sorted_rows(found), sorted_rows(expected)
    keys = [_keys(rows) for rows in (found, expected)]
    problems = [
        f"{side} has several rows with the key {key}"
        for side, each in zip(("found", "frozen"), keys, strict=True)
        for key in [key for key, count in Counter(each).items() if count > 1][:_MOST_REPORTED]
    ]
    more, less = set(keys[0]) - set(keys[1]), set(keys[1]) - set(keys[0])
    problems += [f"unexpected row {key}" for key in sorted(more)[:_MOST_REPORTED]]
    problems += [f"missing row {key}" for key in sorted(less)[:_MOST_REPORTED]]
    if problems:
        return [f"{len(found)} rows, expected {len(expected)}; {len(more)} unexpected, {len(less)} missing", *problems]
    for name in expected.column_names:
        differing = _differing_rows(found, expected, name, steps)
        problems += [
            f"{len(differing)} cells of {name} differ, for example {keys[0][row]}: {found[name][row].as_py()!r}, "
            f"expected {expected[name][row].as_py()!r}"
            for row in differing[:1].tolist()
        ]
    return problems


def _keys(rows: pa.Table) -> list[tuple[Any, ...]]:
    columns = rows.select(KEY).set_column(KEY.index("ts"), "ts", rows["ts"].cast(pa.int64()))
    return list(zip(*(columns[name].to_pylist() for name in KEY), strict=True))


def _differing_rows(
    found: pa.Table, expected: pa.Table, name: str, steps: Mapping[str, float] | None
) -> NDArray[np.int64]:
    """Indices of the rows whose cells of this column differ."""
    one, other = found[name].combine_chunks(), expected[name].combine_chunks()
    null = [each.is_null().to_numpy(zero_copy_only=False) for each in (one, other)]
    if name not in FLOATS:
        same = pc.equal(one, other).fill_null(False).to_numpy(zero_copy_only=False)
        return np.flatnonzero(~(same | (null[0] & null[1])))
    values = [each.fill_null(0).to_numpy(zero_copy_only=False) for each in (one, other)]
    same = values[0].view(np.uint64) == values[1].view(np.uint64)
    if steps is not None:
        computed = pc.is_in(expected["method"], COMPUTED).to_numpy(zero_copy_only=False)
        step = np.array([steps[sensor] for sensor in expected["sensor"].to_pylist()])
        # One step, and the rounding of the network, which computes in float32, at the size of the value.
        tolerance = step * 1.001 + np.abs(values[1]) * 1e-6
        same |= computed & (np.abs(values[0].astype(np.float64) - values[1]) <= tolerance)
    return np.flatnonzero((null[0] != null[1]) | ~(same | null[1]))
