"""The decimals of readings are learned, unless they were computed, and are kept beside a closed form."""

import numpy as np
import pytest

from glaim_stream.core.errors import ModelError
from glaim_stream.form import ClosedForm, artefact
from glaim_stream.form.decimals import decimals_in, learned_decimals, with_decimals
from tests.form.samples import fitted, series

RANDOM = np.random.default_rng(3)
NOISE = RANDOM.normal(21.0, 3.0, 2_000)


def learned(*groups: np.ndarray) -> int:
    """The decimals of one sensor of several groups."""
    cell = np.repeat(np.arange(len(groups)), [len(each) for each in groups])
    return int(learned_decimals(cell, np.concatenate(groups).astype(np.float64), 1)[0])


def single(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)


def mixed(share: float) -> np.ndarray:
    """Readings with one decimal, of which a share was computed."""
    values = np.round(NOISE, 1)
    values[:: round(1 / share)] = NOISE[:: round(1 / share)]
    return values


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.round(NOISE, 1), 1),
        (np.round(NOISE), 0),
        (np.round(NOISE * 2) / 2, 1),
        (np.round(NOISE / 1e6, 9), 9),
        (single(np.round(NOISE, 1)), 1),
        (single(np.round(NOISE * 20, 3)), 3),
        (np.float32(0.1) * np.round(NOISE * 10).astype(np.float32), 1),
        (0.1 * np.round(NOISE * 10), 1),
        (np.round(NOISE) * 500_001, 0),  # integers that fill a 32-bit number
        (1e12 + np.round(NOISE, 2), 2),
        (np.round(NOISE - 21.0, 2), 2),
        (NOISE, -1),
        (single(NOISE), -1),
        (single(NOISE * 1e4), -1),
        (single(np.round(NOISE * 1e4, 2)), -1),  # 210,000.37 has more digits than a 32-bit number
        (NOISE * 1e-12, -1),
        (NOISE * 1e300, 0),  # all numbers of this size are integers
        (np.round(NOISE) * 1.1e-10, -1),
    ],
)
def test_the_decimals_are_those_of_the_readings(values: np.ndarray, expected: int) -> None:
    assert learned(values) == expected


@pytest.mark.parametrize(("share", "expected"), [(0.04, 1), (0.1, -1)])
def test_a_few_computed_readings_do_not_count(share: float, expected: int) -> None:
    assert learned(mixed(share)) == expected


@pytest.mark.parametrize(("share", "expected"), [(0.04, 1), (0.1, 2)])
def test_of_several_numbers_of_decimals_most_readings_decide(share: float, expected: int) -> None:
    assert learned(np.round(mixed(share), 2)) == expected


def test_the_group_with_the_most_decimals_decides_however_few_its_readings_are() -> None:
    assert learned(np.round(NOISE), np.round(NOISE[:30], 1), np.round(NOISE)) == 1
    assert learned(np.round(NOISE), NOISE[:30]) == -1


def test_a_sensor_that_rests_has_the_decimals_of_its_moves() -> None:
    resting = np.repeat(np.round(NOISE[:40] / 100, 4), 50) * np.tile(np.arange(50) > 40, 40)
    assert learned(resting) == 4
    assert learned(np.zeros(500)) == learned(np.full(500, 5.0)) == -1
    assert learned(np.round(NOISE[:15], 1)) == -1


def test_sensors_have_their_own_decimals_and_many_readings_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glaim_stream.form.decimals._SAMPLE", 300)
    cell = np.repeat([0, 1, 3, 4], 500)  # the third sensor has no reading, and the second none in the second group
    values = np.concatenate([np.round(NOISE[:500], 1), NOISE[:500], np.round(NOISE[:500], 2), np.round(NOISE[:500])])
    assert learned_decimals(cell, values, 3).tolist() == [2, -1, -1]
    assert learned_decimals(np.zeros(0, np.int64), np.zeros(0), 2).tolist() == [-1, -1]


def test_decimals_lie_beside_a_form_that_stays_the_same() -> None:
    form = fitted(series(300)).form
    plain = form.to_bytes()
    count = len(form.sensors)
    content = with_decimals(plain, np.arange(count, dtype=np.int8))
    found = decimals_in(artefact.from_bytes(content, "f"), count)
    assert found is not None
    assert found.tolist() == list(range(count))
    assert ClosedForm.from_bytes(content, "f").digest == form.digest
    assert decimals_in(artefact.from_bytes(plain, "f"), count) is None


@pytest.mark.parametrize(
    "damaged", [np.zeros(3, np.int8), np.full(2, 99, np.int8), np.zeros(2), np.full(2, -2, np.int8)]
)
def test_decimals_of_other_sensors_are_refused(damaged: np.ndarray) -> None:
    with pytest.raises(ModelError, match="expected decimals of 2 sensors, each -1 to 9"):
        decimals_in({"decimals": damaged}, 2)
