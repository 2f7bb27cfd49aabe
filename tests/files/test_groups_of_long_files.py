"""The column of groups in files of one reading a row: found where one alone ends the clashes, else asked for."""

import io
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from glaim_stream import impute
from glaim_stream.core.errors import SettingsError
from glaim_stream.files import cells_of, read
from tests.command_line import call

ROWS, HOLES = 60, ((20, "flow"), (40, "temp"))
START = datetime(2026, 3, 2, tzinfo=UTC)
LEVEL = {"P1": 10.0, "P2": 40.0}
CATALOGUE = """
models: [{name: m, step_s: 60, window: 24, max_gap: 20, revise_after: 2, sensors: [{id: flow}, {id: temp}]}]
groups: [{model: m, pattern: "P*"}]
"""
# Head, and a row by time, machine, sensor and value.
SHAPES = {
    "plain": ("time,pump,sensor,value", "{t:%Y-%m-%dT%H:%M:%SZ},{m},{s},{v}"),
    "unit": ("time,unit,sensor,value", "{t:%Y-%m-%dT%H:%M:%SZ},{m},{s},{v}"),
    "unit and units": ("time,unit,sensor,value,uom", "{t:%Y-%m-%dT%H:%M:%SZ},{m},{s},{v},{u}"),
    "no word for machines": ("time,where,sensor,value", "{t:%Y-%m-%dT%H:%M:%SZ},{m},{s},{v}"),
    "InfluxDB": (
        "_time,_measurement,_field,_value,host,region",
        "{t:%Y-%m-%dT%H:%M:%SZ},plant,{s},{v},{m},eu",
    ),
    "InfluxDB with equal tags": (
        "_time,_measurement,_field,_value,host,serial",
        "{t:%Y-%m-%dT%H:%M:%SZ},plant,{s},{v},{m},no {m}",
    ),
    "Grafana": ("Time,Metric,instance,job,Value", "{t:%Y-%m-%d %H:%M:%S},{s},{m},plant,{v}"),
    "ThingsBoard": (
        "ts,entityId,entityName,entityType,key,value", "{e}000,id-{m},{m},DEVICE,{s},{v}"
    ),
    "KNIME": (
        '"row ID","timestamp","Machine","Sensor","Value"', '"Row{n}","{t:%Y-%m-%dT%H:%M:%S}","{m}","{s}",{v}'
    ),
    "serial numbers of probes": (
        "time,pump,probe,sensor,value", "{t:%Y-%m-%dT%H:%M:%SZ},{m},{m}-{s},{s},{v}"
    ),
    "numbers of machines": ("time,machine,sensor,value", "{t:%Y-%m-%dT%H:%M:%SZ},{i},{s},{v}"),
}  # fmt: skip


def value(machine: str, sensor: str, step: int) -> float:
    return round(LEVEL[machine] + (100 if sensor == "temp" else 0) + np.sin(step / 7) + 0.01 * (step % 3), 2)


def rows(line: str, *, late_s: int = 0) -> list[str]:
    """A row a time, machine and sensor; the second machine's clock is late."""
    return [
        line.format(
            t=(t := START + timedelta(minutes=step, seconds=late_s * number)), e=int(t.timestamp()), m=machine,
            s=sensor, i=number + 1, n=4 * step + 2 * number + place, u={"flow": "m3/h", "temp": "degC"}[sensor],
            v="" if machine == "P2" and (step, sensor) in HOLES else value(machine, sensor, step),
        )
        for step in range(ROWS) for number, machine in enumerate(LEVEL) for place, sensor in enumerate(("flow", "temp"))
    ]  # fmt: skip


def text(shape: str) -> bytes:
    head, line = SHAPES[shape]
    return "\n".join([head, *rows(line), ""]).encode()


def parquet(data: bytes) -> bytes:
    out = io.BytesIO()
    table = pa.csv.read_csv(io.BytesIO(data))
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(place, field.name, table[field.name].dictionary_encode())
    pq.write_table(table, out)
    return out.getvalue()


