"""Encodes readings as messages of the input topic in its four formats; the inverse of the worker's decoder.

A plan states which readings travel together and when each message is due. Messages are encoded late, a slice at a time,
so that a replay of years needs no more memory than its columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.decode import ARROW_CONTENT_TYPE
from glaim_stream.feed.formats import InputFormat
from glaim_stream.feed.sources import Source

DEFAULT_BATCH = 50  # readings in a message
ARROW_HEADERS = [("content-type", ARROW_CONTENT_TYPE)]


@dataclass(frozen=True, slots=True)
class Plan:
    """Messages in sending order: message m holds the rows `[starts[m], starts[m + 1])`."""

    input_format: InputFormat
    source: Source  # readings in the order of the messages, which is that of time
    null: NDArray[np.bool_]  # [n] readings whose value is sent as null
    starts: NDArray[np.int64]  # [m + 1] first row of each message, and the end
    due_ms: NDArray[np.int64]  # [m] event time of each message's last reading

    def __len__(self) -> int:
        return len(self.due_ms)


def plan_messages(
    source: Source,
    input_format: InputFormat,
    *,
    batch: int = DEFAULT_BATCH,
    null: NDArray[np.bool_] | None = None,
    by_group: bool = False,
) -> Plan:
    """Divide readings into messages, in order of time whatever the format.

    A message ends where a reading of another group comes next. A longer one would move the watermark of a partition
    beyond readings of other groups that are still to come, and these would be late. So messages of the formats batch
    and arrow hold `batch` readings only where a file has one group, or many readings of a group bear the same time.

    Args:
        source: source with readings in order of time.
        input_format: format of the messages: single, step, batch or arrow.
        batch: most readings in a message of the formats batch and arrow.
        null: bool [n], readings whose value is sent as null; default none.
        by_group: put one group after the other into full messages, for a reader that has no watermark.
    """
    null = np.zeros(len(source), np.bool_) if null is None else null
    count = len(source)
    if count == 0 or input_format is InputFormat.SINGLE:
        return Plan(input_format, source, null, np.arange(count + 1), source.time_ms)
    group = source.group_of_cell[source.cell]
    keys = (source.time_ms, group) if by_group else (group, source.time_ms)
    rows = np.lexsort(keys)  # stable: of two readings of one sensor at one time the later one wins
    group, time_ms = group[rows], source.time_ms[rows]
    opens = np.ones(count, np.bool_)
    opens[1:] = group[1:] != group[:-1]
    if input_format is InputFormat.STEP:
        # A step names each sensor once, so a sensor with two readings at the same time needs a second message.
        cell = source.cell[rows]
        order = np.lexsort((cell, time_ms))
        repeated = np.zeros(count, np.bool_)
        same = (np.diff(time_ms[order]) == 0) & (np.diff(cell[order]) == 0)
        repeated[order[1:][same]] = True
        opens[1:] |= (time_ms[1:] != time_ms[:-1]) | repeated[1:]
    else:
        first = np.maximum.accumulate(np.where(opens, np.arange(count), 0))
        opens |= (np.arange(count) - first) % batch == 0
    starts = np.append(np.flatnonzero(opens), count)
    ordered = replace(source, cell=source.cell[rows], time_ms=time_ms, value=source.value[rows])
    return Plan(input_format, ordered, null[rows], starts, time_ms[starts[1:] - 1])


class Encoder:
    """Encoder of the messages of a plan, slice by slice."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        cells = plan.source.cells
        self._group_of_cell = plan.source.group_of_cell
        self._single = [f'{{"group":{json.dumps(g)},"sensor":{json.dumps(s)},"ts":' for g, s in cells]
        self._item = [f'{{"sensor":{json.dumps(s)},"ts":' for _, s in cells]
        self._name = [f"{json.dumps(s)}:" for _, s in cells]
        self._group = [json.dumps(group) for group in plan.source.groups]
        self.keys = [group.encode() for group in plan.source.groups]

    def messages(self, first: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield messages `[first, stop)` of the plan as (index of the group in `keys`, bytes)."""
        plan = self._plan
        edges = plan.starts[first : stop + 1]
        low, high = int(edges[0]), int(edges[-1])
        cells = plan.source.cell[low:high].tolist()
        times = plan.source.time_ms[low:high].tolist()
        groups = self._group_of_cell[plan.source.cell[edges[:-1]]].tolist()
        texts = _texts(plan.source.value[low:high], plan.null[low:high])
        if plan.input_format is InputFormat.SINGLE:
            single = self._single
            for group, cell, time, text in zip(groups, cells, times, texts, strict=True):
                yield group, f'{single[cell]}{time},"value":{text}}}'.encode()
            return
        bounds = (edges - low).tolist()
        for group, start, end in zip(groups, bounds[:-1], bounds[1:], strict=True):
            if plan.input_format is InputFormat.ARROW:
                yield group, self._arrow(low + start, low + end)
            elif plan.input_format is InputFormat.STEP:
                pairs = ",".join(self._name[cells[row]] + texts[row] for row in range(start, end))
                yield group, f'{{"group":{self._group[group]},"ts":{times[start]},"values":{{{pairs}}}}}'.encode()
            else:
                item = self._item
                items = ",".join(f'{item[cells[row]]}{times[row]},"value":{texts[row]}}}' for row in range(start, end))
                yield group, f'{{"group":{self._group[group]},"readings":[{items}]}}'.encode()

    def _arrow(self, start: int, end: int) -> bytes:
        source, cells = self._plan.source, self._plan.source.cells
        rows = slice(start, end)
        names = [cells[cell] for cell in source.cell[rows].tolist()]
        batch = pa.record_batch(
            {
                "group": pa.array([name[0] for name in names], pa.string()),
                "sensor": pa.array([name[1] for name in names], pa.string()),
                "ts": pa.array(source.time_ms[rows], pa.timestamp("ms", tz="UTC")),
                "value": pa.array(source.value[rows], mask=self._plan.null[rows]),
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue().to_pybytes())


def _texts(values: NDArray[np.float32] | NDArray[np.float64], null: NDArray[np.bool_]) -> list[str]:
    """The shortest text of each value that parses to the same number of the same width."""
    texts: list[str] = pc.cast(pa.array(values), pa.string()).to_pylist()
    for row in np.flatnonzero((values == 0) & np.signbit(values)).tolist():
        texts[row] = "-0.0"  # -0 is an integer in JSON, and integers have one zero
    for row in np.flatnonzero(null).tolist():
        texts[row] = "null"
    return texts
