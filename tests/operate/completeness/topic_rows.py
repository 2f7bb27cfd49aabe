"""Messages of the output topic, row by row, and what a report finds in them without a broker."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from glaim_stream.core.catalogue import Catalogue, parse_catalogue
from glaim_stream.core.times import moment_ms, zone_of
from glaim_stream.core.vocabulary import Method, Status
from glaim_stream.operate.completeness.counts import counted
from glaim_stream.operate.completeness.days import Days
from glaim_stream.operate.completeness.figures import SensorDays
from glaim_stream.operate.completeness.rows import TopicRows
from glaim_stream.operate.database import database
from glaim_stream.output import Rows, encode

START_MS = moment_ms("2026-03-01T00:00:00Z")
STEP_MS = 3_600_000


@dataclass(frozen=True)
class Row:
    """A row of the topic: `step` is counted in hours from START_MS."""

    group: str
    step: int
    method: Method = Method.OBSERVED
    revision: int = 0
    sensor: str = "flow"
    status: Status = Status.GOOD
    delay_ms: int = 0  # of the reading, before the step's start


def catalogue(*, ids: Sequence[str] = (), sensors: Sequence[dict[str, Any]] = ({"id": "flow"},)) -> Catalogue:
    model = {"name": "m", "step_s": 3600, "window": 96, "sensors": list(sensors)}
    rules: list[dict[str, Any]] = [{"model": "m", "pattern": "p*"}]
    rules += [{"model": "m", "ids": list(ids)}] if ids else []
    return parse_catalogue({"models": [model], "groups": rules}, source="test")


def message(*rows: Row) -> bytes:
    """One message with these rows."""
    groups, sensors = ({name: code for code, name in enumerate(sorted(names))}
                       for names in ({row.group for row in rows}, {row.sensor for row in rows}))  # fmt: skip
    methods = np.array([row.method for row in rows], np.int8)
    observed, known = methods == Method.OBSERVED, methods != Method.NONE
    ts_ms = np.array([START_MS + row.step * STEP_MS for row in rows], np.int64)
    status = np.array(
        [row.status if row.method == Method.OBSERVED else Status.UNCERTAIN_SUBSTITUTE_VALUE for row in rows], np.uint32
    )
    status[~known] = Status.BAD_NO_DATA
    nothing = np.full(len(rows), np.nan)
    made = Rows(
        np.array([groups[row.group] for row in rows], np.int32),
        np.array([sensors[row.sensor] for row in rows], np.int32),
        ts_ms,
        ts_ms - np.array([row.delay_ms for row in rows], np.int64),
        np.where(known, 1.5, np.nan),
        observed,
        methods,
        status,
        nothing,
        nothing,
        np.where(observed, 0, 1).astype(np.int32),
        np.array([row.revision for row in rows], np.int16),
        observed,
        np.zeros(len(rows), np.int32),
    )
    ((stream, _),) = encode(made, group_names=list(groups), sensor_names=list(sensors), version_names=[""])
    return stream


@contextmanager
def no_rows(rules: Catalogue, *, memory: str = "128MB", **bounds: Any) -> Iterator[TopicRows]:
    """The rows of a topic without any yet."""
    with database(None, memory=memory) as empty:
        yield TopicRows(empty, rules, **bounds)


def sums_of(
    rows: TopicRows,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    retained_ms: int | None = None,
    zone: str = "UTC",
) -> dict[tuple[str, str], SensorDays]:
    """The figures of each sensor."""
    spans = rows.spans(since_ms=since_ms, until_ms=until_ms, retained_ms=retained_ms)
    days = Days(zone_of(zone), min(first_ms for first_ms, _ in spans.values()), max(end for _, end in spans.values()))
    sensors, _ = counted(rows.database, rows.make_cells(spans), days)
    return {(each.group, each.sensor): each for each in sensors}


def sums_of_messages(
    rules: Catalogue, *messages: bytes, zone: str = "UTC", memory: str = "128MB", **bounds: Any
) -> dict[tuple[str, str], SensorDays]:
    """The figures of messages that Kafka stamped at START_MS."""
    with no_rows(rules, memory=memory, **bounds) as rows:
        for each in messages:
            rows.add(each, START_MS)
        return sums_of(rows, zone=zone, **bounds)