@pytest.mark.parametrize("written", [bytes, parquet], ids=["CSV", "Parquet"])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_machine_is_a_group(shape: str, written: Callable[[bytes], bytes]) -> None:
    reading = read(written(text(shape)), name="a.csv")
    assert set(reading.form.sensors) == {"flow", "temp"}
    cells = cells_of(reading, "a")
    (column,) = cells.columns
    for group, (machine, level) in enumerate(LEVEL.items()):
        assert cells.groups[group] in (machine, f"id-{machine}", str(group + 1))
        for sensor, name in enumerate(cells.sensors):
            mine = column.value[(column.group == group) & (column.sensor == sensor)]
            expected = [
                np.nan if machine == "P2" and (step, name) in HOLES else value(machine, name, step)
                for step in range(ROWS)
            ]
            np.testing.assert_array_equal(mine, expected, err_msg=f"{machine} {name} {level}")


@pytest.mark.parametrize("shape", ["plain", "unit", "InfluxDB with equal tags", "numbers of machines"])
def test_machines_are_told_apart_in_tables_of_memory(shape: str) -> None:
    table = pd.read_csv(io.BytesIO(text(shape)))
    filled = impute(table, time=table.columns[0])
    column = next(each for each in table.columns if each.endswith("value"))
    holes = table[column].isna().to_numpy()
    assert holes.sum() == 2
    np.testing.assert_allclose(filled[column][holes], [value("P2", "flow", 20), value("P2", "temp", 40)], atol=0.5)


def test_all_commands_agree_on_the_groups(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text("unit"))
    (tmp_path / "groups.yaml").write_text(CATALOGUE)
    stream = {"GLAIM_CATALOGUE": str(tmp_path / "groups.yaml"), "GLAIM_MODEL_REPOSITORY": str(tmp_path / "models")}
    done = call("fill", str(path), "--out", str(tmp_path / "out.csv"), environment={})
    assert "holes: 2, of which 2 are filled" in done.stdout, done.stderr
    before, after = path.read_text().splitlines(), (tmp_path / "out.csv").read_text().splitlines()
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert [39 < float(line.rpartition(",")[2]) % 100 < 42 or line for line in changed] == [True, True]
    done = call("report", str(path), "--json", str(tmp_path / "report.json"), environment={})
    assert {each["group"] for each in json.loads((tmp_path / "report.json").read_text())["sensors"]} == {*LEVEL}, (
        done.stderr
    )
    done = call("produce", str(path), "--dry-run", environment={})
    assert f"would send {4 * ROWS - 2} readings (0 null) of 2 groups" in done.stdout, done.stderr
    done = call(
        "replay", str(path), "--imputer", "interpolation", "--out", str(tmp_path / "rows.parquet"), environment=stream
    )
    assert f"{4 * ROWS - 2} readings of 2 groups" in done.stdout, done.stderr
    assert set(pq.read_table(tmp_path / "rows.parquet")["group"].to_pylist()) == {*LEVEL}
    done = call("learn", "--data", str(path), "--dry-run", environment=stream)
    assert f"{4 * ROWS - 2} readings of 2 groups" in done.stdout, done.stderr


@pytest.mark.parametrize("column", ["pump", "where"])
def test_machines_with_clocks_of_their_own_are_groups(column: str) -> None:
    lines = rows("{t:%Y-%m-%dT%H:%M:%SZ},{m},{s},{v}", late_s=7)
    assert read("\n".join([f"time,{column},sensor,value", *lines]).encode(), name="a.csv").groups == ("P1", "P2")


@pytest.mark.parametrize("late_s", [20, 30])
def test_machines_that_report_in_turn_are_groups_by_the_name_of_their_column(late_s: int) -> None:
    lines = rows("{t:%Y-%m-%dT%H:%M:%SZ},{m},{s},{v}", late_s=late_s)
    assert read("\n".join(["time,pump,sensor,value", *lines]).encode(), name="a.csv").groups == ("P1", "P2")


def refused(head: str, lines: Sequence[str]) -> str:
    with pytest.raises(SettingsError) as caught:
        read("\n".join([head, *lines]).encode(), name="a.csv")
    return str(caught.value)


