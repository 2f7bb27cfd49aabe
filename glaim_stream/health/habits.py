"""Habits: normal behaviour of the sensors of some groups, and the thresholds of their detectors.

The learned readings are cut in time. The first part gives the usual values of each sensor (units); the second part
shows how often they are exceeded (thresholds), so no threshold is judged by the readings that made its unit.

Residuals are correlated in time and have heavy tails, so no distribution of single values is assumed. Episodes are
counted, as an operator sees them: an episode begins when a statistic exceeds its threshold after a quiet time. As many
of the highest values of a sensor's episodes exceed its threshold as the rate allows. If the rate allows fewer than
`_TAIL`, the tail is extrapolated by a power law with the exponent of Hill: heavier tails give higher thresholds.

Source: Hill (1975), A simple general approach to inference about the tail of a distribution; Weissman (1978),
Estimation of parameters and large quantiles based on the k largest observations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import ModelError
from glaim_stream.form import ClosedForm
from glaim_stream.form import fit as fit_form
from glaim_stream.health import drift, runs, statistics
from glaim_stream.health.estimates import BLOCK, Estimates, block_means, estimates_of
from glaim_stream.health.series import GridSeries

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

RATE = 10.0  # false alarms in 1,000 sensor-days
DETECTORS = ("runs", "silence", "gaps", "spiking", "chatter", "clock", "drift")
FORM_STEPS = 24  # steps in the windows of a closed form that is fitted here: block means need no longer ones
FEWEST_STEPS = 16 * FORM_STEPS  # steps from which a group is learned
GAPS_WINDOW = 96  # steps
_APART = 48  # steps between two episodes
_FEWEST_READINGS = 64  # readings from which a sensor is judged
_USUAL = 0.5  # share of the learned steps from which the units come
_LEAST = {"runs": 4.0, "silence": 8.0, "gaps": 3.0, "spiking": 1.0, "chatter": 0.25, "clock": 0.02}
_MOST_REST = 2.0  # a rest may last as many times the longest usual one: nights, droughts and repairs differ
_LEAST_DRIFT = 1e-3  # scales
_FEWEST_EPISODES = 30  # episodes of a sensor from which it has a threshold of its own
_TAIL = 10  # number of highest episodes to which the tail is fitted
_LEAST_TAIL = 1.0  # units; a threshold is never below the usual value
_STEEPEST, _FLATTEST = 0.05, 0.5  # bounds of the inverse exponent
_RANK = 3  # the third-highest episode is a sensor's unit: two faults in the learned readings do not blind it


@dataclass(frozen=True)
class Habits:
    """Learned behaviour of C sensors.

    levels: means of the readings by group, float64 [C]; NaN without one.
    judged: sensors with enough readings by group, bool [C].
    resting: values at which each sensor rests, by sensor.
    longest_rest: float64 [C], readings of the longest usual run at a resting value.
    lowest, highest: float64 [C], range of the readings.
    units: units of spikes and chatter.
    unit: unit of the statistic by detector, float64 [C].
    threshold: threshold by detector, float64 [C], in units.
    """

    sensors: tuple[str, ...]
    step_ms: int
    levels: Mapping[str, Doubles]
    judged: Mapping[str, Bools]
    resting: Sequence[Doubles]
    longest_rest: Doubles
    lowest: Doubles
    highest: Doubles
    units: statistics.Units
    estimates: Estimates | None
    unit: Mapping[str, Doubles] = field(default_factory=dict)
    threshold: Mapping[str, Doubles] = field(default_factory=dict)

    @property
    def rest(self) -> Doubles:
        """Number of readings of a run at a resting value that count as one, float64 [C]."""
        unit = self.unit.get("runs", np.full(len(self.sensors), _LEAST["runs"]))
        return np.maximum(_MOST_REST * self.longest_rest / unit, 1.0)

    def scores(self, detector: str, series: GridSeries) -> Doubles:
        """Return the statistic of a detector in units of its threshold, float64 [C, N]; above 1 it alarms."""
        return self.statistic(detector, series) / (self.unit[detector] * self.threshold[detector])[:, None]

    def run_scores(self, series: GridSeries, moved: Bools) -> Doubles:
        """Return the scores of runs; the sensors [C, N] that left their estimates may rest at any value."""
        return self._runs(series, moved) / (self.unit["runs"] * self.threshold["runs"])[:, None]

    def statistic(self, detector: str, series: GridSeries) -> Doubles:
        """Return the statistic of a detector of single sensors, float64 [C, N]."""
        match detector:
            case "runs":
                return self._runs(series)
            case "silence":
                return runs.silence(series).astype(np.float64)
            case "gaps":
                return runs.gaps_begun(series, GAPS_WINDOW).astype(np.float64)
            case "spiking":
                return statistics.spiking(series, self.units)
            case "chatter":
                return statistics.chatter(series, self.units)
            case "clock":
                return statistics.clock(series)
            case _:
                raise ValueError(f"expected one of {DETECTORS[:-1]}, found {detector!r}")

    def at_rest(self, values: Doubles) -> Bools:
        """Return the values at which their sensors rest, bool [C, N]."""
        return np.stack([np.isin(row, rest) for row, rest in zip(values, self.resting, strict=True)])

    def deviation(self, series: GridSeries, left_out: Bools | None = None) -> tuple[Doubles, int]:
        """Return block means less the group's levels [C, n], and the index of the first block's first step."""
        means, first = block_means(series, left_out)
        return means - self.levels[series.group][:, None], first

    def with_groups(self, groups: Sequence[GridSeries]) -> Self:
        """Return habits with the levels of further groups of the same sensors."""
        return replace(
            self,
            levels={**self.levels, **{each.group: _levels(each) for each in groups}},
            judged={**self.judged, **{each.group: _judged(each) for each in groups}},
        )

    def _runs(self, series: GridSeries, moved: Bools | None = None) -> Doubles:
        """Lengths of runs; the length of a run at a resting value is divided by `rest`."""
        found = runs.runs_of(series)
        length = found.length.astype(np.float64)
        rests = self.at_rest(found.value)
        return np.where(rests if moved is None else rests | moved, length / self.rest[:, None], length)


def learn(
    groups: Sequence[GridSeries], sensors: Sequence[str], *, form: ClosedForm | None = None, rate: float = RATE
) -> Habits:
    """Learn the habits of sensors.

    Args:
        groups: readings without known faults; every group has the same sensors and step. Without stamps, the clock is
            not judged.
        sensors: ids of the C sensors.
        form: a closed form of these sensors; None fits one if there are two sensors or more.
        rate: false alarms in 1,000 sensor-days, of all detectors together.

    Raises:
        ModelError: there are too few steps, or the closed form has other sensors.
        ValueError: the rate is not above 0.
    """
    if not rate > 0:
        raise ValueError(f"expected a rate above 0, found {rate}")
    longest = max((each.steps for each in groups), default=0)
    if longest < FEWEST_STEPS:
        raise ModelError(f"habits need {FEWEST_STEPS} steps of a group, found {longest}")
    if form is not None and form.sensors != tuple(sensors):
        raise ModelError(f"expected a closed form of {tuple(sensors)}, found one of {form.sensors}")
    usual = [each.part(0, int(_USUAL * each.steps)) for each in groups]
    habits = _usual(usual, tuple(sensors), _form(usual, sensors) if form is None else form)
    # Statistics of the second part look back into the first.
    allowed = rate / len(DETECTORS) / 1000.0 * sum(each.sensor_days * (1.0 - _USUAL) for each in groups)
    unit, threshold = dict(habits.unit), dict[str, Doubles]()
    for detector in DETECTORS:
        parts = [_second(_measured(habits, detector, each), each, detector) for each in groups]
        parts = [part / unit[detector][:, None] for part in parts]
        parts = [
            np.where(habits.judged[each.group][:, None], part, 0.0) for part, each in zip(parts, groups, strict=True)
        ]
        apart = _APART // BLOCK if detector == "drift" else _APART
        threshold[detector] = thresholds(parts, apart, allowed)
    if all(each.offset is None for each in groups):
        threshold["clock"] = np.full(len(sensors), np.inf)
    return replace(habits, unit=unit, threshold=threshold)


def _usual(groups: Sequence[GridSeries], sensors: tuple[str, ...], form: ClosedForm | None) -> Habits:
    """Everything but the thresholds."""
    joined = _joined(groups)
    all_runs = runs.runs_of(joined)
    resting = runs.resting_values(joined.values, all_runs)
    seen = joined.observed
    rest = np.stack([np.isin(row, each) for row, each in zip(all_runs.value, resting, strict=True)])
    estimates = None if form is None else estimates_of(form)
    habits = Habits(
        sensors=sensors,
        step_ms=groups[0].step_ms,
        levels={each.group: _levels(each) for each in groups},
        judged={each.group: _judged(each) for each in groups},
        resting=resting,
        longest_rest=np.where(rest, all_runs.length, 0).max(axis=1, initial=0).astype(np.float64),
        lowest=np.where(seen, joined.values, np.inf).min(axis=1, initial=np.inf),
        highest=np.where(seen, joined.values, -np.inf).max(axis=1, initial=-np.inf),
        units=statistics.units_of(list(groups)),
        estimates=estimates,
    )
    unit = {}
    for detector, least in _LEAST.items():
        measured = [habits.statistic(detector, each) for each in groups]
        if detector == "runs":  # runs at resting values have a unit of their own
            found = [runs.runs_of(each) for each in groups]
            measured = [np.where(habits.at_rest(each.value), 0, each.length).astype(np.float64) for each in found]
        unit[detector] = units(measured, _APART, least)
    measured = [_measured(habits, "drift", each) for each in groups]
    unit["drift"] = units(measured, _APART // BLOCK, _LEAST_DRIFT)
    return replace(habits, unit=unit)


def _measured(habits: Habits, detector: str, series: GridSeries) -> Doubles:
    """The statistic of any detector, [C, N] or [C, blocks]."""
    if detector != "drift":
        return habits.statistic(detector, series)
    if habits.estimates is None:
        return np.zeros((len(habits.sensors), series.steps // BLOCK))
    return drift.statistic(habits.estimates, drift.recent(habits.deviation(series)[0], habits.estimates.scale))


def _second(statistic: Doubles, series: GridSeries, detector: str) -> Doubles:
    start = int(_USUAL * series.steps) // (BLOCK if detector == "drift" else 1)
    return statistic[:, start:]


def _form(groups: Sequence[GridSeries], sensors: Sequence[str]) -> ClosedForm | None:
    if len(sensors) < 2:
        return None
    steps = max(each.steps for each in groups)
    values = np.zeros((len(groups), len(sensors), steps))
    observed = np.zeros(values.shape, np.bool_)
    for place, each in enumerate(groups):
        values[place, :, : each.steps], observed[place, :, : each.steps] = each.values, each.observed
    try:
        return fit_form(
            values, observed, start_ms=groups[0].first * groups[0].step_ms, step_ms=groups[0].step_ms,
            sensors=sensors, steps=FORM_STEPS,
        ).form  # fmt: skip
    except ModelError:  # too few readings: the other detectors judge alone
        return None


def _joined(groups: Sequence[GridSeries]) -> GridSeries:
    """All groups one after the other, to learn from single readings and runs."""
    values = np.concatenate([each.values for each in groups], axis=1)
    observed = np.concatenate([each.observed for each in groups], axis=1)
    return GridSeries("", 0, groups[0].step_ms, values, observed)


def _levels(series: GridSeries) -> Doubles:
    """Means of a group's readings [C]; NaN without one, or if they are too large to be summed."""
    readings = series.observed.sum(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        level = np.where(series.observed, series.values, 0.0).sum(axis=1) / np.maximum(readings, 1)
    return np.where((readings > 0) & np.isfinite(level), level, np.nan)


def _judged(series: GridSeries) -> Bools:
    enough: Bools = series.observed.sum(axis=1) >= _FEWEST_READINGS
    return enough


def episodes(statistic: Doubles, apart: int) -> list[Doubles]:
    """Return the highest values of each sensor's episodes, in descending order.

    Args:
        statistic: float64 [C, N].
        apart: steps between the highest values of two episodes, at least.
    """
    out = []
    for row in statistic:
        blocks = np.pad(row, (0, -len(row) % apart)).reshape(-1, apart).max(axis=1, initial=0.0)
        # The highest value of two neighbouring blocks is one episode.
        beside = np.maximum(np.append(blocks[1:], 0.0), np.append(0.0, blocks[:-1]))
        out.append(np.sort(blocks[(blocks >= beside) & (blocks > 0)])[::-1])
    return out


def units(parts: Sequence[Doubles], apart: int, least: float) -> Doubles:
    """Return each sensor's unit, float64 [C]: the third-highest episode of all groups, at least `least`."""
    found = [episodes(part, apart) for part in parts]
    out = np.full(len(parts[0]), least)
    for sensor in range(len(out)):
        peaks = np.sort(np.concatenate([each[sensor] for each in found]))[::-1]
        if len(peaks):
            out[sensor] = max(least, float(peaks[min(_RANK, len(peaks)) - 1]))
    return out


def thresholds(parts: Sequence[Doubles], apart: int, allowed: float) -> Doubles:
    """Return the thresholds [C] that the allowed number of episodes exceed, about the same number for each sensor.

    A sensor with few episodes gets the threshold of all sensors together.

    Args:
        parts: statistics of the groups, float64 [C, N], in units of their sensors.
        apart: least steps between the highest values of two episodes.
        allowed: number of episodes of all sensors in these series; a fraction of one is extrapolated.
    """
    found = [episodes(part, apart) for part in parts]
    own = [np.concatenate([each[sensor] for each in found]) for sensor in range(len(parts[0]))]
    pooled = _threshold(np.concatenate(own), allowed)
    return np.array(
        [_threshold(peaks, allowed / len(own)) if len(peaks) >= _FEWEST_EPISODES else pooled for peaks in own]
    )


def _threshold(peaks: Doubles, allowed: float) -> float:
    peaks = np.sort(peaks)[::-1]
    if len(peaks) <= allowed or not len(peaks):
        return _LEAST_TAIL
    if allowed >= _TAIL:
        return max(_LEAST_TAIL, float(np.nextafter(peaks[int(allowed)], np.inf)))
    rank = min(_TAIL, len(peaks) - 1)
    if rank < 1:
        return max(_LEAST_TAIL, 2.0 * float(peaks[0]))
    inverse = float(np.log(peaks[:rank] / peaks[rank]).mean())
    power = float(np.clip(inverse, _STEEPEST, _FLATTEST))
    extrapolated = float(peaks[rank] * np.power(rank / allowed, power))
    return max(_LEAST_TAIL, extrapolated)
