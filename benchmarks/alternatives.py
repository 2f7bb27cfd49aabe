"""The closed form of many sensors and its alternatives, each fitted to the series of one group.

`method` knows them by the names that `python -m benchmarks.many_sensors --help` explains.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.low_rank import Factors
from glaim_stream.form.candidates import PLAIN, transforms
from glaim_stream.form.fit import fit
from glaim_stream.form.form import ClosedForm
from glaim_stream.form.kinds import Kind, carried_value
from glaim_stream.form.moments import Moments
from glaim_stream.form.relations import Relations
from glaim_stream.form.search import CONSTANTS, Candidate, Validation, log_error
from glaim_stream.form.series import Series
from glaim_stream.form.tiles import span_for
from glaim_stream.form.variant import Variant
from glaim_stream.imputers.simple import interpolated

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Fill = Callable[[Doubles, Bools, int], Doubles]  # values and observed cells [n, C, T], newest k: means [n, C, k]

STEPS, STEP_MS = 96, 3_600_000
_CLUSTER = 26  # sensors at most: 2,496 cells
_FACTOR_WINDOWS, _FACTOR_RIDGES = 3_000, (1e-3, 1e-2, 1e-1)
_LEVEL_SPAN = 8  # of the form whose levels and scales the factors take


@dataclass(frozen=True)
class Method:
    """A fitted alternative. span: steps that it sees at once; memory: bytes of its arrays."""

    fill: Fill
    span: int
    fit_s: float
    memory: int


def fitted(values: Doubles, *, plain: bool = True) -> ClosedForm:
    """The product's form of series [C, N]."""
    return fit(
        values[None],
        np.isfinite(values)[None],
        start_ms=0,
        step_ms=STEP_MS,
        sensors=[str(place) for place in range(len(values))],
        steps=STEPS,
        only_numbers=True,
        only_plain=plain,
    ).form


def form_of(
    values: Doubles,
    *,
    span: int | None = None,
    shrinkage: float = CONSTANTS.default_shrinkage,
    distance: float | None = None,
    carried: bool = False,
) -> ClosedForm:
    """A plain form of series [C, N] with given constants, by default those of the product, and its span."""
    sensors, series = len(values), series_of(values)
    steps = span_for(sensors, STEPS) if span is None else span
    if distance is None:
        distance = CONSTANTS.default_distance if span_for(sensors, STEPS) < STEPS else 0.0
    windows = series.windows(steps, CONSTANTS.training_windows)
    candidate = Candidate(
        PLAIN,
        transforms(series, windows, None, np.zeros(sensors, np.bool_))[PLAIN],
        Moments(sensors, steps),
        None,
        STEP_MS,
        shrinkage=shrinkage,
        distance=distance,
    )
    candidate.add(windows)
    beyond = np.full(sensors, np.inf)
    return ClosedForm(
        sensors=tuple(str(place) for place in range(sensors)),
        steps=STEPS,
        step_ms=STEP_MS,
        span=steps,
        variants=(candidate.variant(windows).inverted(),),
        weights=(1.0,),
        kinds=(Kind.NUMBER,) * sensors,
        relations=Relations(np.zeros((0, sensors)), np.zeros(0)),
        phase=None,
        calibration=1.0,
        lowest=-beyond,
        highest=beyond,
        swing=np.nanmax(values, axis=1) - np.nanmin(values, axis=1),
        carried_deviation=np.ones(sensors),
        carried_levels=carried,
    )


def series_of(values: Doubles) -> Series:
    """Series [C, N] of one group."""
    observed = np.isfinite(values)
    return Series(np.where(observed, values, 0.0)[None], observed[None], 0, STEP_MS)


def filled_by(form: ClosedForm) -> Fill:
    """A form's means of the newest steps."""
    return lambda values, observed, newest: (
        form.fill(values, observed, np.zeros(len(values), np.int64), newest=newest).mean
    )


def memory_of(form: ClosedForm) -> int:
    """Bytes of the covariance, which is kept, and of the padded one and its inverse."""
    return sum(3 * each.covariance.nbytes for each in form.variants)


