"""What the demo streams: days of the simulated plant that no model has seen, or the last part of the Beijing years."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deploy.cache import CHECKOUT
from glaim_stream.catalogue import Catalogue, Model, read_catalogue
from glaim_stream.errors import GlaimError
from glaim_stream.plant import START_MS, simulate, write_parquet

CATALOGUES = CHECKOUT / "deploy" / "catalogues"
BEIJING_FILE = "beijing_multisite.parquet"

# The plant's model learned the first days of 2026 of other seeds; the demo's days come half a year later.
_PLANT_START_MS = START_MS + 182 * 24 * 3_600_000
# Training takes the first 70 % of the rows, validation the next 10: the last 20 % were seen by nobody.
_TEST_SHARE = 0.2


class ScenarioError(GlaimError):
    """The scenario cannot be played as asked."""


@dataclass(frozen=True)
class Scenario:
    """One thing to stream: a wide file of readings and the catalogue that describes it."""

    name: str
    title: str
    detail: str
    catalogue_path: Path
    catalogue: Catalogue
    groups: tuple[str, ...]
    file: Path  # column `time` and one column `<group>.<sensor>` each
    hours: float
    speed: float

    @property
    def model(self) -> Model:
        """The one model of the catalogue."""
        return self.catalogue.models[0]


def plant(folder: Path, *, hours: float | None, groups: int | None, speed: float | None, seed: int) -> Scenario:
    """Simulate pumps into a file of `folder`."""
    hours = 24.0 if hours is None else hours
    simulated = simulate(hours / 24, groups=groups or 8, seed=seed, start_ms=_PLANT_START_MS)
    file = folder / "readings.parquet"
    write_parquet(simulated, file)
    path = CATALOGUES / "plant.yaml"
    return Scenario(
        "plant",
        "Simulated pump plant",
        f"{len(simulated.groups)} pumps of {len(simulated.sensors)} sensors, a reading a minute, {hours:g} hours that "
        "no model has seen",
        path,
        read_catalogue(path),
        simulated.groups,
        file,
        hours,
        2400.0 if speed is None else speed,
    )


def beijing(folder: Path, data: Path, *, hours: float | None, groups: int | None, speed: float | None) -> Scenario:
    """Cut the end of the test part out of the stations' file.

    Raises:
        ScenarioError: the file is not there, or more is asked for than its test part holds.
    """
    source = data / BEIJING_FILE
    if not source.is_file():
        raise ScenarioError(f"expected {BEIJING_FILE} in {data}, found none")
    path = CATALOGUES / "beijing.yaml"
    catalogue = read_catalogue(path)
    stations = tuple(catalogue.groups[0].ids)[: groups or None]
    sensors = catalogue.models[0].sensor_ids
    table = pq.read_table(source, columns=["ts", *_columns(stations, sensors)])
    rows = 960 if hours is None else round(hours)
    most = int(table.num_rows * _TEST_SHARE)
    if rows > most:
        raise ScenarioError(f"the test part of {BEIJING_FILE} has {most} hours, --hours asks for {rows}")
    part = table.slice(table.num_rows - rows)
    times = part["ts"].cast(pa.timestamp("ms")).cast(pa.timestamp("ms", tz="UTC"))
    columns = {"time": times, **{name: part[name].cast(pa.float32()) for name in _columns(stations, sensors)}}
    file = folder / "readings.parquet"
    pq.write_table(pa.table(columns), file)
    return Scenario(
        "beijing",
        "Air quality in Beijing",
        f"{len(stations)} stations of {len(sensors)} sensors, hourly, the last {rows} hours of the years 2013 to 2017: "
        "of the part that the model was not trained on",
        path,
        catalogue,
        stations,
        file,
        float(rows),
        36_000.0 if speed is None else speed,
    )


def first_and_last_ms(file: Path) -> tuple[int, int]:
    """Time of the first and the last row of a scenario's file, epoch milliseconds."""
    times = pq.read_table(file, columns=["time"])["time"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
    bounds = pc.min_max(times).as_py()
    return int(bounds["min"]), int(bounds["max"])


def count_readings(file: Path) -> int:
    """Readings in a scenario's file: cells that hold a number."""
    table = pq.read_table(file)
    return sum(
        int(np.isfinite(table[name].to_numpy(zero_copy_only=False)).sum())
        for name in table.column_names
        if name != "time"
    )


def _columns(groups: Sequence[str], sensors: Sequence[str]) -> list[str]:
    return [f"{group}.{sensor}" for group in groups for sensor in sensors]
