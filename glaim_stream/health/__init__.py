"""Sensor health: events about sensors that are frozen, at a limit, spiking, drifting, chattering, late, or silent.

`habits.learn` learns each sensor's normal behaviour from readings, and the thresholds that keep false alarms at a
stated rate. `detect.detect` finds events in later readings. Both are functions of series on an even grid; an event
depends on `detect.MEMORY` steps at most, so a restart that reads as many steps again finds the same events.
"""

from glaim_stream.health import blocks, live, runs
from glaim_stream.health.detect import MEMORY, QUIET, Event, Fault, detect, kind_of
from glaim_stream.health.doubtful_series import doubtful_cells
from glaim_stream.health.estimates import BLOCK
from glaim_stream.health.habits import FEWEST_STEPS, Habits, learn
from glaim_stream.health.live import DETECTORS, FEWEST_JUDGED_STEPS, Found, LiveHabits
from glaim_stream.health.plausibility import FEWEST_READINGS, Plausibility, Range, screen_of
from glaim_stream.health.series import GridSeries, onsets
from glaim_stream.health.stored import HabitsSource, form_with_habits, with_habits

__all__ = [
    "BLOCK",
    "DETECTORS",
    "FEWEST_JUDGED_STEPS",
    "FEWEST_READINGS",
    "FEWEST_STEPS",
    "MEMORY",
    "QUIET",
    "Event",
    "Fault",
    "Found",
    "GridSeries",
    "Habits",
    "HabitsSource",
    "LiveHabits",
    "Plausibility",
    "Range",
    "blocks",
    "detect",
    "doubtful_cells",
    "form_with_habits",
    "kind_of",
    "learn",
    "live",
    "onsets",
    "runs",
    "screen_of",
    "with_habits",
]
