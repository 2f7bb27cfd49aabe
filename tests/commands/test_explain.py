"""`glaim-stream explain` for a file: the value that would be published, its parts, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest

from glaim_stream.commands.explained_text import Cell, text_lines
from glaim_stream.core.vocabulary import Method
from glaim_stream.feed.plant import simulate
from glaim_stream.form import fit
from glaim_stream.operate.explain import Estimate, Explained, Row
from glaim_stream.operate.explain.explained import UNADAPTED
from glaim_stream.operate.explain.parts import Part, Parts
from tests.command_line import call
from tests.support import catalogue

PLANT = simulate(0.2, groups=2, seed=5)
SENSORS, WINDOW, HOLE = PLANT.sensor_ids[:3], 24, 250
CATALOGUE = f"""
models:
  - name: pump
    step_s: 60
    window: {WINDOW}
    max_gap: 8
    revise_after: 2
    sensors: [{{id: {SENSORS[0]}, unit: l/s}}, {{id: {SENSORS[1]}}}, {{id: {SENSORS[2]}}}]
groups:
  - {{model: pump, ids: [pump-1, pump-2]}}
"""
AT = ("--group", "pump-1", "--sensor", SENSORS[0])


def time_of(step: int) -> str:
    return str(np.datetime64(int(PLANT.times_ms[step]), "ms")) + "Z"


def readings() -> pa.Table:
    """A long table in which the first sensor of pump-1 is silent for three steps, and later for twenty."""
    silent = {*range(HOLE, HOLE + 3), *range(260, 280)}
    places = [(group, sensor, step) for step in range(len(PLANT.times_ms)) for group in range(2) for sensor in range(3)
              if group or sensor or step not in silent]  # fmt: skip
    return pa.table(
        {
            "time": pa.array([int(PLANT.times_ms[step]) for *_, step in places], pa.timestamp("ms", "UTC")),
            "group": [PLANT.groups[group] for group, *_ in places],
            "sensor": [SENSORS[sensor] for _, sensor, _ in places],
            "value": [float(PLANT.values[place]) for place in places],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    pq.write_table(readings(), folder / "readings.parquet")
    (folder / "groups.yaml").write_text(CATALOGUE)
    (folder / "models" / "pump").mkdir(parents=True)
    values = PLANT.values[:, :3, :200].astype(np.float64)
    fit(
        values, np.ones(values.shape, np.bool_), start_ms=int(PLANT.times_ms[0]), step_ms=60_000, sensors=SENSORS,
        steps=WINDOW,
    ).form.save(folder / "models" / "pump")  # fmt: skip
    return folder


def explain(folder: Path, *arguments: str, models: str = "models") -> tuple[int, str, str]:
    environment = {"GLAIM_CATALOGUE": str(folder / "groups.yaml"), "GLAIM_MODEL_REPOSITORY": str(folder / models)}
    given = ("explain", "--file", str(folder / "readings.parquet"), *arguments)
    done = call(*given, environment=environment)
    return done.returncode, done.stdout, done.stderr


def test_a_value_of_a_file_is_the_sum_of_what_its_readings_carry(folder: Path) -> None:
    status, output, error = explain(folder, *AT, "--ts", time_of(HOLE + 1), "--json")
    assert status == 0, error
    found = json.loads(output)
    assert (found["method"], found["unit"], found["revision"], found["gap_age"]) == ("gaussian", "l/s", 1, 2)
    assert found["lower"] < found["value"] < found["upper"]
    assert found["notes"] == [UNADAPTED], "no worker has drawn this band"
    assert found["sum"] == pytest.approx(found["value"], rel=1e-9)
    total = sum(each["contribution"] for each in found["readings"]) + sum(part["value"] for part in found["parts"])
    assert total == pytest.approx(found["value"], rel=1e-9)
    assert {each["steps_ago"] for each in found["readings"]} == set(
        range(-2, WINDOW - 2)
    )  # final: two steps have followed
    for each in found["readings"]:
        assert each["ts"] == time_of(HOLE + 1 - each["steps_ago"]).replace(".000", "")
        assert each["reading"] == float(PLANT.values[0, SENSORS.index(each["sensor"]), HOLE + 1 - each["steps_ago"]])


def test_the_table_shows_the_largest_readings_the_rest_and_the_sum(folder: Path) -> None:
    status, output, error = explain(folder, *AT, "--ts", time_of(HOLE + 1)[:-1], "--top", "2")
    assert status == 0, error
    lines = output.splitlines()
    found = json.loads(explain(folder, *AT, "--ts", time_of(HOLE + 1), "--json")[1])
    assert lines[0].startswith(f"pump-1/{SENSORS[0]} at {found['ts']}: {found['value']:.8g} l/s, 90 % band ")
    assert lines[1] == f"method gaussian ({found['model_version']}), revision 1, gap age 2"
    assert lines[2] == f"note: {UNADAPTED}"
    assert lines[3].startswith("the sensor's own level in the window")
    assert [line.split(",")[0].strip() for line in lines[5:8]] == list(found["by_sensor"])
    assert lines[8] == "the same by reading"
    assert lines[11].split()[:2] == [str(len(found["readings"]) - 2), "others"]
    shown = [float(line.split()[-1]) for line in (lines[3], *lines[9:12])]
    assert sum(shown) == pytest.approx(found["value"], abs=3e-3)
    assert lines[-1].startswith("sum, l/s ")
    assert len(lines) == 13


def test_without_a_closed_form_the_one_or_two_readings_are_named(folder: Path) -> None:
    status, output, error = explain(folder, *AT, "--ts", time_of(HOLE + 1), "--json", models="none")
    assert status == 0, error
    found = json.loads(output)
    assert (found["method"], found["parts"], found["lower"]) == ("interpolation", [], None)
    assert found["notes"] == [], "there is no band"
    halves = {2: float(PLANT.values[0, 0, HOLE - 1]) / 2, -2: float(PLANT.values[0, 0, HOLE + 3]) / 2}
    assert {each["steps_ago"]: each["contribution"] for each in found["readings"]} == pytest.approx(halves)
    assert sum(halves.values()) == pytest.approx(found["value"])


def test_a_file_without_groups_is_of_the_given_one(folder: Path, tmp_path: Path) -> None:
    table = readings()
    own = table.filter(pa.compute.equal(table["group"], "pump-1")).drop_columns(["group"])
    pq.write_table(own, tmp_path / "own.parquet")
    given = ("--ts", time_of(HOLE + 1), "--json", "--file", str(tmp_path / "own.parquet"))
    status, output, error = explain(folder, *AT, *given, "--one-group")
    assert status == 0, error
    assert output == explain(folder, *AT, "--ts", time_of(HOLE + 1), "--json")[1]
    assert "expected readings of pump-1" in explain(folder, *AT, *given)[2]  # its group is own


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (*AT, "--group", "pump-9", "--ts", "2026-01-01"),
            "expected a group of the catalogue, found 'pump-9'; did you mean pump-1 or pump-2? known: pump-1, pump-2",
        ),
        (
            (*AT, "--sensor", "x", "--ts", "2026-01-01"),
            f"expected a sensor of pump, found 'x'; known: {', '.join(sorted(SENSORS))}",
        ),
        ((*AT, "--ts", "soon"), "expected a time such as 2017-02-01T05:00:00Z, found 'soon'"),
        ((*AT, "--ts", time_of(HOLE - 1)), "was measured: "),
        ((*AT, "--ts", time_of(275)), "expected a gap of at most 8 steps at"),
        ((*AT, "--ts", "2027-01-01"), "from 2026-01-01T00:00:00Z to"),
    ],
)
def test_what_cannot_be_explained_states_what_was_found(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    status, output, error = explain(folder, *arguments)
    assert (status, output) == (2, "")
    assert message in error.splitlines()[-1]


def test_names_are_shown_as_they_are_and_obeyed_by_no_terminal() -> None:
    """A hostile group, a value made again differently, and contributions of all sizes."""
    model = catalogue().models[0]
    cell = Cell(model, "\x1b[2J", "s0", 0, 60_000)
    contributions = np.zeros((2, 6))
    contributions[0, 4], contributions[1, 5] = -1.5, 0.25
    window = Estimate(1, np.nan, 1, 3, 3, 62_000, np.full((2, 6), 7.0), np.ones((2, 6), np.bool_))
    parts = Parts(98.0, contributions, (Part("base", 100.0), Part("difference", -0.75)))
    done = Explained(Row(98.0, Method.GAUSSIAN, 1, 1, "\x9b2J"), window, parts, 98.75, ("first",))
    lines = list(text_lines(done, cell, ["second"], 1))
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if "note" in line] == ["note: first", "note: second"]
    assert "made again from its window: 98.75" in lines
    shown = [" ".join(line.split()) for line in lines]
    assert "s0 1 step later, 7 -1.5000" in shown
    assert "1 other +0.2500" in shown
    assert shown[-1] == "sum 98.0000"
