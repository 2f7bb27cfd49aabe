"""What the demo streams: days of the simulated plant that no model has seen, or the last part of the Beijing years."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deploy.cache import CHECKOUT
from deploy.demo.grid import Grid
from glaim_stream.catalogue import Catalogue, Model, read_catalogue
from glaim_stream.errors import SettingsError
from glaim_stream.feed.sources import Source, plant_source, read_source

CATALOGUES = CHECKOUT / "deploy" / "catalogues"
BEIJING_FILE = "beijing_multisite.parquet"

# As much as passes in under a minute at a speed that two cores keep up with: above it, latency would be queueing.
_PLANT_HOURS, _PLANT_SPEED = 24.0, 1800.0
_BEIJING_HOURS, _BEIJING_SPEED = 640.0, 36_000.0
# Training takes the first 70 % of the hours, validation the next 10: the last 20 % were seen by nobody.
_TEST_SHARE = 0.2
_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Scenario:
    """One thing to stream, and the catalogue that describes it."""

    name: str
    title: str
    detail: str
    catalogue_path: Path
    catalogue: Catalogue
    source: Source  # what really was there, before anything is hidden
    hours: float
    speed: float | None  # event seconds a second; None: as fast as it goes

    @property
    def model(self) -> Model:
        """The one model of the catalogue."""
        return self.catalogue.models[0]

    @property
    def grid(self) -> Grid:
        """Every group, sensor and step of it."""
        step_ms = self.model.step_ms
        first, last = (int(self.source.time_ms[place]) // step_ms for place in (0, -1))
        groups = tuple(self.source.groups)
        return Grid(groups, tuple(self.model.sensor_ids), first * step_ms, step_ms, last - first + 1)


def plant(*, hours: float | None = None, groups: int | None = None, speed: float | None = None, seed: int) -> Scenario:
    """Simulated pumps on days that are drawn by `seed`; the model learned those of another one.

    Args:
        hours: event time; None: the default.
        groups: pumps; None: eight.
        speed: times real time, 0 for as fast as it goes; None: the default.
        seed: draws demand, valves, weather and noise.
    """
    hours = _PLANT_HOURS if hours is None else hours
    source = plant_source(hours / 24, groups=groups or 8, seed=seed)
    path = CATALOGUES / "plant.yaml"
    catalogue = read_catalogue(path)
    return Scenario(
        "plant",
        "Simulated pump plant",
        f"{len(source.groups)} pumps of {len(catalogue.models[0].sensors)} sensors, a reading a minute, "
        f"{hours:g} hours that the model has not seen",
        path,
        catalogue,
        source,
        hours,
        (_PLANT_SPEED if speed is None else speed) or None,
    )


def beijing(
    data: Path, *, hours: float | None = None, groups: int | None = None, speed: float | None = None
) -> Scenario:
    """The last hours of the stations' file, with its own gaps.

    Args:
        data: folder that holds the file.
        hours: event time, counted from the end; None: the default.
        groups: stations; None: all twelve.
        speed: times real time, 0 for as fast as it goes; None: the default.

    Raises:
        SettingsError: the file is not there, or more is asked for than its test part holds.
    """
    file = data / BEIJING_FILE
    if not file.is_file():
        raise SettingsError(f"expected {BEIJING_FILE} in {data}, found none")
    path = CATALOGUES / "beijing.yaml"
    catalogue = read_catalogue(path)
    stations, sensors = set(catalogue.groups[0].ids[: groups or None]), set(catalogue.models[0].sensor_ids)
    everything = read_source(file)
    hours = _BEIJING_HOURS if hours is None else float(round(hours))
    end_ms = int(everything.time_ms[-1]) + _HOUR_MS
    most = int((end_ms - int(everything.time_ms[0])) / _HOUR_MS * _TEST_SHARE)
    if hours > most:
        raise SettingsError(f"the test part of {BEIJING_FILE} has {most} hours, --hours asks for {hours:g}")
    wanted = np.array([group in stations and sensor in sensors for group, sensor in everything.cells])
    source = everything.between(end_ms - int(hours) * _HOUR_MS, None)
    source = _dense_cells(source.where(wanted[source.cell]), wanted)
    return Scenario(
        "beijing",
        "Air quality in Beijing",
        f"{len(stations)} stations of {len(sensors)} sensors, hourly, with gaps of their own: the last {hours:g} hours "
        "of the years 2013 to 2017, which the model has not seen",
        path,
        catalogue,
        source,
        hours,
        (_BEIJING_SPEED if speed is None else speed) or None,
    )


def _dense_cells(source: Source, wanted: np.ndarray) -> Source:
    """The same readings with only the wanted cells in the list of cells."""
    code = np.cumsum(wanted) - 1
    cells = [cell for cell, keep in zip(source.cells, wanted.tolist(), strict=True) if keep]
    return Source(cells, code[source.cell].astype(np.int32), source.time_ms, source.value)
