"""What `impute` and `Imputer` neither fill nor use is named with its column and count, or refused."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from glaim_stream import Imputer, impute
from glaim_stream.tables.frame import TableError
from glaim_stream.tables.impute import UnusedCells

ROWS = 120


def table(zone: str | None = None) -> pd.DataFrame:
    index = pd.date_range("2026-03-02", periods=ROWS, freq="min", tz=zone)
    steps = np.arange(ROWS)
    made = pd.DataFrame({"a": 20 + np.sin(steps / 9), "b": 5 + np.cos(steps / 9)}, index=index)
    made.iloc[50:57, 0] = np.nan
    return made


def texts() -> list[str | None]:
    return [None if np.isnan(value) else f"{value:.2f}" for value in table()["a"]]


def unused(call: Callable[[], Any]) -> list[str]:
    """The warnings about unused cells."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(each.message).partition("used: ")[2] for each in found if each.category is UnusedCells]


def test_numbers_as_text_and_infinite_cells_are_named() -> None:
    assert unused(lambda: impute(table().assign(c=texts()))) == ["'c': 113 numbers as text, 7 other or empty cells"]
    infinite = table()
    infinite.iloc[80:83, 1] = np.inf
    assert unused(lambda: impute(infinite)) == ["'b': 3 infinite cells"]
    assert unused(lambda: Imputer().fit(infinite)) == ["'b': 3 infinite cells"]


def test_ids_words_and_what_was_not_asked_for_raise_no_warning() -> None:
    named = table().assign(id=[f"{row:05d}" for row in range(ROWS)], note="as usual", empty=None)
    assert unused(lambda: impute(named)) == []
    assert unused(lambda: impute(table().assign(c=texts()), columns=["a"])) == []


def test_columns_that_a_fit_has_not_seen_are_named() -> None:
    fitted = Imputer().fit(table())
    assert unused(lambda: fitted.transform(table())) == []
    assert unused(lambda: fitted.transform(table().assign(c=1.5))) == ["'c': 120 cells that the fit has not seen"]
    more = table().assign(c=texts())
    assert unused(lambda: fitted.transform(more)) == ["'c': 113 numbers as text, 7 other or empty cells"]
    assert unused(lambda: Imputer(columns=["a"]).fit(table()).transform(more.assign(d=1.5))) == []


def test_times_with_a_zone_and_without_one_are_not_mixed(tmp_path: Path) -> None:
    fitted = Imputer().fit(table("Europe/Berlin"))
    fitted.save(tmp_path / "imputer")
    for imputer in (fitted, Imputer.load(tmp_path / "imputer")):
        with pytest.raises(TableError, match="with a zone, as in the fit, found times without a zone in 120 rows"):
            imputer.transform(table())
        assert not imputer.transform(table("UTC")).isna().any(axis=None)
    with pytest.raises(TableError, match="without a zone, as in the fit, found times with a zone"):
        Imputer().fit(table()).transform(table("UTC"))
