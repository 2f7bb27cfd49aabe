"""The method of a blended cell is the method that made its value."""

import numpy as np
import pytest

from glaim_stream.blend import Predictions
from glaim_stream.imputers import Imputed
from glaim_stream.output import Method
from glaim_stream.pipeline.predictions import HolePredictions, blended
from glaim_stream.windows import Place

N, INF = np.nan, np.inf
FORM = "gaussian-01234567"


@pytest.mark.parametrize(
    ("model", "baseline", "weight", "place", "value", "method"),
    [
        (2.0, 4.0, 1.0, Place.EDGE, 2.0, Method.MODEL),
        (2.0, 4.0, 0.5, Place.EDGE, 3.0, Method.BLEND),
        (2.0, 4.0, 0.0, Place.EDGE, 4.0, Method.LAST_VALUE),
        (2.0, 4.0, 0.0, Place.INTERIOR, 4.0, Method.INTERPOLATION),
        (2.0, N, 0.5, Place.EDGE, 2.0, Method.MODEL),
        (2.0, N, 0.0, Place.EDGE, 2.0, Method.MODEL),
        (2.0, INF, 0.5, Place.EDGE, 2.0, Method.MODEL),
        (N, 4.0, 1.0, Place.EDGE, 4.0, Method.LAST_VALUE),
        (N, 4.0, 0.5, Place.INTERIOR, 4.0, Method.INTERPOLATION),
        (INF, 4.0, 1.0, Place.INTERIOR, 4.0, Method.INTERPOLATION),
    ],
)
def test_a_cell_names_the_method_that_made_its_value(
    model: float, baseline: float, weight: float, place: Place, value: float, method: Method
) -> None:
    cell = np.zeros(1, np.int64)
    cells = Predictions(cell, cell, cell, np.array([place], np.int64), np.array([[model, baseline]]))
    imputed = Imputed(np.full((1, 1, 1), model, np.float64), np.full((1, 1, 1), Method.MODEL, np.int8), ["1"])
    found = blended(imputed, HolePredictions(cells, cell, cell, cell), np.array([[weight, 1 - weight]]))
    assert (found.values.item(), found.method.item(), found.version) == (value, method, ["1"])


@pytest.mark.parametrize(
    ("values", "weights", "value", "method", "deviation"),
    [
        ((2.0, 4.0, 8.0), (0.0, 0.0, 1.0), 8.0, Method.GAUSSIAN, 0.5),
        ((2.0, 4.0, 8.0), (0.5, 0.0, 0.5), 5.0, Method.BLEND, N),
        ((2.0, 4.0, 8.0), (0.0, 0.5, 0.5), 6.0, Method.BLEND, 0.5),
        ((2.0, 4.0, 8.0), (0.5, 0.5, 0.0), 3.0, Method.BLEND, N),
        ((2.0, 4.0, 8.0), (0.0, 1.0, 0.0), 4.0, Method.LAST_VALUE, N),
        ((2.0, 4.0, 8.0), (1.0, 0.0, 0.0), 2.0, Method.MODEL, N),
        ((N, 4.0, 8.0), (0.0, 0.25, 0.75), 7.0, Method.BLEND, 0.5),
        ((N, N, 8.0), (0.0, 0.0, 1.0), 8.0, Method.GAUSSIAN, 0.5),
        ((2.0, 4.0, N), (0.5, 0.5, 0.0), 3.0, Method.BLEND, N),
        # The closed form carries the last value, as the baseline does: one of the two has made the value.
        ((2.0, 4.0, 4.0), (0.0, 0.5, 0.5), 4.0, Method.GAUSSIAN, 0.5),
        ((2.0, 4.0, 4.0), (0.0, 1.0, 0.0), 4.0, Method.GAUSSIAN, 0.5),
        ((2.0, 4.0, 4.0), (0.5, 0.25, 0.25), 3.0, Method.BLEND, N),
    ],
)
def test_the_closed_form_gives_its_deviation_where_the_model_has_no_part(
    values: tuple[float, ...], weights: tuple[float, ...], value: float, method: Method, deviation: float
) -> None:
    cell, shape = np.zeros(1, np.int64), (1, 1, 1)
    cells = Predictions(cell, cell, cell, np.array([Place.EDGE], np.int64), np.array([values]))
    imputed = Imputed(np.full(shape, values[0]), np.full(shape, Method.MODEL, np.int8), ["1"])
    form = Imputed(
        np.full(shape, values[2]), np.full(shape, Method.GAUSSIAN, np.int8), [FORM], np.full(shape, 0.5), FORM
    )
    found = blended(imputed, HolePredictions(cells, cell, cell, cell), np.array([weights]), form)
    assert (found.values.item(), found.method.item()) == (value, method)
    assert (found.version, found.form_version) == (["1"], FORM)
    assert found.deviation is not None
    np.testing.assert_array_equal(found.deviation.item(), deviation)