def test_two_columns_that_could_be_the_group_are_named() -> None:
    lines = rows("{t:%Y-%m-%dT%H:%M:%SZ},{m},{s},{v}")
    lines = [f"{line},{'AB'[('P2' in line) ^ (at // 4 % 3 == 0)]}" for at, line in enumerate(lines)]
    said = refused("time,pump,sensor,value,line", lines)
    assert "is unclear which of pump, line is the group: give --group COLUMN" in said
    assert read("\n".join(["time,pump,sensor,value,line", *lines]).encode(), group="pump").groups == ("P1", "P2")


def test_the_advice_on_an_unclear_sensor_can_be_followed() -> None:
    lines = rows("{t:%Y-%m-%dT%H:%M:%SZ},{m},{s},{v}")
    said = refused("time,pump,what,reading", lines)
    assert "unclear which is the sensor: call its column 'sensor' and that of 'reading' 'value'" in said
    assert read("\n".join(["time,pump,sensor,value", *lines]).encode(), name="a.csv").groups == ("P1", "P2")


def test_columns_that_tell_machines_apart_together_alone_are_named() -> None:
    lines = [
        f"2026-03-02T00:{step:02d}:00Z,{machine[0]},line {machine[1]},temp,{step % 7 + 10 * place}"
        for step in range(ROWS) for place, machine in enumerate(("N1", "N2", "S1", "S2"))
    ]  # fmt: skip
    said = refused("time,site,line,sensor,value", lines)
    assert "240 of 240 rows have the time and 'sensor' of another, and another 'value'" in said
    assert re.search("found site, line, none of which does so alone: .* give --group COLUMN", said)


@pytest.mark.parametrize(
    ("head", "more"),
    [
        ("uom", lambda step, sensor: {"flow": "m3/h", "temp": "degC"}[sensor]),
        ("unit", lambda step, sensor: {"flow": "m3/h", "temp": "degC"}[sensor]),
        ("operator", lambda step, sensor: "ann" if step < ROWS / 2 else "bob"),
        ("quality", lambda step, sensor: "good" if step % 9 else "uncertain"),
        ("firmware", lambda step, sensor: "1.0" if step < ROWS / 2 else "1.1"),
        ("location", lambda step, sensor: "hall 1" if step < ROWS / 2 else "hall 2"),
        ("comment", lambda step, sensor: "cleaned" if step == 30 else ""),
    ],
)
@pytest.mark.parametrize("set_back", [False, True])
def test_other_columns_are_no_groups(head: str, more: Callable[[int, str], str], set_back: bool) -> None:
    """Also where a clock is set back by ten minutes, so that twenty rows have the times of others."""
    steps = [*range(ROWS), *range(ROWS - 10, ROWS + 20)] if set_back else [*range(ROWS)]
    lines = [
        f"{START + timedelta(minutes=step)},{sensor},{value('P1', sensor, at)},{more(at, sensor)}"
        for at, step in enumerate(steps) for sensor in ("flow", "temp")
    ]  # fmt: skip
    assert read("\n".join([f"time,sensor,value,{head}", *lines]).encode(), name="a.csv").groups == ()


def test_rows_of_one_stamp_without_another_column_stay_one_series() -> None:
    """A sensor that is read five times a second, with times of whole seconds."""
    lines = [f"{START + timedelta(seconds=at // 5)},temp,{value('P1', 'temp', at)}" for at in range(100)]
    assert read("\n".join(["time,sensor,value", *lines]).encode(), name="a.csv").form.duplicates == 80


def test_a_stated_group_leaves_the_sensors_to_be_found() -> None:
    data = "\n".join(["time,pump,Tag,value", *rows("{t:%Y-%m-%dT%H:%M:%SZ},{m},{s},{v}")]).encode()
    reading = read(data, group="pump", name="a.csv")
    assert (reading.groups, reading.form.sensors) == (("P1", "P2"), ("flow", "temp"))


def test_rows_without_a_group_are_counted() -> None:
    lines = rows("{t:%Y-%m-%dT%H:%M:%SZ},{m},{s},{v}")
    lines += [f"{START + timedelta(minutes=step)},,outside,{step}" for step in range(5)]
    notes = read("\n".join(["time,pump,sensor,value", *lines]).encode(), name="a.csv").form.notes
    assert "5 rows without a name in 'pump' are left out" in notes
