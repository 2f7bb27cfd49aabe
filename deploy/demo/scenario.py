"""The data that the demo streams: unseen days of the simulated plant, or the last part of the Beijing years."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deploy.cache import CHECKOUT
from deploy.demo.grid import Grid
from glaim_stream.core.catalogue import Catalogue, Model, read_catalogue
from glaim_stream.core.errors import SettingsError
from glaim_stream.feed import Source, plant_source, read_source

CATALOGUES = CHECKOUT / "deploy" / "catalogues"
BEIJING_FILE = "beijing_multisite.parquet"

# Streamed in under two minutes, at a speed that two cores keep up with; above it, latency would measure queueing.
_PLANT_HOURS, _PLANT_SPEED = 12.0, 450.0
_BEIJING_HOURS, _BEIJING_SPEED = 320.0, 12_000.0
# Training uses the first 70 % of the hours and validation the next 10 %; no model has seen the last 20 %.
_TEST_SHARE = 0.2
_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Scenario:
    """Data to stream, and the catalogue that describes it."""

    name: str
    title: str
    detail: str
    catalogue_path: Path
    catalogue: Catalogue
    source: Source  # the complete readings, before any are hidden
    hours: float
    speed: float | None  # seconds of event time per second; None: as fast as possible

    @property
    def model(self) -> Model:
        """The one model of the catalogue."""
        return self.catalogue.models[0]

    @property
    def grid(self) -> Grid:
        """The grid of all groups, sensors and steps."""
        step_ms = self.model.step_ms
        first, last = (int(self.source.time_ms[place]) // step_ms for place in (0, -1))
        groups = tuple(self.source.groups)
        return Grid(groups, tuple(self.model.sensor_ids), first * step_ms, step_ms, last - first + 1)


def plant(*, hours: float | None = None, groups: int | None = None, speed: float | None = None, seed: int) -> Scenario:
    """Simulated pumps on random days; the model was trained on days of another seed.

    Args:
        hours: Duration in event time; None: the default.
        groups: Number of pumps; None: eight.
        speed: Multiple of real time, or 0 for as fast as possible; None: the default.
        seed: Random seed of demand, valves, weather and noise.
    """
    hours = _PLANT_HOURS if hours is None else hours
    source = plant_source(hours / 24, groups=groups or 8, seed=seed)
    path = CATALOGUES / "plant.yaml"
    catalogue = read_catalogue(path)
    return Scenario(
        "plant",
        "Simulated pump plant",
        f"{len(source.groups)} pumps with {len(catalogue.models[0].sensors)} sensors, one reading per minute, "
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
        data: Folder that contains the file.
        hours: Duration in event time, counted from the end; None: the default.
        groups: Number of stations; None: all twelve.
        speed: Multiple of real time, or 0 for as fast as possible; None: the default.

    Raises:
        SettingsError: The file does not exist, or its test part is shorter than `hours`.
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
        f"{len(stations)} stations with {len(sensors)} sensors, hourly, with real gaps: the last {hours:g} hours "
        "of the years 2013 to 2017, which the model has not seen",
        path,
        catalogue,
        source,
        hours,
        (_BEIJING_SPEED if speed is None else speed) or None,
    )


def _dense_cells(source: Source, wanted: NDArray[np.bool_]) -> Source:
    """The same readings, with the list of cells reduced to the wanted ones."""
    code = np.cumsum(wanted) - 1
    cells = [cell for cell, keep in zip(source.cells, wanted.tolist(), strict=True) if keep]
    return Source(cells, code[source.cell].astype(np.int32), source.time_ms, source.value)
