"""Files become series with their real gaps, and every wrong file has an error message."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glaim_stream.windows import Rings
from training.autoconfig.from_file import guess_layout
from training.data.masks import MaskSpec
from training.data.series import DataSpec, fit_scale, split
from training.data.tables import load
from training.data.windows import WindowSet, fixed_batches, hide
from training.errors import DataError

START_MS = 1_767_225_600_000  # of 2026


def csv(path: Path, text: str) -> Path:
    """Write a file; whole numbers at the beginning of its lines are milliseconds of 2026."""
    path.write_text(re.sub(r"^\d+(?=,)", lambda found: str(START_MS + int(found[0])), text, flags=re.MULTILINE))
    return path


def test_a_wide_csv_keeps_its_gaps_and_column_order(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "time,b,a\n2026-01-01 00:00,1,2\n2026-01-01 00:01,,4\n2026-01-01 00:02,5,6\n")
    series = load(DataSpec(units={"a": "bar"}), path)
    assert series.sensors == ("b", "a")
    assert series.units == ("", "bar")
    assert series.step_s == 60
    np.testing.assert_array_equal(series.values[0], np.array([[1, np.nan, 5], [2, 4, 6]], np.float32))


def test_wide_columns_with_a_separator_pool_groups(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "time,p.x,p.y,q.x,q.y,note\n0,1,2,3,4,hi\n1000,5,6,7,8,ho\n")
    series = load(DataSpec(separator=".", sensors=("y", "x")), path)
    assert series.groups == ("p", "q")
    np.testing.assert_array_equal(series.values, [[[2, 6], [1, 5]], [[4, 8], [3, 7]]])


def test_a_sensor_name_may_contain_the_separator(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "time,p.PM2.5,q.PM2.5\n0,1,2\n1000,3,4\n")
    assert load(DataSpec(separator="."), path).sensors == ("PM2.5",)


def test_a_long_table_becomes_a_grid(tmp_path: Path) -> None:
    text = "time,station,sensor,value\n60000,q,x,1\n0,p,x,2\n0,p,y,3\n180000,p,x,4\n60000,p,y,5\n120000,q,y,6\n"
    series = load(DataSpec(group="station"), csv(tmp_path / "a.csv", text))
    nan = np.nan
    expected = [[[2, nan, nan, 4], [3, 5, nan, nan]], [[nan, 1, nan, nan], [nan, nan, 6, nan]]]
    np.testing.assert_array_equal(series.values, np.array(expected, np.float32))
    np.testing.assert_array_equal(series.times_ms - START_MS, [0, 60_000, 120_000, 180_000])


def test_a_long_reading_without_a_name_is_ignored(tmp_path: Path) -> None:
    text = "time,station,sensor,value\n0,p,x,2\n1000,p,,3\n1000,,x,4\n2000,p,x,5\n"
    series = load(DataSpec(group="station", step_s=1), csv(tmp_path / "a.csv", text))
    assert (series.groups, series.sensors) == (("p",), ("x",))
    np.testing.assert_array_equal(series.values, np.array([[[2, np.nan, 5]]], np.float32))


def test_one_row_per_time_and_group_becomes_a_grid(tmp_path: Path) -> None:
    text = "time,pump,x,y\n0,q,1,2\n0,p,3,\n60000,p,5,6\n60000,q,-9,8\n180000,q,9,10\n120000,p,,11\n"
    series = load(DataSpec(group="pump", sentinels=(-9,)), csv(tmp_path / "a.csv", text))
    nan = np.nan
    assert (series.groups, series.sensors) == (("p", "q"), ("x", "y"))
    expected = [[[3, 5, nan, nan], [nan, 6, 11, nan]], [[1, nan, nan, 9], [2, 8, nan, 10]]]
    np.testing.assert_array_equal(series.values, np.array(expected, np.float32))
    only = load(DataSpec(group="pump", groups=("q",), sensors=("y",)), tmp_path / "a.csv")
    np.testing.assert_array_equal(only.values, np.array([[[2, 8, nan, 10]]], np.float32))


def test_missing_rows_and_repeated_times_are_placed_on_the_grid(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "time,a,b\n0,1,1\n60000,2,2\n60000,3,\n240000,5,5\n300000,6,6\n360000,7,7\n")
    values = load(DataSpec(), path).values[0]
    nan = np.nan
    np.testing.assert_array_equal(values, np.array([[1, 3, nan, nan, 5, 6, 7], [1, 2, nan, nan, 5, 6, 7]], np.float32))


READINGS = [(9_000, 1.0), (10_000, 358.5), (59_999, 4.0), (60_000, 7.0), (190_000, 0.1), (200_000, 0.2), (239_000, 0.3)]


@pytest.mark.parametrize(
    ("head", "row", "spec"),
    [
        ("time,a", "{time},{value}", DataSpec()),
        ("time,station,a", "{time},p,{value}", DataSpec(group="station")),
        ("time,sensor,value", "{time},a,{value}", DataSpec()),
    ],
)
@pytest.mark.parametrize(
    ("bucket", "directions"), [("last", ()), ("mean", ()), ("mean", ("a",))], ids=["last", "mean", "mean direction"]
)
def test_a_step_has_the_value_that_a_workers_window_would_have(
    tmp_path: Path, bucket: str, directions: tuple[str, ...], head: str, row: str, spec: DataSpec
) -> None:
    times, values = (np.array(column) for column in zip(*READINGS, strict=True))
    rings = Rings(1, 4, 4, mean=bucket == "mean", directions=np.array([True]) if directions else None)
    rings.start(0)
    none, count = np.zeros(len(times), np.int32), len(times)
    rings.put(
        rings.rows(none), none, times // 60_000, (times % 60_000).astype(np.int32), values.astype(np.float64),
        np.zeros(count, np.int8),
    )  # fmt: skip
    expected = np.where(rings.observed[0, 0, :4], rings.values[0, 0, :4], np.nan)
    lines = [row.format(time=time, value=value) for time, value in reversed(READINGS)]  # unordered
    path = csv(tmp_path / "a.csv", "\n".join([head, *lines]) + "\n")
    found = load(dataclasses.replace(spec, bucket=bucket, step_s=60, directions=directions), path)
    np.testing.assert_array_equal(found.values, expected.astype(np.float32)[None, None])


def test_directions_that_the_data_lacks_are_refused(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "time,a\n0,1\n1000,2\n")
    with pytest.raises(DataError, match="directions are declared for sensors that are not in the data: wind"):
        load(DataSpec(bucket="mean", directions=("wind",)), path)


def test_sentinels_become_gaps(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "time,a,b\n0,1,-9999\n1000,-9999,0\n2000,3,4\n")
    series = load(DataSpec(sentinels=(-9999,), sensor_sentinels={"b": (0,)}), path)
    np.testing.assert_array_equal(np.isnan(series.values[0]), [[False, True, False], [True, True, False]])


def test_a_sentinel_does_not_replace_a_reading_of_the_same_step(tmp_path: Path) -> None:
    long = "time,sensor,value\n0,a,1\n100,a,0\n1000,a,0\n2000,a,3\n0,b,0\n1000,b,7\n2000,b,8\n"
    spec = DataSpec(step_s=1, sensor_sentinels={"a": (0,)})
    values = load(spec, csv(tmp_path / "long.csv", long)).values[0]
    np.testing.assert_array_equal(values, np.array([[1, np.nan, 3], [0, 7, 8]], np.float32))
    wide = "time,a,b\n0,1,0\n100,0,\n1000,0,7\n2000,3,8\n"
    spec = DataSpec(step_s=1, sensor_sentinels={"a": (0,)})
    np.testing.assert_array_equal(load(spec, csv(tmp_path / "wide.csv", wide)).values[0], values)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["2026/1/1 0:00", "2026/1/1 1:00", "2026/1/1 2:00"]),
        pa.array(["2026-01-01T02:00:00+02:00", "2026-01-01T03:00:00+02:00", "2026-01-01T04:00:00+02:00"]),
        pa.array(["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]),
        pa.array(["2026-01-01 00:00", "2026-01-01 01:00", "2026-01-01 02:00"]),
        pa.array(np.array(["2026-01-01T00", "2026-01-01T01", "2026-01-01T02"], "datetime64[us]")),
        pa.array(
            np.array(["2026-01-01T00", "2026-01-01T01", "2026-01-01T02"], "datetime64[ms]"), pa.timestamp("ms", "UTC")
        ),
        pa.array([1767225600000, 1767229200000, 1767232800000]),
    ],
    ids=["slashes", "zone", "iso_z", "text", "timestamp_us", "timestamp_utc", "epoch_ms"],
)
def test_times_are_read_in_many_formats(tmp_path: Path, column: pa.Array) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"when": column, "a": [1.5, 2.0, 3.0]}), path)
    series = load(DataSpec(time="when"), path)
    assert list(series.times_ms) == [1767225600000, 1767229200000, 1767232800000]
    assert series.step_s == 3600


@pytest.mark.parametrize(
    ("text", "spec", "message"),
    [
        ("time,a\n0,1\n", {"time": "when"}, "expected time column 'when', found columns time, a"),
        ("elapsed,a\n0.0,1.5\n1.0,4\n2.0,4\n", {}, "elapsed times and no dates"),
        ("time,a\n0,1\n1,2\n", {"sensors": ("b",)}, "expected numbers in the columns b, found none"),
        ("time,a,b\n0,,1\n1,,2\n", {"sensors": ("a", "b")}, "without a single observed value: a"),
        ("time,a\n0,-1\n1000,-1\n", {"sentinels": (-1.0,)}, "expected readings, found none in 2 rows"),
        ("time,a\n0,x\n1000,y\n", {"sensors": ("a",)}, "expected numbers in the columns a, found none"),
        ("time,a\n", {}, "expected rows of readings, found none"),
        ("time,a\nyesterday,1\ntoday,2\n", {}, "expected times"),
        ("time,a\n0,1\n", {"sensor": "tag"}, "expected the columns 'tag' and 'value', found columns a"),
        ("time,sensor,value\n0,a,1\n1,b,2\n", {"sensors": ("c",)}, "expected sensor 'c', found a, b"),
        ("time,pump,a\n0,p,1\n1,q,2\n", {"group": "pump", "groups": ("r",)}, "expected group 'r', found p, q"),
        ("time,a\n0,1\n1000,2\n", {"sensor_sentinels": {"z": (1.0,)}}, "not in the data: z"),
        ("time,a\n2026-01-05,1\n2026-01-05,2\n", {}, "at least two different times"),
    ],
)
def test_the_error_for_a_wrong_file_states_what_was_expected_and_found(
    tmp_path: Path, text: str, spec: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load(DataSpec(**spec), csv(tmp_path / "a.csv", text))  # type: ignore[arg-type]


def test_an_absent_file_and_an_unknown_format_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found none"):
        load(DataSpec(), tmp_path / "none.csv")
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match=r"a\.xlsx: expected CSV, .*, found a zip archive or an Excel workbook"):
        load(DataSpec(), tmp_path / "a.xlsx")


def test_filled_values_are_no_readings(tmp_path: Path) -> None:
    text = "time,a,a_method,a_lower,a_upper\n0,1,observed,,\n60000,2,gaussian,1,3\n"
    for name in ("filled.csv", "filled.txt"):
        with pytest.raises(DataError, match=r"found filled rows.*'a_lower', 'a_method', 'a_upper'"):
            load(DataSpec(), csv(tmp_path / name, text))
        with pytest.raises(DataError, match="found filled rows"):
            guess_layout(tmp_path / name, DataSpec(), {})


def test_the_parts_are_in_time_order_and_disjoint(wide_csv: Path) -> None:
    series = load(DataSpec(), wide_csv)
    parts = split(series, DataSpec(split=(0.6, 0.2, 0.2)), 96)
    assert (
        parts.train.times_ms[-1] < parts.validation.times_ms[0] < parts.validation.times_ms[-1] < parts.test.times_ms[0]
    )
    assert sum(part.rows for part in (parts.train, parts.validation, parts.test)) == series.rows


def test_a_window_longer_than_a_part_is_rejected(wide_csv: Path) -> None:
    with pytest.raises(DataError, match="window of 96 steps is longer than the validation part: 45 of the 900 rows"):
        split(load(DataSpec(), wide_csv), DataSpec(split=(0.7, 0.05, 0.25)), 96)


def test_the_scale_depends_on_observed_training_values_only(wide_csv: Path) -> None:
    series = load(DataSpec(), wide_csv)
    parts = split(series, DataSpec(split=(0.6, 0.2, 0.2)), 96)
    scale = fit_scale(parts.train)
    parts.test.values[:] = 1e9
    again = fit_scale(parts.train)
    np.testing.assert_array_equal(scale.mean, again.mean)
    np.testing.assert_allclose(scale.mean, np.nanmean(parts.train.values[0], axis=1), rtol=1e-6)
    scaled = scale.apply(parts.train.values)
    assert np.array_equal(np.isnan(scaled), np.isnan(parts.train.values))
    np.testing.assert_allclose(np.nanstd(scaled, axis=-1), 1, atol=1e-3)


def test_windows_with_too_few_observed_cells_are_left_out() -> None:
    values = np.full((1, 2, 50), np.nan, np.float32)
    values[:, :, 30:] = 1.0
    windows = WindowSet(values, 10, minimum_observed=0.5)
    assert set(windows.starts) == set(range(25, 41))
    with pytest.raises(DataError, match="found none"):
        WindowSet(np.full((1, 2, 50), np.nan, np.float32), 10)


def test_hidden_values_do_not_reach_the_input() -> None:
    """Other values in the hidden cells leave the model's input unchanged."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3, 4, 30)).astype(np.float32)
    values[rng.random(values.shape) < 0.1] = np.nan
    hidden = rng.random(values.shape) < 0.4
    batch = hide(values, hidden)
    other = hide(np.where(hidden & np.isfinite(values), np.float32(777), values), hidden)
    assert np.array_equal(batch.values, other.values)
    assert np.array_equal(batch.observed, other.observed)
    assert not np.array_equal(batch.truth, other.truth)
    assert not (batch.observed & batch.hidden).any()
    assert not (batch.hidden & np.isnan(values)).any()
    assert (batch.values[~batch.observed] == 0).all()


