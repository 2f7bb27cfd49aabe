"""Tables of four libraries: the same kind comes back, with the holes filled and all else equal."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pytest

from glaim_stream import Imputer, impute
from glaim_stream.core.errors import SettingsError
from glaim_stream.tables.cells import fill_cells
from glaim_stream.tables.impute import HolesLeft
from glaim_stream.tables.user_file import cells_of, open_file

ROWS = 64


def numbers(rows: int = ROWS, columns: int = 3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = (
        10 + np.sin(np.arange(rows) / 5)[:, None] * np.arange(1, columns + 1) + rng.normal(size=(rows, columns)) / 9
    )
    values[rng.random(values.shape) < 0.1] = np.nan
    return values


def frame(rows: int = ROWS) -> pd.DataFrame:
    index = pd.date_range("2024-03-31", periods=rows, freq="10min", tz="Europe/Berlin", name="at")
    return pd.DataFrame(numbers(rows), columns=["a", "b", "c"], index=index)


def require_filled(after: pd.DataFrame, before: pd.DataFrame) -> None:
    """Holes have values, and without them the tables are equal."""
    assert not after[["a", "b", "c"]].isna().any(axis=None)
    pd.testing.assert_frame_equal(after.mask(before.isna()), before.mask(before.isna()))


def test_a_frame_of_many_types_keeps_its_index_types_and_attributes():
    table = frame()
    hole = table["a"].isna().to_numpy()
    table["Float64"] = pd.array(np.where(hole, None, table["a"]), dtype="Float64")
    table["Int64"] = pd.array(np.where(hole, None, np.arange(ROWS) + 2**53), dtype="Int64")
    table["float32"] = table["b"].astype("float32")
    table["arrow"] = table["c"].astype("double[pyarrow]")
    table["object"] = pd.Series(np.where(hole, None, table["a"]), dtype=object, index=table.index)
    table["boolean"] = pd.array([True, None] * (ROWS // 2), dtype="boolean")
    table["category"] = pd.Categorical(["x", None] * (ROWS // 2))
    table["text"] = ["x", None] * (ROWS // 2)
    table["id"] = np.arange(ROWS)
    table[7] = table["a"]
    table.attrs = {"plant": {"name": "north"}}
    before = table.copy(deep=True)
    out = impute(table)
    pd.testing.assert_frame_equal(table, before)
    assert out.attrs == before.attrs
    assert (out.dtypes == before.dtypes).all()
    passed = ["boolean", "category", "text", "id"]
    pd.testing.assert_frame_equal(out[passed], before[passed])
    rest = [name for name in table.columns if name not in passed]
    assert not out[rest].isna().any(axis=None)
    for name in rest:
        seen = ~before[name].isna()
        pd.testing.assert_series_equal(out[name][seen], before[name][seen])


@pytest.mark.parametrize("kind", ["duplicates", "shuffled", "level", "column", "text", "unnamed rows"])
def test_rows_keep_their_order_whatever_tells_their_times(kind):
    table = frame()
    if kind == "duplicates":
        table = pd.concat([table, table.iloc[40:42] + 1.0]).sort_index(kind="stable")
    elif kind == "shuffled":
        table = table.sample(frac=1, random_state=3)
        pd.testing.assert_frame_equal(impute(table).sort_index(), impute(frame()), check_freq=False)
    elif kind == "level":
        table = pd.concat({"x": table, "y": table + 5}, names=["pump"])
    elif kind == "column":
        table = table.reset_index()
    elif kind == "text":
        table = table.reset_index()
        table["at"] = table["at"].map(lambda moment: moment.isoformat())
    else:
        table = table.reset_index(drop=True)
    require_filled(impute(table), table)


def test_rows_without_a_time_stay_and_are_reported():
    table = frame().reset_index()
    table.loc[[5, 9], "at"] = pd.NaT
    table.loc[[5, 9], "a"] = [1.0, np.nan]
    table.loc[[5, 9], ["b", "c"]] = 2.0
    with pytest.warns(HolesLeft, match="1 holes were left null: 1 in a row without a time"):
        out = impute(table)
    assert out["a"].isna().sum() == 1
    assert np.isnan(out["a"][9])
    pd.testing.assert_series_equal(out["at"], table["at"])


def test_a_row_of_a_wrong_clock_stays_and_the_others_are_filled_as_without_it():
    table = frame().reset_index()
    wrong = table.iloc[[9]].assign(at=pd.Timestamp(0, tz="UTC").tz_convert(table["at"].dt.tz), a=-7.5, b=np.nan)
    stray = pd.concat([table[:40], wrong, table[40:]], ignore_index=True)
    with pytest.warns() as seen:
        out = impute(stray)
    said = {each.category.__name__: str(each.message) for each in seen}
    assert "far from all others, as of a wrong clock: 1 (row 40, 1970-01-01T00:00:00Z)" in said["StrayTimes"]
    assert "1 holes were left null: 1 in a row whose time is far from all others" in said["HolesLeft"]
    pd.testing.assert_frame_equal(out[40:41], stray[40:41])
    names = ["a", "b", "c"]
    pd.testing.assert_frame_equal(out[names].drop(index=40).reset_index(drop=True), impute(table)[names])


@pytest.mark.parametrize("by_time", [False, True])
def test_series_with_clocks_of_their_own_are_told_apart(by_time):
    """Two sensors that report seconds after each other, as home automation exports them."""
    start = pd.date_range("2025-03-01", periods=ROWS, freq="15min", tz="UTC")
    levels = {"indoors": 20.0, "cellar": 800.0}
    table = pd.concat(
        [
            pd.DataFrame(
                {"where": where, "at": start + pd.Timedelta(seconds=20 * place), "state": level + numbers()[:, 0]}
            )
            for place, (where, level) in enumerate(levels.items())
        ],
        ignore_index=True,
    )
    if by_time:
        table = table.sort_values("at", ignore_index=True)
    for filled in (impute(table), impute(table, group="where")):
        assert (filled["state"] - table["where"].map(levels)).between(5, 15).all()


@pytest.mark.parametrize("long", [False, True])
def test_a_frame_is_filled_as_the_file_with_the_same_cells(long):
    """Also where rows share a time, and where each row is one reading."""
    table = frame().tz_convert("UTC").reset_index()
    if long:
        table = table.melt("at", var_name="sensor", value_name="value").sort_values(["at", "sensor"], ignore_index=True)
    else:
        table = pd.concat([table.assign(pump="x"), table[["at", "c", "b", "a"]].assign(pump="y")], ignore_index=True)
    cells = cells_of(open_file("table.csv", table.to_csv(index=False).encode()))
    outcome = fill_cells(cells)
    assert cells.holes > 10
    out = impute(table)
    for column in outcome.columns:
        hole = np.isnan(table[column.name].to_numpy())
        np.testing.assert_allclose(out[column.name].to_numpy()[hole], column.value[hole], rtol=1e-12)
    assert impute(table, columns=["value" if long else "a"]).notna().sum().sum() > table.notna().sum().sum()


def test_a_long_frame_is_filled_by_the_sensors_of_the_fit():
    table = frame().reset_index().melt("at", var_name="sensor", value_name="value")
    imputer = Imputer().fit(table)
    assert set(imputer.expected_error_) <= {"a", "b", "c"} == set(imputer.method_)
    assert imputer.transform(table[table["sensor"] != "b"])["value"].notna().all()
    with pytest.raises(ValueError, match="z: sensors that the fit has not seen"):
        imputer.transform(table.replace({"sensor": {"b": "z"}}))


def test_text_is_read_as_in_a_file_and_an_ambiguous_date_is_a_sentence():
    table = frame().tz_localize(None).reset_index()
    days = pd.date_range("2024-01-01", periods=ROWS, freq="D")
    plain = impute(table.assign(at=days))
    written = impute(table.assign(at=days.strftime("%d.%m.%Y")))
    pd.testing.assert_frame_equal(written[["a", "b", "c"]], plain[["a", "b", "c"]])
    with pytest.raises(ValueError, match="by a column of times in place of text"):
        impute(table[:2].assign(at=["01/02/2024", "02/01/2024"]))


def test_a_table_of_an_unknown_library_that_exports_arrow_comes_back_as_one_of_pyarrow():
    class Foreign:
        def __arrow_c_stream__(self, requested_schema=None):
            return polars_table().to_arrow().__arrow_c_stream__(requested_schema)

    assert impute(Foreign()).column("a").null_count == 0


def test_groups_are_series_of_their_own():
    low, high = frame().reset_index(), frame().reset_index()
    high[["a", "b", "c"]] += 1000
    low["pump"], high["pump"] = "low", "high"
    table = pd.concat([low, high]).sort_values(["at", "pump"], ignore_index=True)
    stated, found = impute(table, group="pump"), impute(table)
    pd.testing.assert_frame_equal(stated, found)
    assert stated.loc[stated["pump"] == "low", "a"].max() < 100
    assert stated.loc[stated["pump"] == "high", "a"].min() > 900


def test_a_hole_beside_a_reading_of_the_same_time_gets_it():
    table = frame()
    again = table.iloc[[50]].assign(a=np.nan)
    table.iloc[50, 0] = 12.5
    out = impute(pd.concat([table, again]))
    assert out["a"].iloc[-1] == 12.5


def test_series_come_back_as_series():
    column = frame()["b"]
    out = impute(column)
    assert isinstance(out, pd.Series)
    assert out.name == "b"
    assert not out.isna().any()
    assert impute(pl.Series("p", column.to_numpy())).name == "p"


def polars_table() -> pl.DataFrame:
    table = frame().reset_index()
    return pl.DataFrame(
        {
            "at": table["at"].dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(),
            "a": pl.Series(table["a"].to_numpy()).fill_nan(None),
            "b": pl.Series(table["b"].to_numpy(), dtype=pl.Float32),
            "n": pl.Series([None if row % 9 == 0 else row for row in range(ROWS)], dtype=pl.Int16),
            "text": ["x", None] * (ROWS // 2),
        }
    )


def test_polars_frames_come_back_and_lazy_ones_stay_lazy():
    table = polars_table()
    before = table.clone()
    out = impute(table)
    pl.testing.assert_frame_equal(table, before)
    assert out.schema == table.schema
    assert out.select("a", "b", "n").null_count().row(0) == (0, 0, 0)
    assert not out["b"].is_nan().any()
    assert out["text"].equals(table["text"])
    seen = table["a"].is_not_null()
    assert out["a"].filter(seen).equals(table["a"].filter(seen))
    lazy = impute(table.lazy())
    assert isinstance(lazy, pl.LazyFrame)
    pl.testing.assert_frame_equal(lazy.collect(), out)


def test_arrow_tables_keep_schema_metadata_and_chunks():
    whole = polars_table().to_arrow().replace_schema_metadata({"k": "v"})
    table = pa.concat_tables([whole.slice(0, 30), whole.slice(30)])
    out = impute(table)
    assert out.schema.equals(table.schema, check_metadata=True)
    assert out.column("a").num_chunks == table.column("a").num_chunks
    assert out.column("a").null_count == 0
    assert out.column("text").equals(table.column("text"))
    assert isinstance(impute(whole.to_batches()[0]), pa.RecordBatch)


def test_arrow_tables_of_fine_times_half_floats_and_large_integers_are_filled():
    table = frame()
    fine = (table.index.tz_convert("UTC").tz_localize(None) + pd.Timedelta("1us")).as_unit("us")
    hole = table["a"].isna().to_numpy()
    columns = {
        "at": pa.array(fine.to_numpy()),
        "half": pa.array(table["a"].to_numpy().astype(np.float16), mask=hole),
        "large": pa.array(np.arange(ROWS) + 2**53, mask=hole),
    }
    before = pa.table(columns)
    out = impute(before)
    assert out.schema.equals(before.schema)
    assert out["at"].equals(before["at"])
    for name in ("half", "large"):
        assert out[name].null_count == 0
        assert out[name].filter(pa.array(~hole)).equals(before[name].filter(pa.array(~hole)))
    assert np.abs(out["half"].to_numpy()[hole].astype(float) - 10).max() < 3


@pytest.mark.parametrize(
    ("dtype", "laid_out"),
    [
        (np.float64, np.asfortranarray),
        (np.float64, lambda values: values[::-1][::-1]),
        (np.float32, lambda values: np.repeat(values, 2, axis=0)[::2]),
        (np.float16, np.ascontiguousarray),
    ],
)
def test_arrays_are_copied_whatever_their_layout(dtype, laid_out):
    values = numbers().astype(dtype)
    array = laid_out(values)
    array.flags.writeable = False
    out = impute(array)
    assert out.dtype == dtype
    assert out.shape == values.shape
    assert np.isfinite(out).all()
    seen = ~np.isnan(values)
    assert np.array_equal(out[seen], values[seen])
    assert np.array_equal(array, values, equal_nan=True)


def test_one_column_comes_back_as_one():
    assert impute(numbers()[:, 0]).shape == (ROWS,)


def test_a_type_that_cannot_hold_the_fill_is_a_sentence():
    table = frame()
    limit = pd.array([100, 127, None, 127, 100], dtype="Int8")
    assert impute(pd.DataFrame({"n": limit}))["n"].tolist() == [100, 127, 127, 127, 100]
    huge = np.array([np.nan, 60_000.0, 1.0], np.float16)
    assert np.isfinite(impute(huge)).all()
    table["flag"] = pd.array([True, None] * (ROWS // 2), dtype="boolean")
    with pytest.raises(TypeError, match="column 'flag' holds no numbers"):
        impute(table, columns=["flag"])


@pytest.mark.parametrize(
    ("make", "flags", "error", "message"),
    [
        (lambda: {"a": [1.0]}, {}, TypeError, "found dict"),
        (lambda: np.array(["a"]), {}, TypeError, "array of numbers"),
        (lambda: np.zeros((2, 2), complex), {}, ValueError, "Complex data not supported"),
        (lambda: np.zeros((2, 2, 2)), {}, ValueError, "3 dimensions"),
        (lambda: np.ma.masked_array([1.0]), {}, TypeError, "MaskedArray"),
        (
            lambda: frame().assign(x=pd.date_range("2020", periods=ROWS, freq="h")).reset_index(),
            *({}, ValueError, "at, x all hold even times.*say which counts with time='at' or time='x'"),
        ),
        (frame, {"time": "when"}, ValueError, "expected a column 'when', found a, b, c"),
        (frame, {"time": "a"}, TypeError, "column 'a': expected times such as"),
        (frame, {"group": "pump"}, ValueError, "expected a column 'pump'"),
        (frame, {"columns": ["z"]}, ValueError, "expected a column 'z'"),
        (frame, {"max_gap": 0}, SettingsError, "at least 1 step"),
        (frame, {"timezone": "Berlin"}, SettingsError, "Europe/Berlin"),
        (lambda: frame().set_axis(["a", "a", "b"], axis=1), {}, ValueError, "found 'a' twice"),
        (lambda: frame().set_axis(pd.to_datetime([None] * ROWS)), {}, ValueError, "expected rows with a time"),
        (lambda: frame().set_axis(pd.date_range("2024", periods=ROWS, freq="us")), {}, ValueError, "time=False"),
    ],
)
def test_what_cannot_be_filled_is_a_sentence(make, flags, error, message):
    with pytest.raises(error, match=message):
        impute(make(), **flags)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_tables_with_hardly_a_row_come_back(rows):
    table = frame().iloc[:rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HolesLeft)
        assert impute(table).shape == table.shape
        assert impute(table.to_numpy()).shape == table.shape
        assert impute(pl.from_pandas(table.reset_index())).shape == (rows, 4)
        assert impute(pa.Table.from_pandas(table)).shape == pa.Table.from_pandas(table).shape


def test_a_table_without_numbers_comes_back():
    table = pd.DataFrame({"text": ["a", None]})
    pd.testing.assert_frame_equal(impute(table), table)
    assert Imputer().fit(table).transform(table).equals(table)


def test_importing_the_package_imports_no_table_library():
    code = (
        "import sys, glaim_stream; found = {'torch', 'pandas', 'polars', 'sklearn', 'numpy'} & set(sys.modules); "
        "assert not found, found; from glaim_stream import impute; import numpy; impute(numpy.ones((3, 1))); "
        "found = {'torch', 'pandas', 'polars', 'sklearn'} & set(sys.modules); assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
