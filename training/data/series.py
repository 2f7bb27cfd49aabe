"""The data of a run: its [data] section, the series read from it, their split in time, and their scale.

`training.data.tables` reads the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from glaim_stream.files import ORDERS
from training.errors import DataError

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class DataSpec:
    """The source of the readings and its format: a run's [data] section.

    Empty settings are found out from the file, as `glaim-stream fill` does: `time` (a column, or two as
    `Date+Clock`), `group` (a column), `sensor` and `value` (the columns of a file with a reading a row), `separator`
    (of group and sensor in column names), `decimal`, `date_order` (dmy or mdy) and the numbers that surely mean no
    value. `group_name` names the only group of a file that names none. `sensors` picks and orders the sensors; empty:
    all. `sentinels` are further numbers that mean "no value", for all sensors or for one, and `no_value` are texts
    that do (`Bad`, `-`). With `only_sentinels` no other number means it. `timezone` applies to times that name none.
    `step_s` is the step in seconds: stated, the steps are those of a worker with a model of this step; 0 finds it from
    the times. `bucket` is the value of a step with several readings, as in a worker's catalogue: `last` takes the
    latest one, `mean` the mean of all. `directions` are sensors in degrees, of which 360 is 0 again: their mean is the
    mean direction. `grid = false` takes the rows of a wide table as consecutive steps, whatever their times, and its
    numbers unchanged: the field's benchmarks do.
    `split` are the shares of rows for training, validation and test, in time order; `rows` gives them as numbers
    instead, further rows being left out. Windows of the validation and test parts may start up to `history` rows before
    their part: 0 keeps the parts apart, and the field's convention is a window's length, so that the first row of a
    part is already seen with a full past. `plausibility` leaves out readings that stand apart from those around them;
    it is on for a file without a configuration.
    """

    file: str = ""
    time: str = ""
    separator: str = ""
    group_name: str = "group"
    group: str = ""
    sensor: str = ""
    value: str = ""
    sensors: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    sentinels: tuple[float, ...] = ()
    sensor_sentinels: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    only_sentinels: bool = False
    no_value: tuple[str, ...] = ()
    decimal: str = ""
    date_order: str = ""
    timezone: str = "UTC"
    step_s: float = 0.0
    bucket: str = "last"
    directions: tuple[str, ...] = ()
    grid: bool = True
    split: tuple[float, float, float] = (0.7, 0.1, 0.2)
    rows: tuple[int, ...] = ()
    history: int = 0
    plausibility: bool = False

    def __post_init__(self) -> None:
        if self.bucket not in ("last", "mean"):
            raise ValueError(f"bucket must be last or mean, found {self.bucket!r}")
        if self.decimal not in ("", ".", ","):
            raise ValueError(f"decimal must be a point, a comma or empty, found {self.decimal!r}")
        if self.date_order not in ("", *ORDERS):
            raise ValueError(f"date_order must be {', '.join(ORDERS)} or empty, found {self.date_order!r}")
        if len(self.split) != 3 or min(self.split) <= 0 or abs(sum(self.split) - 1) > 1e-6:
            raise ValueError(f"split must be three shares above 0 that sum to 1, found {self.split}")
        if self.rows and (len(self.rows) != 3 or min(self.rows) < 1):
            raise ValueError(f"rows must be none or three counts above 0, found {self.rows}")
        if self.history < 0:
            raise ValueError(f"history must be 0 rows or more, found {self.history}")
        if not self.grid and (self.sensor or self.group):
            raise ValueError("grid = false needs a wide table with one row for each time")
        if self.group and self.separator:
            raise ValueError("the group is in a column or in the columns' names: give group or separator, not both")


@dataclass(frozen=True)
class GroupSeries:
    """Readings of G groups with the same C sensors on one grid of R rows; NaN where there is no value."""

    groups: tuple[str, ...]
    sensors: tuple[str, ...]
    units: tuple[str, ...]
    times_ms: NDArray[np.int64]  # [R], UTC
    values: Floats  # [G, C, R]
    step_s: float
    source: str
    sha256: str
    stray: int = 0  # rows left out because their times lie far from all others
    doubted: int = 0  # readings left out because they stand apart from those around them
    withheld: Mapping[str, int] = field(default_factory=dict)  # cells that are no reading to use, by sensor

    @property
    def rows(self) -> int:
        """R, the rows of the grid."""
        return int(self.values.shape[-1])

    def part(self, start: int, stop: int) -> GroupSeries:
        """The rows [start, stop)."""
        return replace(self, times_ms=self.times_ms[start:stop], values=self.values[:, :, start:stop])


@dataclass(frozen=True)
class Split:
    """Training, validation and test parts in time order; the latter two begin with their `history`, if any."""

    train: GroupSeries
    validation: GroupSeries
    test: GroupSeries


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of each sensor's observed training values, in its unit; float64 [C]."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]

    def apply(self, values: Floats) -> Floats:
        """Sensor units -> standardised, [..., C, R]; NaN stays NaN."""
        return ((values - self.mean[:, None]) / self.std[:, None]).astype(np.float32)


def split(series: GroupSeries, spec: DataSpec, window: int) -> Split:
    """Split in time order by `spec.rows` or `spec.split`; every part must hold at least one window.

    Raises:
        DataError: a part is shorter than a window, or the series has fewer rows than `spec.rows` names.
    """
    if spec.rows:
        first, second, last = (sum(spec.rows[:count]) for count in (1, 2, 3))
        if last > series.rows:
            raise DataError(f"expected {last} rows in {series.source} for the parts {spec.rows}, found {series.rows}")
    else:
        first = round(series.rows * spec.split[0])
        second = round(series.rows * (spec.split[0] + spec.split[1]))
        last = series.rows
    before = max(0, first - spec.history), max(0, second - spec.history)
    parts = Split(series.part(0, first), series.part(before[0], second), series.part(before[1], last))
    for name, part in (("training", parts.train), ("validation", parts.validation), ("test", parts.test)):
        if part.rows < window:
            raise DataError(
                f"a window of {window} steps is longer than the {name} part: {part.rows} of the {series.rows} rows "
                f"of {series.source}; give more data, a shorter window or other shares than {spec.rows or spec.split}"
            )
    return parts


def fit_scale(train: GroupSeries) -> Scale:
    """Compute the statistics of each sensor over all groups, from observed training values only.

    Raises:
        DataError: a sensor has no observed value in the training part.
    """
    stacked = train.values.astype(np.float64).transpose(1, 0, 2).reshape(len(train.sensors), -1)  # (C, G*R)
    silent = [name for name, row in zip(train.sensors, stacked, strict=True) if not np.isfinite(row).any()]
    if silent:
        raise DataError(
            f"sensors without an observed value in the training part of {train.source}: {', '.join(silent)}; "
            "leave them out: list the others in data.sensors"
        )
    std = np.nanstd(stacked, axis=1)
    # A constant sensor has no scale; 1 keeps its unit.
    std = np.where(std > 1e-12, std, 1.0)
    return Scale(np.nanmean(stacked, axis=1), std, np.nanmin(stacked, axis=1), np.nanmax(stacked, axis=1))
