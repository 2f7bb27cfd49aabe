"""The simulated plant: reproducible, within its limits, physically coupled, and different for each pump."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from glaim_stream.feed.plant import SENSORS, START_MS, STEP_MS, Plant, main, simulate


@pytest.fixture(scope="module")
def plant() -> Plant:
    return simulate(3.0, groups=4, seed=5)


def row(plant: Plant, group: int, sensor: str) -> np.ndarray:
    return plant.values[group, plant.sensor_ids.index(sensor)]


def test_the_plant_has_the_expected_shapes_names_and_times(plant: Plant) -> None:
    assert plant.values.shape == (4, len(SENSORS), 4320)
    assert plant.values.dtype == np.float32
    assert plant.groups == ("pump-1", "pump-2", "pump-3", "pump-4")
    assert plant.times_ms[0] == START_MS
    assert set(np.diff(plant.times_ms)) == {STEP_MS}


def test_every_reading_is_finite_and_within_its_limits(plant: Plant) -> None:
    assert np.isfinite(plant.values).all()
    for index, sensor in enumerate(SENSORS):
        assert plant.values[:, index].min() >= sensor.minimum
        assert plant.values[:, index].max() <= sensor.maximum
        assert plant.values[:, index].std() > sensor.noise  # something moves besides the noise


def test_the_seed_determines_the_values(plant: Plant) -> None:
    again, other = simulate(3.0, groups=4, seed=5), simulate(3.0, groups=4, seed=6)
    assert np.array_equal(plant.values, again.values)
    assert not np.array_equal(plant.values, other.values)


def test_a_longer_run_starts_with_the_shorter_one(plant: Plant) -> None:
    assert np.array_equal(simulate(1.0, groups=4, seed=5).values, plant.values[:, :, :1440])


def test_the_properties_of_a_pump_do_not_depend_on_the_seed() -> None:
    """The ratio of head to flow is a property of the pump: it differs between pumps but not between days."""
    ratio = []
    for seed in (1, 2):
        days = simulate(4.0, groups=3, seed=seed)
        head = [row(days, g, "discharge_pressure") - row(days, g, "suction_pressure") for g in range(3)]
        ratio.append([np.mean(head[g]) / np.mean(row(days, g, "flow")) for g in range(3)])
    np.testing.assert_allclose(ratio[0], ratio[1], rtol=0.05)
    assert np.ptp(ratio[0]) > 0.1 * np.mean(ratio[0])


def test_sensors_are_physically_coupled(plant: Plant) -> None:
    for group in range(4):
        speed, flow, current = (row(plant, group, name) for name in ("speed", "flow", "motor_current"))
        assert np.corrcoef(np.diff(speed), np.diff(current))[0, 1] > 0.8
        assert np.corrcoef(speed, flow)[0, 1] > 0.6
        level, suction = row(plant, group, "tank_level"), row(plant, group, "suction_pressure")
        assert np.corrcoef(level, suction)[0, 1] > 0.8
        assert (row(plant, group, "discharge_pressure") > suction).all()
        # The bearing temperature lags behind the load: its steps are small compared with its range.
        bearing = row(plant, group, "bearing_temperature")
        assert np.abs(np.diff(bearing)).mean() < 0.1 * bearing.std()


def test_days_are_busier_than_nights(plant: Plant) -> None:
    hour = (plant.times_ms // 3_600_000) % 24
    speed = plant.values[:, plant.sensor_ids.index("speed")]
    assert speed[:, (hour >= 8) & (hour < 20)].mean() > speed[:, hour < 5].mean() + 100


@pytest.mark.parametrize(("days", "groups"), [(0.0, 3), (1.0, 0)])
def test_an_empty_simulation_is_rejected(days: float, groups: int) -> None:
    with pytest.raises(ValueError, match="at least one step and one group"):
        simulate(days, groups=groups)


def test_the_command_writes_a_wide_parquet_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "plant.parquet"
    main(["--out", str(out), "--days", "0.1", "--groups", "2", "--seed", "3"])
    table = pq.read_table(out)
    assert table.column_names[:2] == ["time", "pump-1.flow"]
    assert table.num_columns == 1 + 2 * len(SENSORS)
    assert str(table.schema.field("time").type) == "timestamp[ms, tz=UTC]"
    expected = simulate(0.1, groups=2, seed=3).values[1, 7]
    np.testing.assert_array_equal(table.column("pump-2.tank_level").to_numpy(), expected)
    assert "2 groups of 8 sensors, 144 steps" in capsys.readouterr().out
