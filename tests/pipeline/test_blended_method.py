"""The method of a blended cell is the method that made its value."""

from __future__ import annotations

import numpy as np
import pytest

from glaim_stream.blend.scores import Answers
from glaim_stream.imputers.protocol import Imputed
from glaim_stream.pipeline.answers import HoleAnswers, blended
from glaim_stream.records import Method
from glaim_stream.windows.probes import Place

N, INF = np.nan, np.inf


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
    cells = Answers(cell, cell, cell, np.array([place], np.int64), np.array([[model, baseline]]))
    imputed = Imputed(np.full((1, 1, 1), model, np.float64), np.full((1, 1, 1), Method.MODEL, np.int8), ["1"])
    found = blended(imputed, HoleAnswers(cells, cell, cell), np.array([[weight, 1 - weight]]))
    assert (found.values.item(), found.method.item(), found.version) == (value, method, ["1"])
