"""Parts of values by method: they add up, and each is what its method used."""

from dataclasses import replace

import numpy as np
import pytest

from glaim_stream.core.errors import ImputerError, ModelError, SettingsError
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import ClosedForm, Kind
from glaim_stream.imputers import version_of
from glaim_stream.operate.explain.estimates import Estimate
from glaim_stream.operate.explain.explained import (
    CORRECTION,
    DIFFERENCE,
    OTHER_EXPERTS,
    ROUNDING,
    Means,
    Row,
    explain_published,
    explain_unpublished,
)
from glaim_stream.operate.explain.parts import Answers, of_baseline, of_network
from glaim_stream.output import SensorTable
from tests.form.samples import STEPS, fitted, series, windows

FREE = SensorTable(np.full(3, -np.inf), np.full(3, np.inf), np.zeros(3), np.full(3, np.inf), STEPS, None, {})
COARSE = SensorTable(np.full(3, -np.inf), np.full(3, np.inf), np.full(3, 0.5), np.full(3, np.inf), STEPS, None, {})


@pytest.fixture(scope="module")
def form() -> ClosedForm:
    return fitted(series()).form


def window(step: int, hidden: list[int], sensor: int = 0) -> Estimate:
    """A window whose sensor has no reading at some steps, one of which is explained."""
    cut, end_ms = windows(series(seed=2), 3)
    observed = np.ones(cut[1].shape, np.bool_)
    observed[sensor, hidden] = False
    return Estimate(1, float("nan"), 1, step, STEPS, int(end_ms[1]), np.where(observed, cut[1], 0.0), observed)


def means(form: ClosedForm | None, table: SensorTable = FREE, network: Answers | None = None) -> Means:
    return Means(form, None if network is None else lambda lag: network, "7", table)


@pytest.mark.parametrize(
    ("step", "hidden", "weights", "method"),
    [
        (10, [10], {9: 0.5, 11: 0.5}, Method.INTERPOLATION),
        (10, [9, 10, 11, 12], {8: 0.6, 13: 0.4}, Method.INTERPOLATION),
        (STEPS - 1, [STEPS - 2, STEPS - 1], {STEPS - 3: 1.0}, Method.LAST_VALUE),
        (1, [0, 1], {2: 1.0}, Method.INTERPOLATION),
    ],
)
def test_a_baseline_is_carried_by_its_one_or_two_readings(
    step: int, hidden: list[int], weights: dict[int, float], method: Method
) -> None:
    found = window(step, hidden)
    assert found.values is not None
    parts, by = of_baseline(found, 0, direction=False) or pytest.fail("a value was expected")
    assert by is method
    assert parts.parts == ()
    assert parts.total == pytest.approx(parts.value, rel=1e-12)
    assert {int(t) for _, t in np.argwhere(parts.contributions)} == set(weights)
    for place, weight in weights.items():
        assert parts.contributions[0, place] == pytest.approx(weight * found.values[0, place])


def test_the_parts_of_a_direction_add_up_to_the_value_on_the_shorter_arc() -> None:
    found = window(10, [10])
    assert found.values is not None
    found.values[0, [9, 11]] = 350.0, 20.0
    parts, _ = of_baseline(found, 0, direction=True) or pytest.fail("a value was expected")
    assert (parts.value, parts.total) == (5.0, pytest.approx(5.0))
    assert parts.contributions[0, [9, 11]].tolist() == [-5.0, 10.0]


def test_a_baseline_without_readings_has_no_parts() -> None:
    assert of_baseline(window(3, list(range(STEPS))), 0, direction=False) is None


def test_a_published_value_of_the_form_closes_with_its_rounding(form: ClosedForm) -> None:
    found = explain_unpublished(window(10, [10]), 0, means(form, COARSE))
    assert found.row.value % 0.5 == 0.0
    assert found.row.lower is not None
    assert found.row.upper is not None
    assert found.row.lower <= found.row.value <= found.row.upper
    again = explain_published(found.row, window(10, [10]), 0, means(form, COARSE))
    assert again.parts.parts[-1].name == ROUNDING
    assert 0 < abs(again.parts.parts[-1].value) <= 0.25
    assert again.parts.total == pytest.approx(found.row.value, rel=1e-12)
    assert (again.recomputed, again.notes) == (found.row.value, ())


