"""The contents of a report on completeness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from glaim_stream.operate.completeness.days import Days
from glaim_stream.operate.completeness.figures import Figures, SensorDays, by_day, percent


@dataclass(frozen=True)
class CompletenessReport:
    """The figures of all sensors.

    title: title of the file or topic.
    source: description of the source, for programs.
    begin_ms, end_ms: stretch of time in which cells were expected.
    sensors: sensors with the worst first, by the share of good readings.
    filled: True if the methods that filled holes are known.
    stream: True if readings can be late, and their delays are known.
    unread: number of messages that should count and could not be read.
    notes: sentences that help to read the figures.
    """

    title: str
    source: Mapping[str, Any]
    timezone: str
    days: Days
    begin_ms: int
    end_ms: int
    sensors: Sequence[SensorDays]
    filled: bool
    stream: bool
    unread: int = 0
    notes: Sequence[str] = field(default_factory=tuple)

    @cached_property
    def by_day(self) -> Figures:
        """Figures of all sensors together, [days]."""
        return by_day(self.sensors, len(self.days))

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len({each.group for each in self.sensors})


def worst_first(sensors: Sequence[SensorDays]) -> list[SensorDays]:
    """Sensors by their share of good readings, then of arrived ones, then by name."""

    def key(each: SensorDays) -> tuple[float, float, str, str]:
        figures = each.figures
        expected, arrived, good = (int(figures[name].sum()) for name in ("expected", "arrived", "good"))
        return percent(good, expected) or 0.0, percent(arrived, expected) or 0.0, each.group, each.sensor

    return sorted(sensors, key=key)
