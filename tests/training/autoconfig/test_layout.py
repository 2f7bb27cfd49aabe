"""A file that comes alone: what a fit finds out of it is what `fill` finds out, and stands in its configuration."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glaim_stream.files import read
from tests.data_sets import DATA_SETS
from training.autoconfig.from_file import Guess, guess_layout
from training.data import DataSpec, load
from training.errors import DataError

FILES = Path(__file__).parents[2] / "files"


def guessed(text: str, tmp_path: Path, given: DataSpec | None = None, stated: tuple[str, ...] = ()) -> Guess:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    return guess_layout(path, given or DataSpec(), stated)


WIDE = (
    "no,when,flow,state,dead,level\n1,2026-01-01 00:00,1.5,ok,,3\n"
    "2,2026-01-01 00:01,,ok,,4\n3,2026-01-01 00:02,2,bad,,9\n"
)


def test_a_wide_file_is_read_without_any_setting(tmp_path: Path) -> None:
    found = guessed(WIDE, tmp_path)
    assert (found.spec.time, found.spec.sensor, found.spec.group_name) == ("when", "", "mine")
    assert found.spec.sensors == ("flow", "level")
    assert found.messages == (
        "time is 'when'",
        "left out: no (counts the rows)",
        "left out: state (no numbers)",
        "left out: dead (no value at all)",
        "it names no groups: all of it belongs to the group 'mine'",
    )
    assert found.warnings == ()


def test_stated_settings_are_never_changed(tmp_path: Path) -> None:
    given = DataSpec(time="when", sensors=("flow",), group_name="pump-1", plausibility=False)
    found = guessed(WIDE, tmp_path, given, ("time", "sensors", "group_name", "plausibility"))
    assert found.spec == given
    assert load(found.spec, tmp_path / "mine.csv").groups == ("pump-1",)


def test_the_parquet_that_dump_writes_is_read_by_groups_at_its_step(tmp_path: Path) -> None:
    """Three sensors of two pumps a minute, whose stamps jitter by seconds."""
    rng = np.random.default_rng(1)
    rows = [
        (60_000 * step + 800 * place + int(rng.integers(-4_000, 4_000)), group, sensor, step + place / 8)
        for step in range(300)
        for group in ("pump-1", "pump-2")
        for place, sensor in enumerate(("flow", "speed", "tank_level"))
    ]
    time, group, sensor, value = zip(*sorted(rows), strict=True)
    columns = {
        "time": pa.array(np.array(time) + 1_767_225_600_000, pa.timestamp("ms", "UTC")),
        "group": pa.array(group).dictionary_encode(),
        "sensor": pa.array(sensor).dictionary_encode(),
        "value": pa.array(value, pa.float64()),
    }
    path = tmp_path / "readings.parquet"
    pq.write_table(pa.table(columns), path)
    found = guess_layout(path, DataSpec(), ()).spec
    assert (found.time, found.group, found.sensor, found.value) == ("time", "group", "sensor", "value")
    series = load(found, path)
    assert (series.groups, series.sensors) == (("pump-1", "pump-2"), ("flow", "speed", "tank_level"))
    assert (series.step_s, series.rows) == (60, 300)
    expected = np.arange(300) + np.arange(3)[:, None] / 8
    np.testing.assert_array_equal(series.values, np.stack([expected, expected]).astype(np.float32))


def test_columns_and_numbers_that_were_found_out_stand_in_the_configuration(tmp_path: Path) -> None:
    rows = [f"1/{day}/2026,{20.5 + day},{-9999 if day in (3, 15) else day / 4}" for day in range(1, 20)]
    found = guessed("\n".join(["day,p/x,q/x", *rows]), tmp_path)
    assert (found.spec.separator, found.spec.sensors, found.spec.date_order) == ("/", (), "mdy")
    assert found.spec.sensor_sentinels == {"x": (-9999.0,)}
    again = load(found.spec, tmp_path / "mine.csv")
    assert (again.groups, again.sensors, int(np.isnan(again.values).sum())) == (("p", "q"), ("x",), 2)


def test_a_number_that_may_stand_for_no_value_is_a_warning_and_kept(tmp_path: Path) -> None:
    rows = [f"2026-01-01 00:{i:02d},{-1 if i % 9 == 4 else 300 + i * i % 97}" for i in range(60)]
    text = "\n".join(["time,a", *rows])
    found = guessed(text, tmp_path)
    assert found.warnings == (
        "-1 stands 7 times in 'a'; the next value above is 300: kept as it is, and not used; if it "
        "stands for no value, state --missing 'a=-1'; if it is a reading, --missing 'a='",
    )
    assert found.spec.sensor_sentinels == {}
    assert not {*found.warnings} & {*found.messages}
    declared = DataSpec(sensor_sentinels={"a": (-1.0,)})
    assert guessed(text, tmp_path, declared, ("sensor_sentinels",)).warnings == ()
    assert guessed(text, tmp_path, DataSpec(sentinels=(-1.0,)), ("sentinels",)).warnings == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,4\n", "expected a column of times .* found columns a, b"),
        ("ts,b\n1/2/2026,2\n1/3/2026,4\n", "column 'ts': .* say which with --date-order dmy or mdy"),
        ("elapsed [s],b\n0,2.5\n1,4\n2,4.5\n", "depths or elapsed times and no dates"),
    ],
)
def test_a_file_that_no_stream_continues_or_of_two_meanings_is_an_error(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        guessed(text, tmp_path)


@pytest.mark.slow  # quicker: the made files, above
@pytest.mark.parametrize(
    ("name", "time", "separator", "groups"),
    [("ETTh1.csv", "date", "", 1), ("weather.csv", "date", "", 1), ("beijing_multisite.parquet", "ts", ".", 12)],
)
def test_public_data_sets_are_recognised(name: str, time: str, separator: str, groups: int) -> None:
    path = DATA_SETS / name
    if not path.is_file():
        pytest.skip(f"no {name} in the folder that GLAIM_DATA names")
    found = guess_layout(path, DataSpec(), ())
    assert (found.spec.time, found.spec.separator, found.warnings) == (time, separator, ())
    assert len(load(found.spec, path).groups) == groups


@pytest.mark.parametrize("name", ["psm3_5min.csv", "rmis_weather.csv", "serf_west.csv"])
def test_a_fit_cuts_a_file_into_the_steps_that_fill_cuts_it_into(name: str) -> None:
    path = FILES / "real_files" / name
    found = guess_layout(path, DataSpec(), ())
    form = read(path).form
    assert found.spec.time == form.time
    series = load(found.spec, path)
    assert series.sensors == form.sensors
    assert series.step_s * 1000 == form.step_ms
