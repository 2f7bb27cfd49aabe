"""The paper's nine data sets, and a slice of one: file, rows and special settings of each.

Rows are taken as consecutive steps, whatever their time stamps: the field's loaders do so, and the paper's row counts
agree. For eight of the nine it makes no difference. In weather.csv one stamp (2020-05-12 06:00) occurs twice and one
gap of 100 minutes (2020-05-29 09:30) disappears; its -9999 are kept, as the paper must have done: with them its linear
baseline is reproduced. `python -m training.fit` does neither, because both are wrong for a stream.

Training, validation and test rows follow each other in time. ETT has 12/4/4 months, the field's split: the paper's
table of data sets counts twice as many test rows, but its own linear baseline is reproduced on this one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from training.config import data_folder
from training.data import DataSpec, GroupSeries, load
from training.errors import DataError

WINDOW = 96
MOST_CELLS = 5_000_000  # cells of the scored test windows; twice as many are not thinned out yet
HISTORY = 96  # rows before their part at which validation and test windows may begin: the convention of the field


@dataclass(frozen=True)
class Dataset:
    """One of the paper's data sets.

    rows: numbers of rows of training, validation and test.
    columns: columns of the file that are sensors; empty: all.
    sentinels: numbers that stand for no value. They stay in the windows and the scale, as the paper has them, and are
        missing in the fit of the closed form.
    """

    name: str
    file: str
    sensors: int
    rows: tuple[int, int, int]
    learning_rate: float = 1e-3
    d_g: int = 8
    time: str = "date"
    sentinels: tuple[float, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def every(self) -> int:
        """Interval between scored test windows unless a command states another, so that a cell takes minutes.

        1 but for Weather (4), Electricity (32) and PEMS03 (36).
        """
        return max(1, self.rows[2] * self.sensors * WINDOW // MOST_CELLS)

    @property
    def spec(self) -> DataSpec:
        """Options for reading and splitting its file."""
        return DataSpec(
            file=self.file, time=self.time, grid=False, rows=self.rows, history=HISTORY, sensors=self.columns
        )


_HOURLY, _QUARTERS = (8640, 2880, 2880), (34560, 11520, 11520)

# In the order of the benchmark: the quick ones first.
DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset("Illness", "national_illness.csv", 7, (676, 97, 193)),
        Dataset("ETTh1", "ETTh1.csv", 7, _HOURLY),
        Dataset("Exchange", "exchange_rate.csv", 8, (5311, 760, 1517)),
        Dataset("ETTh2", "ETTh2.csv", 7, _HOURLY),
        Dataset("ETTm1", "ETTm1.csv", 7, _QUARTERS),
        Dataset("ETTm2", "ETTm2.csv", 7, _QUARTERS),
        Dataset("Weather", "weather.csv", 21, (36887, 5270, 10539), learning_rate=3e-4, sentinels=(-9999.0,)),
        Dataset("Electricity", "electricity.csv", 321, (18412, 2632, 5260), learning_rate=3e-4, d_g=32),
        Dataset("PEMS03", "PEMS03.csv", 358, (18345, 2622, 5241), learning_rate=3e-4, d_g=36),
        # The first 64 sensors of the first 1,000 rows of Electricity: not the paper's, which prints nothing of it.
        Dataset(
            "Electricity-64",
            "electricity_slice1000.parquet",
            64,
            (700, 100, 200),
            learning_rate=3e-4,
            d_g=32,
            time="ts",
            columns=tuple(str(number) for number in range(64)),
        ),
    )
}


def find(dataset: Dataset) -> Path | None:
    """Find its file in the folder that GLAIM_DATA names (default ../shared/data), or in a folder below it."""
    folder = data_folder()
    direct = folder / dataset.file
    return direct if direct.is_file() else next(iter(sorted(folder.glob(f"*/{dataset.file}"))), None)


def absence(dataset: Dataset) -> str:
    """Return the message for an absent data set."""
    return f"{dataset.name}: expected {dataset.file} in {data_folder()} (GLAIM_DATA), found none; its cells stay empty"


def without_sentinels(dataset: Dataset, series: GroupSeries) -> GroupSeries:
    """Return rows of a data set in which the numbers that stand for no value are missing."""
    sentinels = np.isin(series.values, np.asarray(dataset.sentinels, series.values.dtype))
    return replace(series, values=np.where(sentinels, np.nan, series.values)) if sentinels.any() else series


def read(dataset: Dataset) -> GroupSeries:
    """Read the file's rows, [1, C, R].

    Raises:
        DataError: the file is absent, cannot be read, or has other sensors or fewer rows than the paper's.
    """
    path = find(dataset)
    if path is None:
        raise DataError(absence(dataset))
    series = load(dataset.spec, path)
    if len(series.sensors) != dataset.sensors or series.rows < sum(dataset.rows):
        raise DataError(
            f"{path.name}: expected {dataset.sensors} sensors and {sum(dataset.rows)} rows or more, "
            f"found {len(series.sensors)} and {series.rows}"
        )
    return series
