"""Limits, resolutions and intervals by model and version."""

from pathlib import Path

import numpy as np
import pytest

from glaim_stream.core.catalogue import parse_catalogue
from glaim_stream.core.contract import Contract, write_contract
from glaim_stream.form import Kind
from glaim_stream.models import Contracts
from glaim_stream.output.intervals import publishable
from glaim_stream.output.sensor_tables import SensorTable, SensorTables
from tests.support import catalogue, contract


def version(number: int, width: float) -> Contract:
    """A contract whose intervals extend by `width` to each side."""
    low, high = [[-width], [-width]], [[width], [width]]
    quantiles = {
        "gap_ages": [1],
        "newest_lower": low,
        "newest_upper": high,
        "interior_lower": [[-2 * width]] * 2,
        "interior_upper": [[2 * width]] * 2,
    }
    return contract(version=number, residual_quantiles=quantiles)


def width(table: SensorTable) -> float:
    return float(table.residuals[True][1][0, 0])


def test_limits_come_from_the_catalogue_and_resolutions_from_either() -> None:
    sensors = [{"id": "s0", "min": -1, "max": 2, "resolution": 0.5, "max_interval": 3}, {"id": "s1"}]
    model = catalogue(sensors=sensors).models[0]
    table = SensorTable.of(model, version(1, 1.0))
    assert (table.low.tolist(), table.high.tolist()) == ([-1, -np.inf], [2, np.inf])
    assert table.resolution.tolist() == [0.5, 0.01]
    assert table.max_interval.tolist() == [3, np.inf]
    assert table.window == 6
    assert table.gap_ages is not None
    assert table.gap_ages.tolist() == [1]
    assert table.residuals[True][0].tolist() == [[-1], [-1]]
    assert table.residuals[False][1].tolist() == [[2], [2]]
    without_contract = SensorTable.of(model, None)
    assert without_contract.resolution.tolist() == [0.5, 0]
    assert (without_contract.gap_ages, without_contract.residuals) == (None, {})


def test_a_contract_without_quantiles_removes_the_intervals() -> None:
    table = SensorTable.of(catalogue().models[0], version(1, 1.0)).with_intervals(contract())
    assert (table.gap_ages, table.residuals) == (None, {})


async def test_a_version_has_intervals_once_its_contract_is_known(tmp_path: Path) -> None:
    contracts = Contracts({"m": version(1, 1.0)}, tmp_path)
    tables = SensorTables(catalogue(), contracts)
    assert tables.for_version(0, "1") is tables[0]
    assert width(tables[0]) == 1
    assert tables.for_version(0, "2").gap_ages is None
    folder = tmp_path / "m" / "2"
    folder.mkdir(parents=True)
    write_contract(version(2, 2.0), folder)
    await contracts.follow("m", "2")
    second = tables.for_version(0, "2")
    assert width(second) == 2
    assert tables.for_version(0, "2") is second, "the table is made once"
    assert tables.for_version(0, "1") is tables[0]


def test_directions_need_no_closed_form_to_have_limits() -> None:
    table = SensorTable.of(catalogue().models[0], contract())
    limits = table.window_limits(
        [], [Kind.ANGLE, Kind.NUMBER], None, np.full((1, 2, 6), -3.0), np.ones((1, 2, 6), bool)
    )
    assert limits is not None
    assert (limits.lowest <= -3.0).all()


def test_models_are_distinguished_by_their_index() -> None:
    models = [{"name": name, "step_s": 1, "sensors": [{"id": "s0"}, {"id": "s1"}]} for name in ("other", "m")]
    rules = parse_catalogue({"models": models, "groups": [{"model": "m", "pattern": "*"}]}, source="test")
    tables = SensorTables(rules, {"m": version(1, 1.0)})
    assert tables[0].gap_ages is None
    assert width(tables[1]) == 1
    assert tables.for_version(0, "") is tables[0]
    assert tables.for_version(1, "9") is tables[1], "without a repository all versions share the first contract"


def test_learned_decimals_replace_the_contracts_resolution_and_not_the_catalogues() -> None:
    model = catalogue(sensors=[{"id": "s0", "resolution": 0.5}, {"id": "s1"}, {"id": "s2"}]).models[0]
    table = SensorTable.of(model, contract(3), np.array([2, 1, -1], np.int8))
    assert table.resolution.tolist() == [0.5, 0.1, 0.01]
    value, sensor = np.array([21.37, 21.37, -21.374, 1e300, np.nan]), np.array([0, 1, 2, 1, 1])
    rounded = publishable(value, sensor, table)
    np.testing.assert_array_equal(rounded[[0, 1, 3, 4]], [21.5, 21.4, 1e300, np.nan])
    assert rounded[2] == pytest.approx(-21.37)


def test_learned_decimals_that_are_coarse_beside_the_largest_interval_withhold_no_value() -> None:
    sensors = [{"id": "s0", "max_interval": 3.9}, {"id": "s1", "max_interval": 4}]
    table = SensorTable.of(catalogue(sensors=sensors).models[0], None, np.zeros(2, np.int8))
    assert table.resolution.tolist() == [0, 1]


def test_learned_decimals_follow_the_closed_form_also_in_the_tables_of_versions() -> None:
    first, second = np.array([1, -1], np.int8), np.array([3, 0], np.int8)
    learned = {"m": first}
    tables = SensorTables(catalogue(), Contracts({"m": version(1, 1.0)}), learned.get)
    of_version = tables.for_version(0, "1")
    assert tables[0] is tables[0] is of_version
    assert of_version.resolution.tolist() == [0.1, 0.01]
    learned["m"] = second
    assert tables.for_version(0, "1").resolution.tolist() == tables[0].resolution.tolist() == [0.001, 1.0]
    del learned["m"]
    assert tables[0].resolution.tolist() == tables.for_version(0, "1").resolution.tolist() == [0.01, 0.01]
    assert width(tables[0]) == 1