def test_another_value_than_the_published_one_shows_both_and_the_reason(form: ClosedForm) -> None:
    row = Row(30.0, Method.GAUSSIAN, 1, 1, "gaussian-00000000")
    found = explain_published(row, window(10, [10]), 0, means(form))
    assert found.notes == (f"the value was made by gaussian-00000000; the model repository has {version_of(form)}",)
    assert found.recomputed not in (None, 30.0)
    assert found.parts.parts[-1].name == DIFFERENCE
    assert found.parts.total == pytest.approx(30.0, rel=1e-12)
    row = Row(30.0, Method.GAUSSIAN, 1, 1, version_of(form))
    assert "the window differs" in explain_published(row, window(10, [10]), 0, means(form)).notes[0]


@pytest.mark.parametrize(("method", "name"), [(Method.MODEL, CORRECTION), (Method.BLEND, OTHER_EXPERTS)])
def test_a_networks_part_beside_the_form_is_one_item(form: ClosedForm, method: Method, name: str) -> None:
    alone = explain_unpublished(window(10, [10]), 0, means(form))
    row = Row(alone.row.value + 0.75, method, 1, 1, "7")
    found = explain_published(row, window(10, [10]), 0, means(form))
    np.testing.assert_array_equal(found.parts.contributions, alone.parts.contributions)
    assert found.parts.parts[-1].name == name
    assert found.parts.parts[-1].value == pytest.approx(0.75)
    assert found.parts.total == pytest.approx(row.value, rel=1e-12)
    assert found.recomputed is None


def test_a_blend_without_a_form_is_the_baseline_and_the_rest() -> None:
    row = Row(25.0, Method.BLEND, 1, 1, "7")
    found = explain_published(row, window(10, [10]), 0, means(None))
    assert np.count_nonzero(found.parts.contributions) == 2
    assert [part.name for part in found.parts.parts] == [OTHER_EXPERTS]
    assert found.parts.total == pytest.approx(25.0, rel=1e-12)


def neighbours(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """A network that adds a tenth of the step's second sensor to the mean of the first one's readings."""
    mean = np.where(observed, values, 0.0)[:, 0].sum(axis=1) / np.maximum(observed[:, 0].sum(axis=1), 1)
    out: np.ndarray = mean + 0.1 * np.where(observed, values, 0.0)[:, 1, 10]
    return out


def test_a_network_alone_is_explained_by_hiding_readings_with_the_rest_stated() -> None:
    found = window(10, [10])
    assert found.values is not None
    parts = of_network(neighbours, found)
    assert parts.contributions[1, 10] == pytest.approx(0.1 * found.values[1, 10])
    assert not parts.contributions[2].any()
    assert [part.name for part in parts.parts] == ["not carried by any single reading"]
    assert parts.total == pytest.approx(parts.value, rel=1e-12)
    row = Row(parts.value, Method.MODEL, 1, 1, "6")
    explained = explain_published(row, found, 0, means(None, network=neighbours))
    assert explained.recomputed == parts.value
    assert explained.notes == ("the value was made by version 6; the repository has 7",)


def test_a_network_without_a_value_is_an_error() -> None:
    with pytest.raises(ImputerError, match="no value"):
        of_network(lambda values, observed: np.full(len(values), np.nan), window(10, [10]))


def test_what_no_model_of_the_repository_makes_is_an_error(form: ClosedForm) -> None:
    with pytest.raises(ModelError, match="expected the closed form gaussian-1, found none"):
        explain_published(Row(1.0, Method.GAUSSIAN, 1, 1, "gaussian-1"), window(10, [10]), 0, means(None))
    with pytest.raises(ModelError, match="found neither"):
        explain_published(Row(1.0, Method.MODEL, 1, 1, "7"), window(10, [10]), 0, means(None))
    with pytest.raises(ModelError, match="last value, found none"):
        explain_published(Row(1.0, Method.LAST_VALUE, 1, 1), window(3, list(range(STEPS))), 0, means(form))
    with pytest.raises(SettingsError, match="found none in the window"):
        explain_unpublished(window(3, list(range(STEPS))), 0, means(None))


def test_the_band_of_a_state_ends_at_the_states(form: ClosedForm) -> None:
    """As the row that a worker publishes does."""
    found = window(10, [10])
    assert found.values is not None
    assert found.observed is not None
    found.values[0] = np.where(found.observed[0], np.arange(STEPS) % 2, 0.0)
    valve = replace(
        form, kinds=(Kind.STATE, *form.kinds[1:]), lowest=np.array([0.0, *form.lowest[1:]]),
        highest=np.array([1.0, *form.highest[1:]]), carried_deviation=np.full(3, 0.5),
    )  # fmt: skip
    row = explain_unpublished(found, 0, means(valve, replace(FREE, resolution=np.full(3, 0.3)))).row
    assert (row.value, row.lower, row.upper) == (1.0, 0.0, 1.0)
