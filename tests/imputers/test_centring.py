"""Large values reach a model with their digits, and ordinary ones as they are."""

from dataclasses import replace

import numpy as np
import pytest

from glaim_stream.core.contract import Contract
from glaim_stream.core.errors import ImputerError
from glaim_stream.core.vocabulary import Method
from glaim_stream.imputers.centring import Centred
from glaim_stream.imputers.protocol import Windows
from tests.support import contract

METER = 123_456_789.12
STEPS = np.arange(6)


def window(*rows: object, hidden: tuple[int, ...] = (), resolution: float | None = 0.01) -> Windows:
    """One window of one row per sensor, not observed at the steps in `hidden`."""
    values = np.array([rows], np.float64)
    observed = np.ones(values.shape, np.bool_)
    observed[:, :, list(hidden)] = False
    known = None if resolution is None else np.full(len(rows), resolution)
    return Windows("m", np.where(observed, values, 0.0), observed, 3, known)


def of(windows: Windows, given: Contract | None = None) -> Centred:
    return Centred.of(windows, given or contract(windows.values.shape[1]))


def test_ordinary_windows_are_sent_as_they_are() -> None:
    given = window([20.1, 20.2, 20.3, 20.2, 20.1, 20.0], [-0.5] * 6, hidden=(2,))
    sent = of(given)
    assert sent.values.dtype == np.float32
    assert np.array_equal(sent.values, given.values.astype(np.float32))
    assert np.array_equal(sent.observed, given.observed)
    assert not sent.centre.any()
    assert not sent.beyond.any()


def test_a_meter_is_sent_less_its_newest_observation() -> None:
    sent = of(window(METER + 0.01 * STEPS, 20.1 + STEPS, hidden=(2, 5)))
    assert sent.centre.tolist() == [[METER + 0.01 * 4, 0]]
    np.testing.assert_allclose(sent.values[0, 0], [-0.04, -0.03, 0, -0.01, 0, 0], atol=2e-8)  # spacing of float64
    assert np.array_equal(sent.values[0, 1], np.where([1, 1, 0, 1, 1, 0], 20.1 + STEPS, 0).astype(np.float32))


def test_what_was_subtracted_is_added_to_the_answer() -> None:
    given = window(METER + 0.01 * STEPS, 20.0 + STEPS, hidden=(3,))
    sent = of(given)
    answer = np.tile(np.array([[-0.02], [23.0]], np.float32), (1, 1, 3))
    found = of(given).imputed(given, answer, "7")
    assert found.values.dtype == np.float64
    assert found.values[0, 0] == pytest.approx([METER + 0.03] * 3, abs=1e-7)
    assert found.values[0, 1].tolist() == [23.0] * 3
    assert (found.method == Method.MODEL).all()
    assert found.version == ["7"]
    assert sent.centre[0, 1] == 0


@pytest.mark.parametrize("reach", [83_886.0, 83_887.0])
def test_a_row_is_centred_once_rounding_exceeds_a_quarter_of_the_resolution(reach: float) -> None:
    """0.01 / 4 * 2**24 = 41,943.04 of the largest value, so twice that at a resolution of 0.02."""
    assert bool(of(window([reach] * 6, resolution=0.02)).centre.any()) == (reach > 0.02 / 4 * 2**24)


@pytest.mark.parametrize(("known", "centred"), [(None, True), (0.0, True), (100.0, False)])
def test_the_resolution_of_the_windows_comes_before_that_of_the_contract(known: float | None, centred: bool) -> None:
    """The contract's is 0.01."""
    assert bool(of(window([METER] * 6, resolution=known)).centre.any()) == centred


def test_the_content_of_missing_cells_does_not_count() -> None:
    values = np.array([[[1e300, 1, 2, 3, 4, np.nan]]])
    observed = np.array([[[False, True, True, True, True, False]]])
    sent = of(Windows("m", values, observed, 3))
    assert sent.values.tolist() == [[[0, 1, 2, 3, 4, 0]]]
    assert not sent.centre.any()


def test_a_row_without_observations_has_no_centre() -> None:
    sent = of(window([METER] * 6, hidden=tuple(range(6))))
    assert not sent.centre.any()
    assert not sent.observed.any()


@pytest.mark.parametrize("other", [1e17, 1e39, 1e308])
@pytest.mark.filterwarnings("error")
def test_a_row_that_float32_cannot_hold_is_interpolated_and_spoils_no_other(other: float) -> None:
    given = window([-other, other, -other, other, 0, 0], 20.0 + STEPS, hidden=(4, 5))
    sent = of(given)
    assert np.isfinite(sent.values).all()
    assert sent.beyond.tolist() == [[True, False]]
    assert sent.observed[0].tolist() == [[False] * 6, [True] * 4 + [False] * 2]
    found = sent.imputed(given, np.full((1, 2, 3), 25, np.float32), "7")
    assert found.values[0].tolist() == [[other] * 3, [25.0] * 3]
    assert found.method[0].tolist() == [[Method.LAST_VALUE if n else Method.INTERPOLATION for n in range(3)], [1] * 3]


def test_windows_of_other_sensors_are_an_error_of_the_imputer() -> None:
    with pytest.raises(ImputerError, match="model m has 2 sensors, found windows of 1"):
        of(window([METER] * 6), contract(2))


def test_what_is_sent_is_contiguous() -> None:
    values = np.ones((6, 2, 1)).transpose(2, 1, 0)
    sent = of(Windows("m", values, values > 0, 3))
    assert sent.values.flags.c_contiguous
    assert sent.observed.flags.c_contiguous


def test_copies_that_fill_a_fixed_batch_are_left_out_of_the_answer() -> None:
    given = window([METER] * 6)
    found = of(given.padded(4)).imputed(given, np.zeros((1, 1, 3), np.float32), "7")
    assert found.values.tolist() == [[[METER] * 3]]


@pytest.mark.parametrize("windows", [1, 2, 3])
def test_directions_are_those_of_the_rows_that_are_interpolated(windows: int) -> None:
    """As many rows as there are sensors, or another number of them."""
    one = window([-1e17, 1e17, -1e17, 1e17, 0, 0], [350.0, 1e17, -1e17, 350.0, 0.0, 10.0], hidden=(4,))
    given = replace(
        one, values=np.repeat(one.values, windows, axis=0), observed=np.repeat(one.observed, windows, axis=0),
        directions=np.array([False, True]),
    )  # fmt: skip
    sent = of(given)
    assert sent.beyond.all()
    found = sent.imputed(given, np.zeros((windows, 2, 3), np.float32), "7")
    assert found.values[:, :, 1].tolist() == [[5e16, 0.0]] * windows
