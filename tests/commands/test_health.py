"""`glaim-stream health`: events of a file as a table and as JSON, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glaim_stream.core.times import text_of_ms
from glaim_stream.feed.plant import SENSORS, START_MS, simulate
from tests.command_line import call

DAYS, GROUPS = 6, 2
HALF = DAYS * 1440 // 2
FROZEN_AT, DRIFT_AT = HALF + 2_000, HALF + 3_000
NAMES = [sensor.id for sensor in SENSORS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """plant.parquet as it was measured, and faulty.parquet, in which two sensors fail in the second half."""
    found = tmp_path_factory.mktemp("health")
    plant = simulate(DAYS, groups=GROUPS, seed=4)
    values = plant.values.astype(np.float64)
    for name in ("plant", "faulty"):
        if name == "faulty":
            flow = values[0, NAMES.index("flow")]
            flow[FROZEN_AT : FROZEN_AT + 300] = flow[FROZEN_AT]
            speed = values[1, NAMES.index("speed")]
            speed[DRIFT_AT:] += 6 * speed.std() * np.minimum(np.arange(len(speed) - DRIFT_AT) / 100, 1)
        columns = {"time": pa.array(plant.times_ms, pa.timestamp("ms", "UTC"))}
        for group, rows in zip(plant.groups, values, strict=True):
            columns |= {f"{group}.{sensor}": row for sensor, row in zip(NAMES, rows, strict=True)}
        pq.write_table(pa.table(columns), found / f"{name}.parquet")
    return found


def events(path: Path, *flags: str) -> tuple[dict[str, object], list[dict[str, object]]]:
    done = call("health", str(path), "--json", "--rate", "100", *flags, environment={})
    assert (done.returncode, done.stderr) == (0, f"{path.name}: time is 'time'\n")
    found = json.loads(done.stdout)
    return found, found["events"]


def test_the_sensors_that_fail_are_named_with_kind_and_time(folder: Path) -> None:
    before = events(folder / "plant.parquet")[1]
    found, after = events(folder / "faulty.parquet")
    new = [each for each in after if each not in before]
    assert {(each["group"], each["kind"], *each["sensors"]) for each in new} == {  # type: ignore[misc]
        ("pump-1", "frozen", "flow"),
        ("pump-2", "drift", "speed"),
    }
    frozen = next(each for each in new if each["kind"] == "frozen")
    assert frozen["since"] == text_of_ms(START_MS + 60_000 * FROZEN_AT)
    assert found["sensor_days"] == DAYS / 2 * GROUPS * len(NAMES)
    assert found["not_judged"] == []


def test_the_table_says_what_was_judged_and_how_many_false_alarms_to_expect(folder: Path) -> None:
    done = call("health", str(folder / "faulty.parquet"), environment={})
    assert done.returncode == 0
    assert any("pump-1" in line and "frozen" in line and "flow" in line for line in done.stdout.splitlines())
    assert "in 48.0 sensor-days from 2026-01-04T00:00:00Z to 2026-01-07T00:00:00Z" in done.stdout
    assert "healthy sensors would give about 0.48" in done.stdout


def test_what_is_normal_ends_where_the_flag_says(folder: Path) -> None:
    found, _ = events(folder / "plant.parquet", "--normal-until", "2026-01-05T12:00")
    assert (found["judged_from"], found["sensor_days"]) == ("2026-01-05T12:00:00Z", 24.0)


@pytest.mark.parametrize("moment", ["2025-12-31", "2026-01-01T01:00", "2027-01-01"])
def test_too_little_to_learn_from_or_to_judge_is_refused(folder: Path, moment: str) -> None:
    done = call("health", str(folder / "plant.parquet"), "--normal-until", moment, environment={})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1].startswith("error: expected 384 steps to learn from and some to judge, found ")


def test_a_sensor_that_begins_later_is_listed_as_not_judged(tmp_path: Path) -> None:
    random, steps = np.random.default_rng(0), 2_000
    values = random.normal(size=(2, steps)).cumsum(axis=1)
    late = ["" if step < 1_500 else f"{step % 7}.5" for step in range(steps)]
    lines = [f"2026-01-01T{step // 60 % 24:02}:{step % 60:02}Z" for step in range(steps)]
    text = "time,a,b,late\n" + "".join(
        f"2026-01-{1 + step // 1440:02}{line[10:]},{a:.3f},{b:.3f},{c}\n"
        for step, (line, a, b, c) in enumerate(zip(lines, *values, late, strict=True))
    )
    (tmp_path / "boiler.csv").write_text(text)
    done = call("health", str(tmp_path / "boiler.csv"), environment={})
    assert done.returncode == 0
    assert "not judged, with too few readings to learn from: boiler late" in done.stdout


def test_a_file_of_one_reading_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("time,a\n2026-01-01T00:00:00Z,1.5\n")
    done = call("health", str(tmp_path / "one.csv"), environment={})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("error: ")
