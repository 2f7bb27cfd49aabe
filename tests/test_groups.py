"""Names to numbers."""

from __future__ import annotations

import numpy as np

from glaim_stream.groups import UNKNOWN_GROUP, UNKNOWN_SENSOR, GroupIndex
from tests.support import catalogue


def test_codes_are_dense_in_order_of_arrival_and_stay() -> None:
    index = GroupIndex(catalogue())
    assert [index.group("g1"), index.group("g0"), index.group("g1")] == [0, 1, 0]
    assert index.names == ["g1", "g0"]
    assert [index.cell(key) for key in [("g0", "s1"), ("g0", "s0"), ("g0", "s1")]] == [0, 1, 0]
    assert index.cell_columns(np.array([0, 1])).tolist() == [[0, 0], [1, 1], [1, 0]]  # model, group, sensor


def test_unknown_names_are_told_apart_and_never_stored() -> None:
    index = GroupIndex(catalogue())
    for n in range(1000):
        assert index.cell((f"x{n}", "s0")) == UNKNOWN_GROUP
        assert index.cell(("g0", f"x{n}")) == UNKNOWN_SENSOR
    assert index.names == ["g0"]
    assert not index._cell_code


def test_it_grows_beyond_its_first_room() -> None:
    index = GroupIndex(catalogue())
    cells = index.cells([(f"g{n}", "s1") for n in range(3000)])
    assert cells.tolist() == list(range(3000))
    assert index.cell_columns(cells)[1].tolist() == list(range(3000))


def test_limits_are_infinite_where_none_are_given() -> None:
    index = GroupIndex(catalogue(sensors=[{"id": "s0", "min": -1}, {"id": "s1", "max": 2}]))
    assert index.limits_low.tolist() == [[-1, -np.inf]]
    assert index.limits_high.tolist() == [[np.inf, 2]]
