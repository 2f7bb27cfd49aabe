"""Readings of files and the plant, withheld readings, and their messages."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glaim_stream.core.catalogue import parse_catalogue
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import moment_ms, text_of_ms
from glaim_stream.decode import Decoder, GroupIndex
from glaim_stream.feed.dropouts import KINDS, hide, write_hidden
from glaim_stream.feed.formats import InputFormat
from glaim_stream.feed.messages import ARROW_HEADERS, Encoder, plan_messages
from glaim_stream.feed.producing import dry_run
from glaim_stream.feed.sources import Source, plant_source, read_source
from tests.support import Record, catalogue

T0 = 1_486_000_800_000  # 2017-02-02T02:00:00Z


def written(tmp_path: Path, text: str, *, encoding: str = "utf-8") -> Path:
    path = tmp_path / "data.csv"
    path.write_text(text, encoding=encoding)
    return path


def rows(source: Source) -> list[tuple[str, str, int, float]]:
    return [
        (*source.cells[cell], time, value)
        for cell, time, value in zip(source.cell.tolist(), source.time_ms.tolist(), source.value.tolist(), strict=True)
    ]


def test_a_wide_csv_is_read_in_order_of_time_without_its_gaps(tmp_path: Path) -> None:
    lines = [
        "date,g1.PM2.5,g1.T,g1.wd",
        "2017-02-02 03:00:00,3,4,N",
        "2017-02-02 02:00:00,1,,E",
        "2017-02-02 04:00:00,-9999,nan,S",
    ]
    path = written(tmp_path, "\n".join(lines) + "\n")
    source = read_source(path)
    assert rows(source) == [
        ("g1", "PM2.5", T0, 1.0),
        ("g1", "PM2.5", T0 + 3_600_000, 3.0),
        ("g1", "T", T0 + 3_600_000, 4.0),
    ]
    assert (source.gaps, source.skipped) == (3, ("g1.wd",))


def test_a_long_csv_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, f"group,sensor,ts,value\ng2,b,{T0 + 1},2.5\ng1,a,{T0},1.5\n")
    assert rows(read_source(path)) == [("g1", "a", T0, 1.5), ("g2", "b", T0 + 1, 2.5)]


def test_a_long_file_without_groups_takes_the_given_one(tmp_path: Path) -> None:
    path = written(tmp_path, f"sensor,ts,value\na,{T0},1.5\n")
    assert rows(read_source(path, group="house")) == [("house", "a", T0, 1.5)]
    with pytest.raises(SettingsError, match="time column 'date'"):
        read_source(path, time_column="date")
    assert rows(read_source(path)) == [("data", "a", T0, 1.5)]  # the file's name


def test_with_one_group_for_all_columns_sensors_keep_the_full_column_names(tmp_path: Path) -> None:
    path = written(tmp_path, "date,max. PAR (µmol)\n2017-02-02 02:00:00,5\n", encoding="latin-1")
    assert rows(read_source(path, group="jena")) == [("jena", "max. PAR (µmol)", T0, 5.0)]


def test_numbers_and_texts_that_mean_no_reading_are_gaps(tmp_path: Path) -> None:
    path = written(tmp_path, "ts;g.a;g.b\n02.02.2026 02:00;Bad;1,5\n02.02.2026 02:01;2,5;-1\n")
    noticed = read_source(path)
    assert (noticed.gaps, noticed.skipped) == (1, ())
    assert "no value in 'g.a': 'Bad', among its numbers" in noticed.notes
    source = read_source(path, missing=("-1", "Bad"))
    assert [(source.cells[cell][1], value) for cell, value in zip(source.cell, source.value, strict=True)] == [
        ("b", 1.5),
        ("a", 2.5),
    ]
    assert (source.gaps, source.skipped) == (2, ())


def test_timestamps_without_a_zone_are_read_in_the_given_zone(tmp_path: Path) -> None:
    path = written(tmp_path, "time,g.a\n2017-02-02 03:00:00,1\n")
    assert read_source(path, timezone="Europe/Berlin").time_ms[0] == T0
    assert read_source(path).time_ms[0] == T0 + 3_600_000


@pytest.mark.parametrize(
    "timestamp",
    ["2017-02-02T02:00:00Z", "2017-02-02 02:00:00+00:00", "2017/2/2 2:00", "2017-02-02 02:00", str(T0), "1486000800"],
)
def test_many_timestamp_formats_are_read(tmp_path: Path, timestamp: str) -> None:
    assert read_source(written(tmp_path, f"ts,g.a\n{timestamp},1\n")).time_ms.tolist() == [T0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("g.a\n1\n", "a column of times"),
        ("n,g.a\n7,1\n9,2\n", "a column of times"),
        ("ts,g.a\nyesterday,1\n", "2017-02-01T05:00:00Z"),
        ("ts,g.a\n99999999999999,1\n", "found 99999999999999"),
        ("ts,g.a\n2017-02-02T02:00:00Z,\n", "no value at all"),
    ],
)
def test_an_unusable_file_is_rejected_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError, match=reason):
        read_source(path)


def test_columns_that_name_no_groups_are_one_group_named_as_the_file(tmp_path: Path) -> None:
    source = read_source(written(tmp_path, "ts,a,b.c\n2017-02-02T02:00:00Z,1,2\n"))
    assert source.cells == [("data", "a"), ("data", "b.c")]
    assert source.notes[-1] == "its columns name no groups: all of them belong to the group 'data'"


def test_a_row_without_a_time_is_left_out(tmp_path: Path) -> None:
    source = read_source(written(tmp_path, "ts,g.a\n,1\n2017-02-02T02:00:00Z,2\n"))
    assert rows(source) == [("g", "a", T0, 2.0)]
    assert "1 rows without a time are left out" in source.notes


def test_an_absent_file_and_unknown_endings_and_zones_are_rejected(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path / "none.parquet", tmp_path / "none.txt"):
        with pytest.raises(SettingsError, match="none"):
            read_source(path)
    with pytest.raises(SettingsError, match="time zone"):
        read_source(written(tmp_path, f"ts,g.a\n{T0},1\n"), timezone="Mars/Olympus")


def test_float32_values_of_a_parquet_file_are_sent_with_few_digits(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    times = pa.array([T0], pa.timestamp("ms", tz="UTC"))
    pq.write_table(pa.table({"time": times, "g.a": pa.array([12.3], pa.float32())}), path)
    plan = plan_messages(read_source(path), InputFormat.SINGLE)
    assert list(Encoder(plan).messages(0, 1)) == [(0, f'{{"group":"g","sensor":"a","ts":{T0},"value":12.3}}'.encode())]


def test_values_are_sent_as_texts_that_decode_to_the_same_bits(tmp_path: Path) -> None:
    """-0 would be an integer, which has one zero."""
    path = tmp_path / "data.parquet"
    values = [-0.0, 0.0, 2.0**53, 1e308, 5e-324, 123_456_789.12]
    times = pa.array([T0 + 60_000 * row for row in range(len(values))], pa.timestamp("ms", tz="UTC"))
    pq.write_table(pa.table({"time": times, "g0.s0": pa.array(values, pa.float64())}), path)
    plan = plan_messages(read_source(path), InputFormat.SINGLE)
    records = [Record(value, offset) for offset, (_, value) in enumerate(Encoder(plan).messages(0, len(values)))]
    readings, rejects = Decoder(GroupIndex(catalogue())).decode(records, now_ms=2 * T0)
    assert rejects == []
    assert readings.value.tobytes() == np.array(values).tobytes()


def test_a_time_range_is_half_open() -> None:
    source = plant_source(0.01, groups=1)
    first = int(source.time_ms[0])
    part = source.between(first + 60_000, first + 180_000)
    assert set(part.time_ms.tolist()) == {first + 60_000, first + 120_000}


def test_times_are_parsed_and_formatted() -> None:
    assert moment_ms("2017-02-02T02:00:00Z") == moment_ms("2017-02-02T03:00:00", timezone="Europe/Berlin") == T0
    assert text_of_ms(T0) == "2017-02-02T02:00:00Z"
    assert text_of_ms(T0 + 5) == "2017-02-02T02:00:00.005Z"
    with pytest.raises(SettingsError, match="found 'soon'"):
        moment_ms("soon")


def test_the_hidden_readings_are_reproducible_and_of_all_three_kinds() -> None:
    source = plant_source(1, groups=3)
    hidden = hide(source, 0.2, seed=4)
    assert hidden.mask.sum() == round(0.2 * len(source))
    shares = [(hidden.kind == code).sum() / hidden.mask.sum() for code in range(len(KINDS))]
    assert all(share > 0.05 for share in shares), shares
    assert (hide(source, 0.2, seed=4).kind == hidden.kind).all()
    assert (hide(source, 0.2, seed=5).kind != hidden.kind).any()
    assert not hide(source, 0).mask.any()
    with pytest.raises(SettingsError, match="0 to below 1"):
        hide(source, 1.0)


def test_the_written_truth_contains_the_withheld_readings(tmp_path: Path) -> None:
    source = plant_source(0.1, groups=2)
    hidden = hide(source, 0.3)
    path = tmp_path / "deep" / "hidden.parquet"
    assert write_hidden(source, hidden, path) == hidden.mask.sum()
    table = pq.read_table(path)
    assert table.column_names == ["group", "sensor", "ts", "value", "kind"]
    truth = zip(
        table["group"].to_pylist(), table["sensor"].to_pylist(), table["ts"].cast("int64").to_pylist(),
        table["value"].to_pylist(), strict=True,
    )  # fmt: skip
    assert list(truth) == rows(source.where(hidden.mask))


@pytest.mark.parametrize("input_format", list(InputFormat))
@pytest.mark.parametrize("nulls", [False, True])
def test_every_format_decodes_to_the_same_readings(input_format: InputFormat, nulls: bool) -> None:
    source = plant_source(0.05, groups=3)
    hidden = hide(source, 0.2).mask
    sent = source if nulls else source.where(~hidden)
    plan = plan_messages(sent, input_format, batch=7, null=hidden if nulls else None)
    headers = ARROW_HEADERS if input_format is InputFormat.ARROW else []
    encoder = Encoder(plan)
    records = [
        Record(value, offset, encoder.keys[group], headers)
        for offset, (group, value) in enumerate(encoder.messages(0, len(plan)))
    ]
    sensors = list(dict.fromkeys(sensor for _, sensor in source.cells))
    models = [{"name": "m", "step_s": 60, "sensors": [{"id": sensor} for sensor in sensors]}]
    index = GroupIndex(
        parse_catalogue({"models": models, "groups": [{"model": "m", "pattern": "pump-*"}]}, source="test")
    )
    readings, rejects = Decoder(index).decode(records, now_ms=2_000_000_000_000)
    assert rejects == []
    got = {  # the plant has float32 values, whose shortest texts are other numbers of 64 bits
        (index.names[group], sensors[sensor], time): None if np.isnan(value) else float(np.float32(value))
        for group, sensor, time, value in zip(
            readings.group.tolist(), readings.sensor.tolist(), readings.event_time_ms.tolist(),
            readings.value.tolist(), strict=True,
        )
    }  # fmt: skip
    expected = {(group, sensor, time): value for group, sensor, time, value in rows(source)}
    for row in np.flatnonzero(hidden).tolist():
        key = (*source.cells[int(source.cell[row])], int(source.time_ms[row]))
        if nulls:
            expected[key] = None
        else:
            del expected[key]
    assert got == expected
    assert (np.diff(plan.due_ms) >= 0).all()
    assert dry_run(sent, input_format, batch=7).readings == len(sent)


def test_a_sensor_that_reports_twice_at_one_time_needs_two_steps() -> None:
    times = np.array([T0, T0, T0])
    source = Source([("g", "a"), ("g", "b")], np.array([0, 1, 0], np.int32), times, np.array([1.0, 2.0, 3.0]))
    plan = plan_messages(source, InputFormat.STEP)
    values = [value for _, value in Encoder(plan).messages(0, len(plan))]
    assert values == [
        f'{{"group":"g","ts":{T0},"values":{{"a":1,"b":2}}}}'.encode(),
        f'{{"group":"g","ts":{T0},"values":{{"a":3}}}}'.encode(),
    ]