def test_fixed_batches_are_the_same_every_time() -> None:
    windows = WindowSet(np.random.default_rng(0).standard_normal((2, 3, 200)).astype(np.float32), 20)
    spec = MaskSpec("deployment", rates=(0.1, 0.5))
    first, second = (fixed_batches(windows, spec, 16, 50, "key") for _ in range(2))
    assert sum(len(batch.values) for batch in first) == 50
    assert all(np.array_equal(a.hidden, b.hidden) for a, b in zip(first, second, strict=True))


def test_the_gaps_of_a_window_do_not_depend_on_its_batch() -> None:
    windows = WindowSet(np.random.default_rng(0).standard_normal((1, 3, 119)).astype(np.float32), 20)
    spec = MaskSpec("block", rates=(0.3, 0.3))
    small, large = (np.concatenate([b.hidden for b in fixed_batches(windows, spec, n, 0, "key")]) for n in (7, 64))
    assert np.array_equal(small, large)
    other = np.concatenate([b.hidden for b in fixed_batches(windows, spec, 64, 0, "another key")])
    assert not np.array_equal(small, other)


def test_parts_may_be_given_in_rows_with_history_before_them(wide_csv: Path) -> None:
    series = load(DataSpec(), wide_csv)
    parts = split(series, DataSpec(rows=(500, 150, 200), history=96), 96)
    assert (parts.train.rows, parts.validation.rows, parts.test.rows) == (500, 246, 296)
    assert parts.validation.times_ms[96] == series.times_ms[500]
    assert parts.test.times_ms[96] == series.times_ms[650]
    assert parts.test.times_ms[-1] == series.times_ms[849]
    with pytest.raises(DataError, match="expected 950 rows"):
        split(series, DataSpec(rows=(500, 150, 300)), 96)


