"""Small tables for tests of the audit rules: two models, with readings and rows as tuples.

Model 0 ("last", groups g*): steps of 60 s, a window of 8 steps, max_gap 5, revise_after 2 and no lateness; sensor 0
is rounded to 0.01, sensor 1 is not, and sensor 2 reports every third step. Model 1 ("mean", groups h*): the same, but
steps of 30 s, a lateness of 60 s, the mean of a step's readings and revise_after 1.
"""

from collections.abc import Sequence

import numpy as np

from glaim_stream.core.catalogue import parse_catalogue
from glaim_stream.core.readings import Readings
from glaim_stream.core.vocabulary import Method
from glaim_stream.operate.audit.arrivals import ArrivalClock, Arrivals
from glaim_stream.operate.audit.arrivals import arrivals_of as placed
from glaim_stream.operate.audit.keys import Keys
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.output_rows import OutputRows

STEP_MS = 60_000
G1, G2, H1 = 0, 1, 2  # group codes
ALL = 1 << 30  # a commit beyond every offset

Reading = tuple[int, int, int, float]  # group, sensor, event time in ms, value


def model_columns() -> ModelColumns:
    sensors = [{"id": "a", "resolution": 0.01}, {"id": "b"}, {"id": "c", "cadence_s": 180}]
    rules = {"window": 8, "max_gap": 5}
    models = [
        {"name": "last", "step_s": 60, "revise_after": 2, "lateness_s": 0, "sensors": sensors, **rules},
        {"name": "mean", "step_s": 30, "revise_after": 1, "lateness_s": 60, "bucket": "mean",
         "sensors": sensors[:2], **rules},
    ]  # fmt: skip
    groups = [{"model": "last", "pattern": "g*"}, {"model": "mean", "pattern": "h*"}]
    columns = ModelColumns(parse_catalogue({"models": models, "groups": groups}, source="test"), {})
    assert [columns.index.group(name) for name in ("g1", "g2", "h1")] == [G1, G2, H1]
    return columns


COLUMNS = model_columns()


def readings(
    *given: Reading,
    offset: Sequence[int] | None = None,
    quality: Sequence[int] | None = None,
    produced_ms: Sequence[int] | None = None,
) -> Readings:
    """Readings in order of arrival, one record each."""
    count = len(given)
    group = np.array([reading[0] for reading in given], np.int32)
    time_ms = np.array([reading[2] for reading in given], np.int64)
    return Readings(
        model=(group == H1).astype(np.int32),
        group=group,
        sensor=np.array([reading[1] for reading in given], np.int32),
        event_time_ms=time_ms,
        value=np.array([reading[3] for reading in given], np.float64),
        offset=np.arange(count) if offset is None else np.array(offset, np.int64),
        position=np.zeros(count, np.int32),
        quality=np.zeros(count, np.int8) if quality is None else np.array(quality, np.int8),
        produced_ms=time_ms if produced_ms is None else np.array(produced_ms, np.int64),
        requeued=np.zeros(count, np.bool_),
    )


def row(
    step: int,
    value: float,
    *,
    group: int = G1,
    sensor: int = 0,
    observed: bool = False,
    final: bool = True,
    method: Method = Method.MODEL,
    gap_age: int = 1,
    revision: int = 0,
    event_time_ms: int = 0,
    quality: int = 0,
    once: bool = False,
    version: int = 0,
) -> OutputRows:
    """One output row."""
    return OutputRows(
        model=np.array([group == H1], np.int32),
        group=np.array([group], np.int32),
        sensor=np.array([sensor], np.int32),
        step=np.array([step], np.int64),
        value=np.array([value], np.float64),
        observed=np.array([observed]),
        final=np.array([final]),
        method=np.array([method], np.int8),
        gap_age=np.array([gap_age], np.int32),
        revision=np.array([revision], np.int32),
        event_time_ms=np.array([event_time_ms], np.int64),
        quality=np.array([quality], np.int8),
        once=np.array([once]),
        version=np.array([version], np.int32),
    )


def output(*given: OutputRows) -> OutputRows:
    """Output rows in topic order."""
    return OutputRows(*(np.concatenate([getattr(each, name) for each in given]) for name in OutputRows.__slots__))


def no_rows() -> OutputRows:
    return row(0, 0.0).where(np.zeros(1, np.bool_))


def arrivals_of(given: Readings, committed: int, columns: ModelColumns) -> Arrivals:
    """Readings placed in time by a clock of their own."""
    clock = ArrivalClock(columns, committed)
    open_from = clock.open_from(given)
    return placed(given, open_from, clock.closed_at_commit, committed, columns)


def arrived(*given: Reading, committed: int = ALL) -> Arrivals:
    return arrivals_of(readings(*given), committed, COLUMNS)


def keys_of(rows: OutputRows, arrivals: Arrivals | None = None) -> Keys:
    steps = [rows.step] if arrivals is None else [rows.step, arrivals.step]
    return Keys.over(7, COLUMNS, *steps)


def key_of(rows: OutputRows, keys: Keys) -> np.ndarray:
    return keys.of(rows.group, rows.sensor, rows.step)
