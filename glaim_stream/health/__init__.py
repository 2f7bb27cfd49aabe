"""Sensor health: events about sensors that are frozen, at a limit, spiking, drifting, chattering, late, or silent.

`habits.learn` learns each sensor's normal behaviour from readings, and the thresholds that keep false alarms at a
stated rate. `detect.detect` finds events in later readings. Both are functions of series on an even grid; an event
depends on `detect.MEMORY` steps at most, so a restart that reads as many steps again finds the same events.
"""

from glaim_stream.health import drift, live, runs, statistics
from glaim_stream.health.detect import MEMORY, QUIET, detect
from glaim_stream.health.doubtful_series import doubtful_cells
from glaim_stream.health.estimates import BLOCK, FEWEST
from glaim_stream.health.events import Event, Fault
from glaim_stream.health.habits import FEWEST_STEPS, Habits, learn
from glaim_stream.health.live import DETECTORS, FEWEST_JUDGED_STEPS, WINDOW_BLOCKS, Found, LiveHabits
from glaim_stream.health.plausibility import FEWEST_READINGS, Plausibility, Range, screen_of
from glaim_stream.health.series import Series, of_whole, onsets, whole
from glaim_stream.health.source import HabitsSource
from glaim_stream.health.stored import form_with_habits, with_habits

__all__ = [
    "BLOCK",
    "DETECTORS",
    "FEWEST",
    "FEWEST_JUDGED_STEPS",
    "FEWEST_READINGS",
    "FEWEST_STEPS",
    "MEMORY",
    "QUIET",
    "WINDOW_BLOCKS",
    "Event",
    "Fault",
    "Found",
    "Habits",
    "HabitsSource",
    "LiveHabits",
    "Plausibility",
    "Range",
    "Series",
    "detect",
    "doubtful_cells",
    "drift",
    "form_with_habits",
    "learn",
    "live",
    "of_whole",
    "onsets",
    "runs",
    "screen_of",
    "statistics",
    "whole",
    "with_habits",
]
