"""Half-widths of the intervals of cells, before recent errors change them."""

import numpy as np
import pytest

from glaim_stream.output import SensorTable
from glaim_stream.output.intervals import HalfWidths
from tests.support import catalogue, contract

QUANTILES = {
    "gap_ages": [1, 4],
    "newest_lower": [[-1, -2], [0.5, -4]],  # s1: the model is always too low at young gaps
    "newest_upper": [[2, 3], [1, 5]],
    "interior_lower": [[-0.5, -1], [-0.5, -1]],
    "interior_upper": [[0.5, 1], [1, 2]],
}
NAN = np.nan
NOT_KNOWN = np.full((1, 2), NAN)
BY_MODEL, BY_FORM, SPAN = np.array([[1.0, 2.0]]), np.array([[4.0, 4.0]]), np.array([8.0])
AGE, ALONE = np.array([1]), np.array([False])


def table(*, intervals: bool = True) -> SensorTable:
    return SensorTable.of(catalogue(sensors=2).models[0], contract(residual_quantiles=QUANTILES if intervals else None))


@pytest.mark.parametrize(
    ("weights", "half"),
    [([1.0, 0.0, 0.0], [2.0, 2.0**1.5]), ([0.25, 0.0, 0.75], [2.0, 2.0**1.5]), ([0.0, 0.5, 0.5], [4.0, 4.0])],
)
def test_a_value_with_a_part_of_the_model_has_half_widths_between_both(weights: list[float], half: list[float]) -> None:
    found, level = HalfWidths.of(BY_MODEL, BY_FORM, SPAN, AGE, ALONE).published(np.array([weights]))
    np.testing.assert_allclose(found, [half])
    assert level.tolist() == [7]


def test_where_one_is_not_known_the_other_stands_in() -> None:
    weights = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    for by_model, by_form, expected in ((NOT_KNOWN, BY_FORM, BY_FORM), (BY_MODEL, NOT_KNOWN, BY_MODEL)):
        widths = HalfWidths.of(*(np.repeat(each, 2, axis=0) for each in (by_model, by_form, SPAN, AGE, ALONE)))
        np.testing.assert_allclose(widths.published(weights)[0], [expected[0].tolist()] * 2)
    assert np.isnan(HalfWidths.of(NOT_KNOWN, NOT_KNOWN, SPAN, AGE, ALONE).half).all()


def test_half_widths_are_those_of_the_contract_and_of_the_deviation() -> None:
    found = HalfWidths.found(
        np.array([0, 0, 1, 1]),
        np.array([1, 2, 1, 9]),
        np.array([True, False, True, True]),
        np.zeros(4, np.bool_),
        table(),
        lambda version: table(intervals=version == "2"),
        version=["2", "2", "2", "3"],
        deviation=np.array([1.0, 1.0, 2.0, NAN]),
        form_range=(np.array([-10.0, 0.0]), np.array([1.0, 0.0])),
    )
    by_form = found.half[:, 1]
    by_model = found.half[:, 0] ** 2 / by_form
    np.testing.assert_allclose(by_model[:3], [[1.0, 2.0], [1.0, 1.0], [0.0, 1.0]], err_msg="never a negative one")
    assert np.isnan(by_model[3]).all(), "nothing is known of version 3, nor of the deviation"
    np.testing.assert_allclose(by_form[:, 0], [1.6448536, 1.6448536, 3.2897073, NAN])
    assert found.level[0].tolist() == [6, 6], "of the span 11, the wider one of contract and form"


def test_a_value_that_no_version_answered_has_the_first_contract_s_half_widths() -> None:
    at = np.array([0])
    found = HalfWidths.found(at, at + 1, at == 0, at > 0, table(), lambda _: table(intervals=False), version=[""])
    np.testing.assert_allclose(found.half, [[[1.0, 2.0], [1.0, 2.0]]])
