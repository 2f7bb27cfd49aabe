"""A cell counts once, by its newest revision, however often it was published."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from glaim_stream.core.vocabulary import FINAL, FIRST_CORRECTION, PROVISIONAL, UPGRADED, Method
from glaim_stream.operate.completeness.rows import TOO_LATE
from tests.operate.completeness.topic_rows import STEP_MS, catalogue, no_rows

NAN = float("nan")
Published = tuple[int, int, int, bool, float]  # step, revision, method, good, delay


def of(*published: Published, cadence: int = 1) -> SimpleNamespace:
    sensor: dict[str, Any] = {"id": "flow"} | ({"cadence_s": cadence * 3600} if cadence > 1 else {})
    with no_rows(catalogue(sensors=[sensor])) as rows:
        group = rows.index.group("p1")
        names = ("step", "revision", "method", "good", "delay_ms")
        columns = {name: np.array(column) for name, column in zip(names, zip(*published, strict=True), strict=True)}
        series = np.full(len(published), group)
        rows.database.add("topic", {"series": series, "cell": columns["step"] // cadence, **columns})
        rows.make_cells({group: (0, 100 * STEP_MS)})
        query = "SELECT * EXCLUDE (series) REPLACE (coalesce(delay_ms, 'nan') AS delay_ms) FROM cells ORDER BY cell"
        return SimpleNamespace(**rows.database.read(query))


def test_a_better_revision_replaces_a_null_and_a_provisional_row() -> None:
    found = of(
        (5, PROVISIONAL, Method.NONE, False, NAN),
        (6, PROVISIONAL, Method.LAST_VALUE, False, NAN),
        (7, PROVISIONAL, Method.INTERPOLATION, False, NAN),
        (5, FINAL, Method.GAUSSIAN, False, NAN),
        (6, UPGRADED, Method.MODEL, False, NAN),
        (6, FINAL, Method.INTERPOLATION, False, NAN),
    )
    assert found.cell.tolist() == [5, 6, 7]
    assert found.method.tolist() == [Method.GAUSSIAN, Method.MODEL, Method.INTERPOLATION]
    assert not found.late.any()
    assert found.has_row.all()


def test_a_copy_counts_once_and_the_last_of_equal_revisions_wins() -> None:
    found = of(
        (1, PROVISIONAL, Method.OBSERVED, True, 10.0),
        (2, PROVISIONAL, Method.LAST_VALUE, False, NAN),
        (1, PROVISIONAL, Method.OBSERVED, True, 9000.0),  # a worker published it again after a crash
        (2, PROVISIONAL, Method.MODEL, False, NAN),
    )
    assert found.method.tolist() == [Method.OBSERVED, Method.MODEL]
    assert found.delay_ms[0] == 10.0
    assert found.good.tolist() == [True, False]


def test_a_reading_that_came_after_its_step_was_published_is_late() -> None:
    found = of(
        (1, PROVISIONAL, Method.MODEL, False, NAN),
        (1, FINAL, Method.MODEL, False, NAN),
        (1, FIRST_CORRECTION, Method.OBSERVED, True, 70_000.0),
        (2, PROVISIONAL, Method.OBSERVED, True, 5.0),
        (2, FIRST_CORRECTION, Method.OBSERVED, True, 80_000.0),  # another value for a cell that had one
        (3, PROVISIONAL, Method.OBSERVED, False, 7.0),
    )
    assert found.method.tolist() == [Method.OBSERVED] * 3
    assert found.late.tolist() == [True, False, False]
    assert found.delay_ms.tolist() == [70_000.0, 5.0, 7.0]
    assert found.good.tolist() == [True, True, False]
    assert not found.too_late.any()


def test_a_reading_of_the_late_topic_marks_the_cell_that_did_not_get_it() -> None:
    mark = (TOO_LATE, TOO_LATE, False, NAN)
    found = of(
        (1, FINAL, Method.MODEL, False, NAN),
        (1, *mark),
        (1, *mark),  # the letter came twice
        (2, PROVISIONAL, Method.OBSERVED, True, 1.0),
        (2, *mark),  # a second reading of a cell that has one
        (3, *mark),  # a cell without a row
    )
    assert found.method.tolist() == [Method.MODEL, Method.OBSERVED, Method.NONE]
    assert found.late.tolist() == [True, False, True]
    assert found.too_late.tolist() == [True, False, True]
    assert found.has_row.tolist() == [True, True, False]


def test_a_slow_sensor_has_one_cell_for_each_of_its_intervals() -> None:
    found = of(
        (10, PROVISIONAL, Method.OBSERVED, True, 3.0),  # two readings in the interval 10 to 14
        (12, PROVISIONAL, Method.OBSERVED, True, 4.0),
        (19, PROVISIONAL, Method.LAST_VALUE, False, NAN),
        (19, FINAL, Method.MODEL, False, NAN),
        (22, FIRST_CORRECTION, Method.OBSERVED, True, 9.0),  # after the hole of 20 to 24 was published
        (24, PROVISIONAL, Method.LAST_VALUE, False, NAN),
        cadence=5,
    )
    assert found.cell.tolist() == [2, 3, 4]
    assert found.method.tolist() == [Method.OBSERVED, Method.MODEL, Method.OBSERVED]
    assert found.late.tolist() == [False, False, True]
    assert found.delay_ms[[0, 2]].tolist() == [3.0, 9.0]
