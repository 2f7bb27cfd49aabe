"""Sliding windows of one partition: columns of readings in, rows of closed steps out. No I/O, no clock."""

from glaim_stream.windows.applied import Applied, joined_applied
from glaim_stream.windows.clock import NEVER_MS, ClockClose
from glaim_stream.windows.closed import NO_WINDOW, Closed, concatenate
from glaim_stream.windows.history import HORIZON, STRETCH, Lateness, error_steps, history_ms, history_steps
from glaim_stream.windows.holes import Rules
from glaim_stream.windows.model import ModelWindows
from glaim_stream.windows.outages import UNKNOWN_MS, Outage
from glaim_stream.windows.partition import PartitionWindows
from glaim_stream.windows.probes import (
    AGES,
    FEWEST_WINDOWS,
    MOST_COPIES,
    MOST_WINDOWS,
    Place,
    Prober,
    Probes,
    Sampling,
    age_class,
    gap_ages,
    joined,
    newest_steps,
    places,
)
from glaim_stream.windows.rings import Rings
from glaim_stream.windows.sensor_health import SensorEvent
from glaim_stream.windows.states import ROWS_AT_A_TIME, holed_groups, states_of
from glaim_stream.windows.upgrades import Upgrades

__all__ = [
    "AGES",
    "FEWEST_WINDOWS",
    "HORIZON",
    "MOST_COPIES",
    "MOST_WINDOWS",
    "NEVER_MS",
    "NO_WINDOW",
    "ROWS_AT_A_TIME",
    "STRETCH",
    "UNKNOWN_MS",
    "Applied",
    "ClockClose",
    "Closed",
    "Lateness",
    "ModelWindows",
    "Outage",
    "PartitionWindows",
    "Place",
    "Prober",
    "Probes",
    "Rings",
    "Rules",
    "Sampling",
    "SensorEvent",
    "Upgrades",
    "age_class",
    "concatenate",
    "error_steps",
    "gap_ages",
    "history_ms",
    "history_steps",
    "holed_groups",
    "joined",
    "joined_applied",
    "newest_steps",
    "places",
    "states_of",
]
