"""`impute` and `Imputer` judge the cells of a table in memory as `fill` judges those of a file."""

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from glaim_stream import Imputer, impute
from glaim_stream.tables import cells_of, fill_cells, open_file, write
from glaim_stream.tables.frame import TableError
from glaim_stream.tables.impute import HolesLeft, UnusedCells

CASES = Path(__file__).parents[1] / "files" / "cases"
ROWS = 240


def said(call: Callable[[], Any], kind: type[Warning] = UnusedCells) -> tuple[Any, str]:
    """The result of a call, and the text of its warnings of a kind."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        out = call()
    return out, "; ".join(str(each.message) for each in found if issubclass(each.category, kind))


def table() -> pd.DataFrame:
    steps = np.arange(ROWS)
    made = pd.DataFrame({"a": 20 + np.sin(steps / 9), "b": 5 + np.cos(steps / 9)})
    made.insert(0, "time", pd.date_range("2026-03-02", periods=ROWS, freq="min"))
    made.loc[50:52, "a"] = np.nan
    return made


@pytest.mark.parametrize("name", ["ds18b20_errors", "meter_zero_blip", "quality_bad", "sentinel_99_999"])
@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_table_is_filled_as_the_file_with_its_cells(name: str, library: Any) -> None:
    raw = (CASES / f"{name}.csv").read_bytes()
    file, out = open_file(f"{name}.csv", raw), io.BytesIO()
    cells = cells_of(file)
    write(file, cells, fill_cells(cells), out)
    before, by_file = (pd.read_csv(io.BytesIO(each)) for each in (raw, out.getvalue()))
    given = library.read_csv(io.BytesIO(raw))
    numbers = [each for each in file.form.sensors if before[each].dtype == float]
    filled, _ = said(lambda: impute(given, time=file.form.time))
    for sensor in numbers:
        found, expected = np.asarray(filled[sensor], np.float64), by_file[sensor].to_numpy(np.float64)
        same = np.isfinite(before[sensor]) & (before[sensor] == expected)
        np.testing.assert_array_equal(found[same], expected[same])
        changed = ~same.to_numpy()
        assert (np.isnan(found) == np.isnan(expected))[changed].all()
        np.testing.assert_allclose(found[changed], expected[changed], atol=0.02 * np.nanmax(np.abs(expected)))


def test_error_codes_stay_and_fill_nothing_and_can_be_stated() -> None:
    given = table()
    given.loc[46:49, "a"] = 85.0
    filled, text = said(lambda: impute(given))
    assert (filled["a"][46:50] == 85).all()
    assert filled["a"][50:53].between(18, 22).all()
    assert "85 stands 4 times in 'a'" in text
    assert "state missing=['a=85']; if it is a reading, missing=['a=']" in text
    filled, text = said(lambda: impute(given, missing=["a=85"]))
    assert filled["a"].between(18, 22).all()
    assert "85 stands 4 times in 'a'" in text
    assert text.endswith(": taken as no value")
    filled, text = said(lambda: impute(given, missing=["a="]))
    assert (text, bool((filled["a"][46:50] == 85).all())) == ("", True)
    with pytest.raises(TableError, match="expected a column or sensor, as in COLUMN=VALUE, found 'c'"):
        impute(given, missing=["c=85"])


def test_sentinels_are_holes_of_a_fit_too() -> None:
    given = table()
    given.loc[100:103, "b"] = -999.0
    imputer, _ = said(lambda: Imputer().fit(given))
    filled, text = said(lambda: imputer.transform(given))
    assert filled["b"].between(3.5, 6.5).all()
    assert "-999 stands 4 times in 'b'" in text
    assert Imputer(missing=["b="]).get_params()["missing"] == ["b="]


def test_readings_that_are_marked_as_bad_stay_and_fill_nothing() -> None:
    given = table()
    given["a_quality"] = "Good"
    given.loc[46:49, ["a", "a_quality"]] = [60.0, "Bad"]
    filled, text = said(lambda: impute(given))
    assert (filled["a"][46:50] == 60).all()
    assert filled["a"][50:53].between(18, 22).all()
    assert "'a_quality' states the quality of a: 4 readings with 'Bad'" in text
    assert "missing=['a_quality='] uses them" in text


def test_a_slow_sensor_is_filled_at_its_own_times_alone() -> None:
    given = table()
    given["slow"] = np.where(np.arange(ROWS) % 6 == 0, 50 + np.sin(np.arange(ROWS) / 30), np.nan)
    given.loc[[60, 120], "slow"] = np.nan
    filled, text = said(lambda: impute(given))
    assert np.flatnonzero(filled["slow"].notna()).tolist() == list(range(0, ROWS, 6))
    assert "sensors read less often than the file has rows: slow every 6 min (200)" in text
    long = given.melt("time", ["a", "slow"], "sensor").sort_values(["time", "sensor"], ignore_index=True)
    filled, _ = said(lambda: impute(long))
    slow = filled[filled["sensor"] == "slow"]
    assert np.flatnonzero(slow["value"].notna()).tolist() == list(range(0, ROWS, 6))
    assert filled["value"][filled["sensor"] == "a"].notna().all()


def test_rows_of_events_and_of_a_clock_that_was_set_back_are_left() -> None:
    given = table()
    event = pd.DataFrame({"time": [given["time"][30] + pd.Timedelta(seconds=27)], "note": ["Logged"]})
    logged = pd.concat([given, event]).sort_values("time", ignore_index=True)
    filled, text = said(lambda: impute(logged))
    assert filled[["a", "b"]].isna().sum().tolist() == [1, 1]
    assert "rows of events without a reading: 1" in text
    back = table()
    back["b"] = np.random.default_rng(1).normal(size=ROWS)
    back.loc[100:, "time"] -= pd.Timedelta(minutes=60)
    filled, text = said(lambda: impute(back), HolesLeft)
    assert filled["a"][50:53].isna().all()
    assert "3 in rows with the times of others and other readings, as of a clock that was set back" in text
