"""Series of many groups: as how many independent ones they count."""

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.form.series import FormSeries

GROUPS, SENSORS, ROWS = 12, 3, 4_000


def counted(values: NDArray[np.float64], observed: NDArray[np.bool_] | None = None) -> float:
    seen = np.ones(values.shape, np.bool_) if observed is None else observed
    return FormSeries(np.where(seen, values, 0.0), seen, 0, 1).independent_groups()


def noise(groups: int = GROUPS, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(groups, SENSORS, ROWS))


def test_groups_that_have_nothing_in_common_count_each() -> None:
    assert counted(noise()) == pytest.approx(GROUPS, rel=0.02)
    assert counted(noise(groups=1)) == 1.0


@pytest.mark.parametrize("scale", [1.0, -3.0])
def test_copies_count_once(scale: float) -> None:
    factors = np.where(np.arange(GROUPS) % 2 == 0, 1.0, scale)[:, None, None]
    levels = 100.0 * np.arange(GROUPS)[:, None, None]
    assert counted(levels + factors * noise(groups=1)) == pytest.approx(1.0)


@pytest.mark.parametrize("shared", [0.3, 0.7])
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_groups_with_a_part_in_common_count_by_the_square_of_their_correlation(shared: float, missing: float) -> None:
    values = np.sqrt(shared) * noise(groups=1, seed=1) + np.sqrt(1.0 - shared) * noise(seed=2)
    observed = np.random.default_rng(3).random(values.shape) >= missing
    assert counted(values, observed) == pytest.approx(GROUPS / (1.0 + (GROUPS - 1) * shared**2), rel=0.1)


def test_hundreds_of_groups_are_judged_by_some_of_them() -> None:
    values = np.repeat(noise(groups=100), 2, axis=0)[:, :1]
    assert 70.0 < counted(values) <= 200.0


def test_windows_begin_at_every_step_of_each_group_or_evenly_where_they_are_too_many() -> None:
    values = np.arange(2 * 10.0).reshape(2, 1, 10)
    series = FormSeries(values, np.ones(values.shape, np.bool_), 5_000, 1_000)
    every = series.windows(4, 1000)
    assert sorted(zip(every.group.tolist(), every.end_ms.tolist(), strict=True)) == [
        (group, 8_000 + 1_000 * start) for group in (0, 1) for start in range(7)
    ]
    assert every.values[0, 0].tolist() == [6.0, 7.0, 8.0, 9.0]
    some = series.windows(4, 7)
    assert [some.end_ms[some.group == group].tolist() for group in (0, 1)] == [
        [14_000, 12_000, 10_000, 8_000],
        [13_000, 11_000, 9_000],
    ]


def test_groups_that_were_never_observed_together_count_each() -> None:
    values, observed = noise(groups=2), np.zeros((2, SENSORS, ROWS), np.bool_)
    observed[0, :, ::2] = observed[1, :, 1::2] = True
    assert counted(values, observed) == 2.0
    assert counted(np.ones((4, 2, 50))) == 4.0, "constant sensors say nothing"
