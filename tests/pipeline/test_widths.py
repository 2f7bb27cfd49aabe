"""Half-widths of cells, and the scores of probes in shares of them."""

from __future__ import annotations

import numpy as np
import pytest

from glaim_stream.blend.leader import mixtures
from glaim_stream.blend.scores import Answers
from glaim_stream.output.sensor_tables import SensorTable
from glaim_stream.pipeline.widths import HalfWidths, half_widths, scores_of
from tests.support import catalogue, contract

QUANTILES = {
    "gap_ages": [1, 4],
    "newest_lower": [[-1, -2], [0.5, -4]],  # s1: the model is always too low at young gaps
    "newest_upper": [[2, 3], [1, 5]],
    "interior_lower": [[-0.5, -1], [-0.5, -1]],
    "interior_upper": [[0.5, 1], [1, 2]],
}
NAN = np.nan
BOTH = HalfWidths(np.array([[1.0, 2.0]]), np.array([[4.0, 4.0]]), np.array([8.0]))


def table(*, intervals: bool = True) -> SensorTable:
    return SensorTable.of(catalogue(sensors=2).models[0], contract(residual_quantiles=QUANTILES if intervals else None))


@pytest.mark.parametrize(
    ("weights", "half"),
    [([1.0, 0.0, 0.0], [1.0, 2.0]), ([0.25, 0.0, 0.75], [1.0, 2.0]), ([0.0, 0.5, 0.5], [4.0, 4.0])],
)
def test_a_value_with_a_part_of_the_model_has_the_model_s_half_widths(weights: list[float], half: list[float]) -> None:
    assert BOTH.of(np.array([weights])).tolist() == [half]
    assert BOTH.adapted(np.array([weights]), np.array([2.0])).tolist() == [[2 * each for each in half]]


def test_where_one_is_not_known_the_other_stands_in() -> None:
    unknown = np.full((1, 2), NAN)
    by_form = HalfWidths(unknown, BOTH.of_form, BOTH.span)
    by_model = HalfWidths(BOTH.of_model, unknown, BOTH.span)
    assert by_form.of(np.array([[1.0, 0.0, 0.0]])).tolist() == [[4.0, 4.0]]
    assert by_model.of(np.array([[0.0, 1.0, 0.0]])).tolist() == [[1.0, 2.0]]
    assert np.isnan(HalfWidths(unknown, unknown, BOTH.span).of(np.array([[0.0, 1.0, 0.0]]))).all()


def test_half_widths_are_those_of_the_contract_and_of_the_deviation() -> None:
    found = half_widths(
        np.array([0, 0, 1, 1]),
        np.array([1, 2, 1, 9]),
        np.array([True, False, True, True]),
        table(),
        lambda version: table(intervals=version == "2"),
        version=["2", "2", "2", "3"],
        deviation=np.array([1.0, 1.0, 2.0, NAN]),
        form_range=(np.array([-9.0, 0.0]), np.array([1.0, 0.0])),
    )
    assert found.of_model[:3].tolist() == [[1.0, 2.0], [1.0, 1.0], [0.0, 1.0]], "never a negative one"
    assert np.isnan(found.of_model[3]).all(), "nothing is known of version 3"
    np.testing.assert_allclose(found.of_form[:, 0], 1.6448536 * np.array([1.0, 1.0, 2.0, NAN]))
    assert found.span.tolist() == [10.0, 10.0, 10.0, 10.0], "the wider one of contract and form"


def test_a_value_that_no_version_answered_has_the_first_contract_s_half_widths() -> None:
    at = np.array([0])
    found = half_widths(at, at + 1, at == 0, table(), lambda _: table(intervals=False), version=[""])
    assert found.of_model.tolist() == [[1.0, 2.0]]


def test_scores_are_errors_in_shares_of_the_side_on_which_the_truth_lies() -> None:
    every = mixtures(2)
    ints = np.zeros(4, np.int64)
    widths = HalfWidths(*(np.repeat(each, 4, axis=0) for each in (BOTH.of_model, BOTH.of_form, BOTH.span)))
    cells = Answers(ints, ints, ints, ints, np.array([[5.0, 1.0], [5.0, 3.0], [NAN, 3.0], [5.0, 4.1]]))
    scores, levels = scores_of(every, cells, np.array([3.0, 9.0, 3.0, 4.0]), widths, np.array([0.2]))
    model, baseline, half = (int(np.flatnonzero((every == row).all(axis=1))[0]) for row in ([1, 0], [0, 1], [0.5, 0.5]))
    np.testing.assert_allclose(scores[:, model], [1.9 / 1.0, 3.9 / 2.0, NAN, 0.9 / 1.0])
    np.testing.assert_allclose(scores[:, baseline], [1.9 / 4.0, 5.9 / 4.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(scores[:, half], [0.0, 4.9 / 2.0, NAN, 0.45 / 1.0], atol=1e-12)
    assert (levels[0, model], levels[0, baseline], levels[0, half]) == (6, 7, 6)


def test_no_probe_has_no_score() -> None:
    scores, levels = scores_of(mixtures(3), Answers.none(), np.empty(0), BOTH, np.array([0.1]))
    assert scores.shape == levels.shape == (0, len(mixtures(3)))
