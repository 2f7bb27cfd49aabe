"""The convex combination of two values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.blend.mixture import blend

number = st.floats(-1e6, 1e6)
NAN, INF = np.nan, np.inf


@given(first=number, second=number, weight=st.floats(0, 1))
@settings(max_examples=200)
def test_the_blend_lies_between_its_values(first: float, second: float, weight: float) -> None:
    mixed = blend(np.array([first, second]), np.array([weight, 1 - weight]))
    assert min(first, second) <= mixed <= max(first, second)


def test_rounding_does_not_leave_the_range() -> None:
    value, weight = 0.3, 0.1
    assert weight * value + (1 - weight) * value != value, "the plain sum is off by one bit"
    assert blend(np.array([value, value]), np.array([weight, 1 - weight])) == value


@pytest.mark.parametrize(
    ("model", "baseline", "weight", "mixed"),
    [
        (2.0, 3.0, 0.25, 2.75),
        (3.0, 2.0, 0.25, 2.25),
        (2.0, 3.0, 1.0, 2.0),
        (2.0, 3.0, 0.0, 3.0),
        (2.0, NAN, 0.25, 2.0),
        (NAN, 3.0, 0.25, 3.0),
        (INF, 3.0, 0.25, 3.0),
        (2.0, -INF, 0.25, 2.0),
        (NAN, INF, 0.25, NAN),
        (NAN, NAN, 0.5, NAN),
    ],
)
def test_if_one_value_is_absent_the_other_is_used(model: float, baseline: float, weight: float, mixed: float) -> None:
    found = blend(np.array([[model, baseline]], np.float32), np.array([[weight, 1 - weight]]))
    assert found.dtype == np.float64
    assert np.array_equal(found, [mixed], equal_nan=True)


@pytest.mark.parametrize(
    ("values", "weights", "mixed"),
    [
        ((1.0, 2.0, 4.0, 8.0), (0.0, 0.5, 0.25, 0.25), 4.0),
        ((1.0, NAN, 4.0, 8.0), (0.0, 0.5, 0.25, 0.25), 6.0),
        ((1.0, NAN, INF, 8.0), (0.0, 0.5, 0.5, 0.0), 4.5),
        ((NAN, NAN, NAN, 8.0), (0.5, 0.5, 0.0, 0.0), 8.0),
        ((NAN, NAN, -INF, INF), (0.25, 0.25, 0.25, 0.25), NAN),
    ],
)
def test_absent_experts_leave_their_weight_to_the_others(
    values: tuple[float, ...], weights: tuple[float, ...], mixed: float
) -> None:
    assert np.array_equal(blend(np.array(values), np.array(weights)), mixed, equal_nan=True)


@pytest.mark.parametrize(
    ("values", "weights", "mixed"),
    [
        ((350.0, 10.0, 20.0), (0.5, 0.5, 0.0), 360.0),
        ((10.0, 350.0, NAN), (0.25, 0.75, 0.0), 355.0),
        ((NAN, 359.0, 3.0), (0.0, 0.5, 0.5), 1.0),
        ((10.0, 350.0, 350.0), (0.0, 0.5, 0.5), 350.0),
        ((360.0, NAN, NAN), (1.0, 0.0, 0.0), 360.0),
        ((90.0, 270.0, 100.0), (0.5, 0.0, 0.5), 95.0),
        ((NAN, NAN, NAN), (0.5, 0.5, 0.0), NAN),
        ((170.0, -160.0, 0.0), (0.5, 0.5, 0.0), -175.0),
        ((-170.0, 160.0, NAN), (0.5, 0.5, 0.0), 175.0),
        ((-10.0, 20.0, 0.0), (0.5, 0.5, 0.0), 5.0),
        ((180.0, 180.0, -180.0), (0.5, 0.5, 0.0), 180.0),
        ((-2.0, 350.0, -np.inf), (0.5, 0.5, 0.0), 354.0),
    ],
)
def test_directions_are_mixed_by_the_shorter_way(
    values: tuple[float, ...], weights: tuple[float, ...], mixed: float
) -> None:
    both = np.array([values, values])
    found = blend(both, np.array([weights, weights]), np.array([True, False]))
    assert np.array_equal(found, [mixed, blend(both[1], np.array(weights))], equal_nan=True)
