"""Makes rows of closed steps and imputed values: rounding, limits, status. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import Method, Quality, Status
from glaim_stream.form import Kind, Limits, are, by_kind
from glaim_stream.imputers import Imputed
from glaim_stream.output.intervals import bands, intervals, possible_range, publishable, reaching
from glaim_stream.output.records import Rows
from glaim_stream.output.sensor_tables import SensorTable
from glaim_stream.windows import NO_WINDOW, Closed

Floats = NDArray[np.float64]
TableOf = Callable[[str], SensorTable]  # gives the table of a model version


def repair(
    closed: Closed,
    imputed: Imputed | None,
    table: SensorTable,
    version_names: list[str],
    table_of: TableOf | None = None,
    limits: Limits | None = None,
    half_widths: Floats | None = None,
    kinds: Sequence[Kind] | None = None,
) -> Rows:
    """Fill the holes of closed steps.

    Args:
        closed: rows and windows of one model.
        imputed: the imputed windows; None if there are none.
        table: the model's sensors.
        version_names: model versions seen so far; new ones are appended, and rows contain the index. Entry 0 is "".
        table_of: the sensors with the intervals of a version; None: `table` for every version.
        limits: limits of the windows [n, C], which imputed values and their intervals do not cross; None: no limits.
        half_widths: half-widths of the rows' intervals, below and above the value, [rows, 2]. The contract or the
            closed form's deviation gives those that are NaN, or all if None.
        kinds: kinds of the sensors, as the closed form recognised them; None: all are numbers.

    Returns:
        Rows whose sensor codes are row indices of the model.
    """
    count = len(closed)
    value = closed.value.copy()
    method = np.where(closed.observed, np.int8(Method.OBSERVED), np.int8(Method.NONE))
    version = np.zeros(count, np.int32)
    deviation = np.full(count, np.nan)
    holes = np.flatnonzero(closed.window != NO_WINDOW)
    if len(holes):
        assert imputed is not None
        window, sensor = closed.window[holes], closed.sensor[holes]
        step = imputed.values.shape[2] - 1 - closed.lag[holes]
        filled = imputed.values[window, sensor, step]
        filled[np.isinf(filled)] = np.nan  # never a meaningful value
        how = imputed.method[window, sensor, step]
        possible = possible_range(window, sensor, table, limits)
        value[holes] = published(filled, sensor, how, table, possible, kinds)
        method[holes] = np.where(np.isnan(filled), np.int8(Method.NONE), how)
        version[holes] = _codes(imputed.version, version_names)[window]
        if imputed.deviation is not None:
            deviation[holes] = imputed.deviation[window, sensor, step]
    by_form = (method == Method.GAUSSIAN) | ((method == Method.BLEND) & np.isfinite(deviation))
    by_model = (method == Method.MODEL) | ((method == Method.BLEND) & ~by_form)
    if by_form.any() and imputed is not None and imputed.form_version:
        version[by_form] = _codes([imputed.form_version], version_names)
    lower, upper = np.full((2, count), np.nan)
    for code in np.unique(version[by_model]).tolist():  # one, except while a model is being replaced
        rows = np.flatnonzero(by_model & (version == code))
        version_table = table if table_of is None else table_of(version_names[code])
        lower[rows], upper[rows] = intervals(
            value[rows], closed.sensor[rows], closed.gap_age[rows], closed.lag[rows] == 0, version_table
        )
    lower[by_form], upper[by_form] = bands(value[by_form], deviation[by_form], closed.sensor[by_form], table)
    if half_widths is not None:
        known = np.isfinite(half_widths).all(axis=1) & np.isfinite(value) & ~closed.observed
        lower[known], upper[known] = reaching(value[known], half_widths[known], closed.sensor[known], table)
    if limits is not None and len(holes):
        lowest, highest = limits.lowest[window, sensor], limits.highest[window, sensor]
        lower[holes] = np.minimum(np.maximum(lower[holes], lowest), value[holes])
        upper[holes] = np.maximum(np.minimum(upper[holes], highest), value[holes])
    wide = upper - lower > table.max_interval[closed.sensor]
    value[wide] = lower[wide] = upper[wide] = np.nan
    method[wide] = Method.NONE
    if kinds is not None and len(holes):
        lower[holes], upper[holes] = by_kind(lower[holes], upper[holes], value[holes], kinds, sensor, *possible)
    version[~(by_model | by_form) | wide] = 0
    return Rows(
        closed.group,
        closed.sensor,
        closed.ts_ms,
        closed.stamp_ms,
        value,
        closed.observed,
        method,
        _status(closed, method, wide, table),
        lower,
        upper,
        closed.gap_age,
        closed.revision,
        closed.final,
        version,
    )


def _status(
    closed: Closed, method: NDArray[np.int8], wide: NDArray[np.bool_], table: SensorTable
) -> NDArray[np.uint32]:
    """The StatusCode of each row; for a null row it gives the reason (see vocabulary.py)."""
    status = np.where(closed.quality == Quality.UNCERTAIN, np.uint32(Status.UNCERTAIN), np.uint32(Status.GOOD))
    status[closed.doubted & (closed.quality == Quality.GOOD)] = Status.UNCERTAIN_SENSOR_NOT_ACCURATE
    filled = np.flatnonzero(~closed.observed & (method != Method.NONE))
    last = method[filled] == Method.LAST_VALUE
    status[filled] = np.where(last, Status.UNCERTAIN_LAST_USABLE_VALUE, Status.UNCERTAIN_SUBSTITUTE_VALUE)
    null = np.flatnonzero(method == Method.NONE)
    silent = np.where(
        closed.gap_age[null] >= table.window, np.uint32(Status.BAD_NO_DATA), np.uint32(Status.BAD_NO_COMMUNICATION)
    )
    silent[closed.quality[null] == Quality.BAD] = Status.BAD_SENSOR_FAILURE
    status[null] = np.where(closed.window[null] == NO_WINDOW, silent, np.uint32(Status.BAD_DATA_UNAVAILABLE))
    status[wide] = Status.BAD_AGGREGATE_INVALID_INPUTS
    return status


def published(
    value: NDArray[np.float64],
    sensor: NDArray[np.int32] | NDArray[np.int64],
    method: NDArray[np.int8],
    table: SensorTable,
    possible: tuple[Floats, Floats],
    kinds: Sequence[Kind] | None = None,
) -> NDArray[np.float64]:
    """Return filled values [n] as they are published: rounded, and within the limits of sensor and window.

    A state that no network has a part in is a reading, and stays as it is: 1 is not a multiple of every resolution.

    Args:
        value: [n], sensor units.
        sensor: [n].
        method: [n].
        table: the model's sensors.
        possible: lowest and highest value of each cell (`possible_range`).
        kinds: kinds of the sensors; None: all are numbers.
    """
    limited = np.clip(value, *possible)
    rounded = publishable(limited, sensor, table)
    if kinds is not None:
        reading = are(kinds, Kind.STATE)[sensor] & ~np.isin(method, (Method.MODEL, Method.BLEND))
        rounded = np.where(reading, limited, rounded)
    return np.clip(rounded, *possible)  # the next multiple of the resolution may lie beyond a limit


def _codes(versions: Sequence[str], names: list[str]) -> NDArray[np.int32]:
    for version in versions:
        if version not in names:
            names.append(version)
    place = {name: code for code, name in enumerate(names)}
    return np.array([place[version] for version in versions], np.int32)
