"""The row that the input implies for each step: the last reading or the mean, with its time and quality."""

import numpy as np
import pytest

from glaim_stream.core.readings import Readings
from glaim_stream.operate.audit.expected import Expected, RangeStart, expected_rows, surely_whole
from glaim_stream.operate.audit.keys import Keys
from tests.operate.audit.tables import ALL, COLUMNS, G1, G2, H1, STEP_MS, Reading, arrivals_of, readings


def expected_of(given: Readings) -> tuple[Expected, Keys]:
    arrivals = arrivals_of(given, ALL, COLUMNS)
    keys = Keys.over(0, COLUMNS, arrivals.step)
    return expected_rows(arrivals, keys), keys


def test_the_last_reading_by_event_time_is_used_for_the_step() -> None:
    given = readings(
        (G1, 0, 7 * STEP_MS + 9, 1.0), (G1, 0, 7 * STEP_MS + 3, 2.0), (G1, 0, 7 * STEP_MS + 9, 3.0),
        (G1, 0, 7 * STEP_MS + 1, 4.0), offset=(3, 4, 5, 6), quality=(1, 1, 0, 1),
    )  # fmt: skip
    expected, keys = expected_of(given)
    assert keys.step(expected.key).tolist() == [7]
    assert expected.value.tolist() == [3.0]
    assert expected.event_time_ms.tolist() == [7 * STEP_MS + 9]
    assert expected.quality.tolist() == [0]
    assert (expected.first_offset.tolist(), expected.last_offset.tolist()) == ([3], [6])
    assert expected.count.tolist() == [4]
    assert expected.readings_of(0).tolist() == [4.0, 2.0, 1.0, 3.0]
    assert not expected.mean[0]


def test_a_mean_has_the_latest_time_and_the_worst_quality() -> None:
    given = readings((H1, 0, 30_009, 1.0), (H1, 0, 30_003, 4.0), quality=(0, 1))
    expected, _ = expected_of(given)
    assert expected.value.tolist() == [2.5]
    assert expected.mean.tolist() == [True]
    assert (expected.event_time_ms.tolist(), expected.quality.tolist()) == ([30_009], [1])


def test_readings_are_collected_by_key() -> None:
    given = readings(
        (G2, 0, STEP_MS, 1.0), (G1, 1, STEP_MS, 2.0), (G1, 0, 2 * STEP_MS, 3.0), (G1, 0, STEP_MS, 4.0),
        (G1, 1, STEP_MS, 5.0),
    )  # fmt: skip
    expected, keys = expected_of(given)
    assert keys.cell(expected.key).tolist() == [0, 0, 1, 3]
    assert keys.step(expected.key).tolist() == [1, 2, 1, 1]
    assert expected.value.tolist() == [4.0, 3.0, 5.0, 1.0]
    assert expected.count.tolist() == [1, 1, 2, 1]
    assert expected.readings_of(2).tolist() == [2.0, 5.0]
    # the clock is at step 2 when the fourth and the fifth reading arrive
    assert expected.on_time.tolist() == [False, True, True, True]


def test_readings_without_a_value_or_too_late_imply_no_row() -> None:
    given = readings((G1, 0, 9 * STEP_MS, np.nan), (G1, 0, 0, 1.0))
    expected, _ = expected_of(given)
    assert [len(getattr(expected, name)) for name in Expected.__slots__] == [0] * len(Expected.__slots__)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(
    ("group", "first_sure"),
    [(G1, 6), (H1, 14)],  # 5.5 min: step 5 of model 0; step 11 of model 1, plus a lateness of 2 steps
)
def test_a_key_is_complete_when_its_step_began_after_the_start_of_the_range(
    group: int, first_sure: int, parts: int
) -> None:
    step_ms = int(COLUMNS.step_ms[int(group == H1)])
    given: list[Reading] = [(group, 0, 330_000, 1.0)]
    given += [(group, 0, step * step_ms, 1.0) for step in (first_sure - 1, first_sure, first_sure + 1)]
    # Only the first 1,000 readings count: later ones show nothing about the time before the range.
    padding: list[Reading] = [(group, 1, 0, 1.0)] * 998
    arrived = readings(*given[:1], *padding, *given[:1], *given[1:])
    expected, keys = expected_of(arrived)
    start = RangeStart()
    for part in np.array_split(np.arange(len(arrived)), parts):
        start.add(arrived.where(part))
    whole = surely_whole(expected, start.newest_ms, keys)
    steps = keys.step(expected.key)[keys.cell(expected.key) % COLUMNS.width == 0]
    found = whole[keys.cell(expected.key) % COLUMNS.width == 0]
    assert dict(zip(steps.tolist(), found.tolist(), strict=True)) == {
        330_000 // step_ms: False, first_sure - 1: False, first_sure: True, first_sure + 1: True
    }  # fmt: skip


def test_all_keys_are_complete_if_the_whole_input_was_read() -> None:
    given = readings((G1, 0, STEP_MS, 1.0))
    expected, keys = expected_of(given)
    assert surely_whole(expected, None, keys).tolist() == [True]
    assert surely_whole(expected, STEP_MS, keys).tolist() == [False]
