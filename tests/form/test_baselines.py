"""Last value and interpolation, by example and compared with a loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from glaim_stream.form.baselines import interpolation, interpolation_at, last_value
from glaim_stream.imputers import Interpolation, LastValue, Windows, interpolated
from glaim_stream.output import Method

N = np.nan


def split(row: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Values, with garbage where nothing was observed, and the mask of observed cells."""
    values = np.array([[row]], np.float32)
    observed = ~np.isnan(values)
    return np.where(observed, values, np.float32(-999)), observed


@pytest.mark.parametrize(
    ("row", "last", "line"),
    [
        ([N, N, N], [N, N, N], [N, N, N]),
        ([N, 2, N], [N, 2, 2], [2, 2, 2]),
        ([1, N, N], [1, 1, 1], [1, 1, 1]),
        ([N, N, 3], [N, N, 3], [3, 3, 3]),
        ([1, N, N, 4], [1, 1, 1, 4], [1, 2, 3, 4]),
        ([5, N, 5, N, 5], [5, 5, 5, 5, 5], [5, 5, 5, 5, 5]),
        ([1, 2, 3], [1, 2, 3], [1, 2, 3]),
        ([N], [N], [N]),
        ([7], [7], [7]),
    ],
)
def test_baselines_by_example(row: list[float], last: list[float], line: list[float]) -> None:
    assert np.array_equal(last_value(*split(row))[0, 0], np.array(last, np.float32), equal_nan=True)
    assert np.array_equal(interpolation(*split(row))[0, 0], np.array(line, np.float32), equal_nan=True)


@given(
    arrays(np.float32, (7, 5), elements=st.floats(allow_nan=False, allow_infinity=False, width=32)),
    arrays(np.bool_, (7, 5)),
    arrays(np.int64, 7, elements=st.integers(0, 4)),
    st.none() | arrays(np.bool_, 7),
)
def test_a_single_interpolated_cell_equals_the_cell_of_the_whole_row(
    values: np.ndarray, observed: np.ndarray, at: np.ndarray, directions: np.ndarray | None
) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        whole = interpolation(values, observed, directions)[np.arange(7), at]
        single = interpolation_at(values, observed, at, directions)
    assert single.dtype == np.float32
    assert single.tobytes() == whole.tobytes()


@given(
    arrays(np.float32, (4, 3, 6), elements=st.floats(allow_nan=False, allow_infinity=False, width=32)),
    arrays(np.bool_, (4, 3, 6)),
    st.integers(1, 6),
    st.none() | arrays(np.bool_, 3),
)
def test_the_newest_steps_are_those_of_the_whole_window(
    values: np.ndarray, observed: np.ndarray, newest: int, directions: np.ndarray | None
) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        whole, methods = interpolated(values, observed, directions)
        found, method = interpolated(values, observed, directions, newest=newest)
    assert found.dtype == np.float32
    assert found.tobytes() == whole[..., -newest:].tobytes()
    assert method.tobytes() == methods[..., -newest:].tobytes()


@pytest.mark.parametrize(
    ("row", "arc"),
    [
        ([350, N, N, N, 10], [350, 355, 0, 5, 10]),
        ([10, N, 350], [10, 0, 350]),
        ([80, N, 100], [80, 90, 100]),
        ([360, N, 360], [360, 360, 360]),
        ([N, 359, N], [359, 359, 359]),
        ([1, N, 182], [1, 271.5, 182]),
        ([170, N, N, N, -170], [170, 175, -180, -175, -170]),
        ([-170, N, 170], [-170, -180, 170]),
        ([-10, N, 20], [-10, 5, 20]),
        ([20, N, -40], [20, -10, -40]),
        ([0, N, 180], [0, 90, 180]),
        ([180, N, 0], [180, 90, 0]),
        ([-90, N, -100], [-90, -95, -100]),
    ],
)
def test_directions_are_filled_along_the_shorter_arc(row: list[float], arc: list[float]) -> None:
    values, observed = split(row)
    beside = np.concatenate([values, values], axis=1), np.concatenate([observed, observed], axis=1)
    found = interpolation(*beside, np.array([True, False]))
    assert np.array_equal(found[0, 0], np.array(arc, np.float32))
    assert np.array_equal(found[0, 1], interpolation(values, observed)[0, 0])


@given(
    arrays(np.float32, (2, 3, 7), elements=st.floats(-100, 100, width=32)),
    arrays(np.bool_, (2, 3, 7)),
)
def test_both_baselines_agree_with_a_loop(values: np.ndarray, observed: np.ndarray) -> None:
    last, line = last_value(values, observed), interpolation(values, observed)
    assert last.dtype == line.dtype == np.float32
    for place in np.ndindex(*values.shape[:2]):
        seen = np.flatnonzero(observed[place])
        for step in range(values.shape[2]):
            before = seen[seen <= step]
            assert np.array_equal(last[place][step], values[place][before[-1]] if len(before) else N, equal_nan=True)
            if len(seen) == 0:
                assert np.isnan(line[place][step])
            else:
                drawn = np.interp(step, seen, values[place][seen])
                assert line[place][step] == pytest.approx(drawn, rel=1e-4, abs=1e-3)
            if observed[place][step]:
                assert line[place][step] == values[place][step]


@given(arrays(np.float32, (4, 6), elements=st.floats(-100, 100, width=32)), arrays(np.bool_, (4, 6)))
def test_unobserved_values_do_not_matter(values: np.ndarray, observed: np.ndarray) -> None:
    garbage = np.where(observed, values, np.float32(np.nan))
    for fill in (last_value, interpolation):
        assert np.array_equal(fill(values, observed), fill(garbage, observed), equal_nan=True)


def windows(row: list[float], steps: int) -> Windows:
    values, observed = split(row)
    return Windows("m", np.where(observed, values, 0), observed, steps)


async def test_interpolation_marks_cells_without_a_right_neighbour_as_last_value() -> None:
    answer = await Interpolation().impute(windows([1, N, 3, N], 3))
    assert answer.values[0, 0].tolist() == [2, 3, 3]
    assert answer.method[0, 0, [0, 2]].tolist() == [Method.INTERPOLATION, Method.LAST_VALUE]
    assert answer.version == [""]


async def test_last_value_fills_the_newest_steps() -> None:
    answer = await LastValue().impute(windows([1, N, 3, N], 2))
    assert answer.values[0, 0].tolist() == [3, 3]
    assert (answer.method == Method.LAST_VALUE).all()