def test_without_a_grid_rows_are_taken_in_file_order(tmp_path: Path) -> None:
    """Numbers that would be taken as no value stay."""
    times = ["2020-01-01 00:00", "2020-01-01 00:10", "2020-01-01 00:10", "2020-01-01 01:00"]
    values = [3.5, -9999, -9999, 1.5]
    (tmp_path / "a.csv").write_text("time,x\n" + "".join(f"{t},{x}\n" for t, x in zip(times, values, strict=True)))
    ungridded = load(DataSpec(grid=False), tmp_path / "a.csv")
    assert ungridded.values[0, 0].tolist() == values
    assert load(DataSpec(step_s=600), tmp_path / "a.csv").rows == 7


def test_a_reading_that_stands_apart_is_left_out_on_request(tmp_path: Path) -> None:
    wave = 50 + 3 * np.sin(np.arange(300) / 15)
    wave[120] = 123_456_789.0
    text = "time,a\n" + "".join(f"{row * 1000},{value}\n" for row, value in enumerate(wave))
    path = csv(tmp_path / "a.csv", text)
    judged, believed = load(DataSpec(plausibility=True), path), load(DataSpec(), path)
    assert (judged.doubted, believed.doubted) == (1, 0)
    assert np.flatnonzero(np.isnan(judged.values[0, 0])).tolist() == [120]
    assert believed.values[0, 0, 120] == np.float32(123_456_789.0)
    assert fit_scale(judged).maximum[0] < 60
