"""The index from group and sensor names to numbers."""

import numpy as np

from glaim_stream.core.catalogue import parse_catalogue
from glaim_stream.decode.groups import NO_GROUP, UNKNOWN_GROUP, UNKNOWN_SENSOR, GroupIndex
from tests.support import catalogue


def test_codes_are_dense_in_order_of_arrival_and_stay() -> None:
    index = GroupIndex(catalogue())
    assert index.groups(["g1", "g0", "g1"]).tolist() == [0, 1, 0]
    assert index.group("g0") == 1
    assert index.names == ["g1", "g0"]


def test_unknown_and_missing_names_have_different_codes_and_are_not_stored() -> None:
    index = GroupIndex(catalogue())
    for n in range(1000):
        assert index.groups([f"x{n}", None]).tolist() == [UNKNOWN_GROUP, NO_GROUP]
        assert index.sensors([f"x{n}", None]).tolist() == [UNKNOWN_SENSOR, UNKNOWN_SENSOR]
    assert index.names == []
    assert (len(index._group_code), len(index._sensor_code)) == (0, 2)


def test_a_sensor_has_a_row_in_each_model() -> None:
    sensors = [["a", "b"], ["c", "b", "a"]]
    models = [{"name": f"m{n}", "step_s": 1, "sensors": [{"id": id_} for id_ in ids]} for n, ids in enumerate(sensors)]
    groups = [{"model": f"m{n}", "pattern": f"m{n}-*"} for n in range(2)]
    index = GroupIndex(parse_catalogue({"models": models, "groups": groups}, source="test"))
    names = ["m1-x", "elsewhere", "m0-x", "m1-y"]
    model = index.models(index.groups(names))
    assert model[[0, 2, 3]].tolist() == [1, 0, 1]
    for name, rows in {"a": [2, 0, 2], "b": [1, 1, 1], "c": [0, UNKNOWN_SENSOR, 0]}.items():
        assert index.rows(model, index.sensors([name] * 4))[[0, 2, 3]].tolist() == rows
    assert index.rows(model, index.sensors(["x"] * 4)).tolist() == [UNKNOWN_SENSOR] * 4


def test_the_index_grows_with_its_groups() -> None:
    index = GroupIndex(catalogue())
    for first in range(0, 3000, 700):
        codes = index.groups([f"g{n}" for n in range(first, first + 700)])
        assert codes.tolist() == list(range(first, first + 700))
        assert index.models(codes).tolist() == [0] * 700


def test_missing_limits_are_infinite() -> None:
    index = GroupIndex(catalogue(sensors=[{"id": "s0", "min": -1}, {"id": "s1", "max": 2}]))
    assert index.limits_low.tolist() == [[-1, -np.inf]]
    assert index.limits_high.tolist() == [[np.inf, 2]]


def test_a_name_may_have_at_most_249_characters() -> None:
    index = GroupIndex(catalogue(groups="*"))
    assert index.groups(["x" * 249, "x" * 250]).tolist() == [0, UNKNOWN_GROUP]


def test_a_group_without_a_code_has_the_first_model_and_no_row() -> None:
    models = [
        {"name": f"m{n}", "step_s": 1, "sensors": [{"id": "s0", "max": 9 + n}] + [{"id": "s1"}] * n} for n in (0, 1)
    ]
    groups = [{"model": f"m{n}", "pattern": f"m{n}-*"} for n in (1, 0)]
    index = GroupIndex(parse_catalogue({"models": models, "groups": groups}, source="test"))
    codes = index.groups(["m1-a", "elsewhere", None, "m0-a"])
    assert codes.tolist() == [0, UNKNOWN_GROUP, NO_GROUP, 1]
    assert index.models(codes).tolist() == [1, 0, 0, 0]
    assert index.models(index.groups(["m1-b"])).tolist() == [1], "a new group is known at once"
    assert index.limits_high.tolist() == [[9, np.inf], [10, np.inf]]
    assert index.limits_low.tolist() == [[-np.inf] * 2] * 2


def test_an_empty_index_knows_no_group() -> None:
    index = GroupIndex(catalogue())
    assert index.models(np.array([UNKNOWN_GROUP, NO_GROUP])).tolist() == [0, 0]
