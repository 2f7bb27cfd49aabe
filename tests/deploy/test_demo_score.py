"""Output rows on a grid, and errors on hidden cells."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deploy.demo.grid import NO_ROW, Grid, holes_by_method, outcome
from deploy.demo.score import coverage, score
from deploy.demo.watch import latency_percentiles
from glaim_stream.output import SCHEMA, Method

GRID = Grid(("a", "b"), ("x", "y"), 60_000, 60_000, 4)
NAN = float("nan")


def rows(*given: Sequence[Any]) -> pa.Table:
    """(group, sensor, step, value, method, revision, final) as a table of the output topic."""
    count = len(given)
    group, sensor, step, value, method, revision, final = zip(*given, strict=True)
    plain = {
        "group": pa.array(group),
        "sensor": pa.array(sensor),
        "ts": pa.array([60_000 * (1 + each) for each in step], pa.timestamp("ms", tz="UTC")),
        "event_time": pa.nulls(count, pa.timestamp("ms", tz="UTC")),
        "value": pa.array(value, pa.float32()),
        "observed": pa.array([each == "observed" for each in method]),
        "method": pa.array(method),
        "quality": pa.array(["good"] * count),
        "status": pa.array([0] * count, pa.uint32()),
        "lower": pa.array([None if each is None else each - 1 for each in value], pa.float32()),
        "upper": pa.array([None if each is None else each + 1 for each in value], pa.float32()),
        "gap_age": pa.array([0] * count, pa.uint16()),
        "revision": pa.array(revision, pa.uint16()),
        "final": pa.array(final),
        "model_version": pa.array([""] * count),
    }
    return pa.table([column.cast(SCHEMA.field(name).type) for name, column in plain.items()], schema=SCHEMA)


def test_observed_values_first_estimates_and_final_values_are_distinguished() -> None:
    found = outcome(
        GRID,
        [
            rows(("a", "x", 0, 1.5, "observed", 0, True), ("a", "x", 1, 2.0, "model", 0, False)),
            rows(("a", "x", 1, 3.0, "model", 1, True)),
        ],
    )
    assert found.observed[0, 0, 0] == 1.5
    assert found.provisional.value[0, 0, 1] == 2.0
    assert found.final.value[0, 0, 1] == 3.0
    assert (found.final.lower[0, 0, 1], found.final.upper[0, 0, 1]) == (2.0, 4.0)
    assert np.isnan(found.observed[0, 0, 1])
    assert found.newest_method[0, 0, 1] == Method.MODEL
    assert found.newest_method[1, 1, 3] == NO_ROW


def test_lower_revision_after_a_restart_changes_nothing() -> None:
    again = rows(("b", "y", 2, 1.0, "interpolation", 0, False))
    found = outcome(GRID, [rows(("b", "y", 2, 2.0, "model", 1, True)), again])
    assert found.newest_method[1, 1, 2] == Method.MODEL
    assert found.final.value[1, 1, 2] == 2.0
    assert holes_by_method(found)["model"] == 1


def test_hidden_values_are_assigned_to_their_cells() -> None:
    hidden = pa.table(
        {
            "group": ["a", "b", "a"],
            "sensor": ["x", "y", "x"],
            "ts": pa.array([60_000, 4 * 60_000 + 59_999, 99 * 60_000], pa.timestamp("ms", tz="UTC")),
            "value": [1.0, 2.0, 3.0],
        }
    )
    truth = GRID.values(hidden)
    assert truth[0, 0, 0] == 1.0
    assert truth[1, 1, 3] == 2.0  # a reading anywhere inside a step belongs to it
    assert np.isfinite(truth).sum() == 2


def cells(*values: float) -> np.ndarray:
    """An array [1, 2, 2] of two sensors and two steps."""
    return np.array(values, np.float32).reshape(1, 2, 2)


def scored(truth: np.ndarray, estimates: dict[str, np.ndarray], eligible: np.ndarray | None = None) -> Any:
    return score(
        truth,
        estimates,
        eligible=np.ones(truth.shape, np.bool_) if eligible is None else eligible,
        sensors=["x", "y"],
        units=["m", "K"],
        deviation=np.array([1.0, 10.0]),
    )


def test_errors_are_means_in_units_and_in_deviations() -> None:
    found = scored(cells(1, 2, 30, NAN), {"model": cells(2, 2, 20, 5), "last_value": cells(1, 5, 35, 5)})
    assert found.cells == 3
    assert [each.cells for each in found.sensors] == [2, 1]
    assert found.sensors[0].mae == {"model": 0.5, "last_value": 1.5}
    assert found.sensors[1].mae == {"model": 10.0, "last_value": 5.0}
    assert found.mae == {"model": pytest.approx(2 / 3), "last_value": pytest.approx(3.5 / 3)}


def test_cell_counts_only_if_every_method_filled_it() -> None:
    found = scored(cells(1, 2, 3, 4), {"model": cells(1, NAN, 3, 4), "last_value": cells(2, 3, 4, NAN)})
    assert found.cells == 2
    assert found.mae["model"] == 0.0


def test_cell_that_the_model_did_not_fill_does_not_count() -> None:
    eligible = np.array([True, False, False, False]).reshape(1, 2, 2)
    found = scored(cells(1, 2, 3, 4), {"model": cells(2, 9, 9, 9)}, eligible)
    assert (found.cells, found.mae["model"]) == (1, 1.0)


def test_coverage_is_the_share_inside_the_interval() -> None:
    truth = cells(1, 2, 3, NAN)
    assert coverage(truth, truth - 1, np.array([[[2, 1.5], [4, 4]]], np.float32)) == pytest.approx(2 / 3)
    assert np.isnan(coverage(truth, cells(NAN, NAN, NAN, NAN), truth))


def test_latency_percentiles_weight_messages_by_their_rows() -> None:
    assert latency_percentiles([100, 1], [1, 99], (50, 99, 100)) == [1, 1, 100]
    assert latency_percentiles([7], [3], (50, 99)) == [7, 7]
    assert all(np.isnan(latency_percentiles([], [], (50, 99))))
