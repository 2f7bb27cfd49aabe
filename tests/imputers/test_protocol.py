"""Windows, and the check of what a model returns for them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.errors import ImputerError, WindowShapeError
from glaim_stream.core.vocabulary import Method
from glaim_stream.imputers.protocol import Imputed, Windows, requested_values


def windows(count: int, steps: int = 2) -> Windows:
    """`count` windows of 2 sensors and 6 steps; all values of a window are its number."""
    values = np.broadcast_to(np.arange(count, dtype=np.float32)[:, None, None], (count, 2, 6)).copy()
    return Windows("m", values, values > 0, steps)


def requested(answer: Any, *, count: int = 2, sent: int = 3, steps: int = 2) -> np.ndarray:
    return requested_values("m", answer, windows(count, steps), sent=sent, sensors=2, emitted_steps=4)


def test_the_requested_windows_and_newest_steps_are_taken() -> None:
    answer = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    found = requested(answer)
    assert found.tolist() == [[[2, 3], [6, 7]], [[10, 11], [14, 15]]]
    assert found.dtype == np.float32
    assert requested(answer, count=3, steps=4).tolist() == answer.tolist()


def test_doubles_become_float32() -> None:
    assert requested(np.full((3, 2, 4), 0.1)).dtype == np.float32


@pytest.mark.parametrize("shape", [(2, 2, 4), (4, 2, 4), (3, 1, 4), (3, 3, 4), (3, 2, 3), (3, 2, 5), (3, 2), ()])
def test_a_wrong_shape_is_rejected(shape: tuple[int, ...]) -> None:
    with pytest.raises(ImputerError) as rejected:
        requested(np.zeros(shape, np.float32))
    assert str(rejected.value) == f"model m must return values of shape (3, 2, 4), found {shape}"


def test_none_is_rejected() -> None:
    with pytest.raises(ImputerError, match="found None"):
        requested(None)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_requested_value_that_is_not_finite_is_rejected(value: float) -> None:
    answer = np.zeros((3, 2, 4), np.float32)
    answer[1, 1, 2] = value
    with pytest.raises(ImputerError, match="model m returned values that are not finite"):
        requested(answer)


def test_a_double_beyond_float32_is_rejected() -> None:
    with np.errstate(over="ignore"), pytest.raises(ImputerError, match="not finite"):
        requested(np.full((3, 2, 4), 1e39))


def test_padding_and_older_steps_may_have_any_value() -> None:
    answer = np.full((3, 2, 4), np.nan, np.float32)
    answer[:2, :, 2:] = 1
    assert (requested(answer) == 1).all()


def test_a_slice_of_windows_keeps_its_model_and_steps() -> None:
    part = windows(5).slice(1, 3)
    assert (part.model, part.steps, len(part)) == ("m", 2, 2)
    assert part.values[:, 0, 0].tolist() == [1, 2]
    assert part.observed.shape == (2, 2, 6)


def test_a_slice_of_imputed_values_is_cut_in_every_column() -> None:
    whole = Imputed(np.arange(5.0, dtype=np.float32)[:, None, None], np.arange(5)[:, None, None], list("abcde"))
    part = whole.slice(1, 3)
    assert (part.values.ravel().tolist(), part.method.ravel().tolist(), part.version) == ([1, 2], [1, 2], ["b", "c"])


def test_the_ends_of_windows_are_cut_and_padded_with_them() -> None:
    three = replace(windows(3), end_ms=np.array([10, 20, 30]))
    for part, expected in ((three.slice(1, 3), [20, 30]), (three.padded(5), [10, 20, 30, 30, 30])):
        assert part.end_ms is not None
        assert part.end_ms.tolist() == expected
    with pytest.raises(WindowShapeError, match=r"3 windows must have an end each, found \(2,\)"):
        replace(windows(3), end_ms=np.array([10, 20]))


def test_lags_say_which_steps_are_asked_for_and_lie_among_the_newest() -> None:
    five = windows(2, 5)
    assert five.asked.tolist() == [True] * 5
    some = replace(five, lags=(0, 3))
    assert some.asked.tolist() == some.slice(0, 1).asked.tolist() == [False, True, False, False, True]
    for lags in ((5,), (0, -1)):
        with pytest.raises(WindowShapeError, match=r"lags must lie in 0..4, found"):
            replace(five, lags=lags)


def test_batches_of_imputed_values_are_joined_and_deviations_are_unknown_where_a_rung_has_none() -> None:
    ones = np.ones((1, 1, 2))
    by_model = Imputed(ones, np.full(ones.shape, Method.MODEL, np.int8), ["1"])
    by_form = Imputed(2 * ones, np.full(ones.shape, Method.GAUSSIAN, np.int8), ["gaussian-0"], 0.5 * ones)
    assert Imputed.joined([by_model, by_model]).deviation is None
    joined = Imputed.joined([by_model, by_form])
    assert joined.deviation is not None
    np.testing.assert_array_equal(joined.deviation.ravel(), [np.nan, np.nan, 0.5, 0.5])
    assert (joined.values[:, 0, 0].tolist(), joined.version) == ([1, 2], ["1", "gaussian-0"])
    assert joined.versions_of(Method.MODEL) == ["1"]
    last = joined.slice(1, 2).deviation
    assert last is not None
    assert last.tolist() == [[[0.5, 0.5]]]


@pytest.mark.parametrize("steps", [1, 6])
def test_every_step_of_the_window_may_be_requested(steps: int) -> None:
    assert windows(1, steps).steps == steps


def test_a_full_batch_is_not_copied() -> None:
    three = windows(3)
    assert three.padded(3) is three
    padded = three.padded(5)
    assert padded.values[:, 0, 0].tolist() == [0, 1, 2, 2, 2]
    assert (padded.model, padded.steps) == ("m", 2)


@pytest.mark.parametrize("count", [0, 4])
def test_no_windows_or_too_many_cannot_be_padded(count: int) -> None:
    with pytest.raises(WindowShapeError, match=f"expected 1 to 3 windows for a fixed batch, found {count}"):
        windows(count).padded(3)