def clusters(values: Doubles, most: int) -> list[NDArray[np.int64]]:
    """Sensors that go together, at most so many in each: halves by the leading component, again and again."""
    complete = np.where(np.isfinite(values), values, np.nanmean(values, axis=1, keepdims=True))
    correlation = np.corrcoef(complete)
    parts, done = [np.arange(len(values))], []
    while parts:
        part = parts.pop()
        if len(part) <= most:
            done.append(np.sort(part))
            continue
        of_part = correlation[np.ix_(part, part)]
        centred = of_part - of_part.mean(axis=0) - of_part.mean(axis=1)[:, None] + of_part.mean()
        order = part[np.argsort(np.linalg.eigh(centred)[1][:, -1])]
        parts += [order[: len(part) // 2], order[len(part) // 2 :]]
    return done


def of_clusters(values: Doubles) -> tuple[Fill, int]:
    """Closed forms of the clusters, and their bytes."""
    places = clusters(values, _CLUSTER)
    forms = [form_of(values[part]) for part in places]

    def fill(given: Doubles, observed: Bools, newest: int) -> Doubles:
        out = given[:, :, -newest:].copy()
        for part, form in zip(places, forms, strict=True):
            out[:, part] = filled_by(form)(given[:, part], observed[:, part], newest)
        return out

    return fill, sum(map(memory_of, forms))


def of_factors(values: Doubles, count: int) -> tuple[Fill, int]:
    """K factors, with levels and scales of a plain form; the ridge is chosen on the newest fifth of the rows."""
    series = series_of(values)
    cut = int(0.8 * series.steps)
    base = form_of(values, span=_LEVEL_SPAN)
    plain = base.variants[0]
    validated = series.rows(cut, series.steps).windows(STEPS, CONSTANTS.search_windows)
    validation = Validation(
        validated,
        np.ones((len(validated), len(values))),
        1.0,
        np.ones((len(validated), STEPS), np.bool_),
        np.ones(len(values)),
    )
    candidate = Candidate(plain.name, plain.transform, Moments(1, 1), None, STEP_MS)

    def variant(factors: Factors, ridge: float) -> Variant:
        shape = np.zeros((len(values) * STEPS, 0))  # the covariance is never looked at, but for its length
        out = Variant(plain.name, plain.transform, plain.levels, shape, np.ones(len(values)))
        vars(out)["conditional"] = factors.conditional(CONSTANTS.default_shrinkage, ridge)
        return out

    def factors_of(rows: Series) -> Factors:
        windows = rows.windows(STEPS, _FACTOR_WINDOWS)
        return Factors(plain.transform.forward(windows.values, windows.observed, None)[0], windows.observed, count)

    tried = factors_of(series.rows(0, cut))
    errors = {
        ridge: log_error(validation.errors(variant(tried, ridge), candidate, CONSTANTS.search_windows // 2))
        for ridge in _FACTOR_RIDGES
    }
    chosen = variant(factors_of(series), min(errors, key=lambda ridge: errors[ridge]))
    form = replace(base, span=STEPS, variants=(chosen,))
    return filled_by(form), 8 * chosen.conditional.numbers  # type: ignore[attr-defined]


def interpolate(values: Doubles, observed: Bools, newest: int) -> Doubles:
    """Straight lines between readings."""
    return np.asarray(interpolated(values, observed, newest=newest)[0], np.float64)


def carry(values: Doubles, observed: Bools, newest: int) -> Doubles:
    """Each sensor's last reading, or the first one after the hole."""
    return np.where(observed, values, carried_value(values, observed))[:, :, -newest:]


def method(name: str, values: Doubles) -> Method:
    """Fit an alternative to series [C, N]."""
    start = time.process_time()
    number = int(name.partition("-")[2]) if "-" in name else 0
    forms: dict[str, Callable[[], ClosedForm]] = {
        "product": lambda: fitted(values, plain=False),
        "plain": lambda: fitted(values),
        "defaults": lambda: form_of(values),
        "span": lambda: form_of(values, span=number),
        "lags": lambda: form_of(values, shrinkage=1.0),
        "pairs": lambda: form_of(values, shrinkage=0.0),
        "no distance": lambda: form_of(values, distance=0.0),
        "carried": lambda: form_of(values, carried=True),
    }
    if name in ("interpolation", "last value"):
        return Method(interpolate if name == "interpolation" else carry, STEPS, 0.0, 0)
    if name == "clusters" or name.startswith("factors"):
        fill, memory = of_clusters(values) if name == "clusters" else of_factors(values, number)
        return Method(fill, STEPS, time.process_time() - start, memory)
    form = forms[name.partition("-")[0]]()
    return Method(filled_by(form), form.span, time.process_time() - start, memory_of(form))
