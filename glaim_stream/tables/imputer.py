"""`Imputer`: `impute` as an estimator with a fit, by the conventions of scikit-learn."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import listed
from glaim_stream.core.vocabulary import Method
from glaim_stream.tables import saved
from glaim_stream.tables.cells import columns_of, groups_of
from glaim_stream.tables.columns import FilledColumn
from glaim_stream.tables.fill import apply
from glaim_stream.tables.fit import fit
from glaim_stream.tables.fitted import SensorFits
from glaim_stream.tables.frame import ArrayFrame, Frame, TableError, TableTypeError, frame_of
from glaim_stream.tables.groups import Group
from glaim_stream.tables.impute import fills_of, warn_of_holes, warn_of_stray_rows, warn_of_unused, zone_for
from glaim_stream.tables.layout import Flags, Placed, placed, readings_in, texts_of_numbers

if TYPE_CHECKING:

    class Estimator:
        """The methods that both kinds of base classes have."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the parameters by name."""

        def set_params(self, **params: Any) -> Any:
            """Set parameters by name."""

        def __sklearn_tags__(self) -> Any: ...

    class NotFittedError(ValueError, AttributeError):
        """An estimator is used before its fit."""

else:
    try:
        from sklearn.base import BaseEstimator, TransformerMixin
        from sklearn.exceptions import NotFittedError

        class Estimator(TransformerMixin, BaseEstimator):
            """An estimator of scikit-learn."""

    except ImportError:

        class NotFittedError(ValueError, AttributeError):
            """An estimator is used before its fit."""

        class Estimator:
            """An estimator with parameters by name, like scikit-learn's."""

            def get_params(self, deep: bool = True) -> dict[str, Any]:
                """Return the parameters by name."""
                return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

            def set_params(self, **params: Any) -> Any:
                """Set parameters by name."""
                known = self.get_params()
                for name, value in params.items():
                    if name not in known:
                        raise ValueError(f"expected a parameter of {', '.join(known)}, found {name!r}")
                    setattr(self, name, value)
                return self


Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Band:
    """Bands and methods of the cells of a column, arrays [rows].

    lower, upper: the 90 % band; the reading itself where observed, NaN where unknown.
    method: codes of `glaim_stream.core.vocabulary.Method`.
    doubtful: readings far from their neighbours, which are returned unchanged and not used.
    """

    lower: Doubles
    upper: Doubles
    method: NDArray[np.uint8]
    doubtful: NDArray[np.bool_]


class Imputer(Estimator):
    """Fills the holes of tables whose rows are readings in time.

    It has the parameters of `impute`. After a fit:

    n_features_in_: number of columns.
    feature_names_in_: names of the columns, if these are text.
    expected_error_: mean absolute error by column, at cells that were hidden on purpose.
    interpolation_error_: mean absolute error of interpolation by column, at the same cells.
    long_gap_error_: mean absolute error in gaps of more than 48 steps, by column that is filled there.
    method_: name of the method that fills each column.
    """

    def __init__(
        self,
        *,
        time: Any = None,
        group: Any = None,
        columns: Sequence[Any] | None = None,
        max_gap: int | None = None,
        step_ms: int | None = None,
        timezone: str | None = None,
        plausibility: bool = True,
        missing: Sequence[str] | None = None,
    ) -> None:
        """Store the parameters; see `impute`."""
        self.time = time
        self.group = group
        self.columns = columns
        self.max_gap = max_gap
        self.step_ms = step_ms
        self.timezone = timezone
        self.plausibility = plausibility
        self.missing = missing

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803  scikit-learn's name
        """Fit to a table.

        Args:
            X: table of pandas, polars, pyarrow or numpy.
            y: ignored.

        Warns:
            StrayTimes: rows are left out because their times are far from all others.
            UnusedCells: columns hold infinite cells, or numbers as text.

        Raises:
            TableError, TableTypeError: the table cannot be used as stated.
        """
        frame = _matrix(X)
        found = placed(frame, Flags(self.time, self.group, self.columns, self.missing or ()), self.step_ms)
        groups = self._groups(found)
        fitted = fit(groups, sensors=found.cells.sensors, timezone=zone_for(self.timezone, found))
        array = isinstance(frame, ArrayFrame)
        self._keep(fitted, frame.names, found.names, timed=found.timed, array=array, zoned=found.zoned)
        warn_of_stray_rows(found.stray)
        warn_of_unused(found)
        return self

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Return a table with its holes filled by the fit.

        Columns are matched by name and rows by time: the table may have other rows than the fitted one, in any order.

        Warns:
            HolesLeft: some holes were left null.
            UnusedCells: columns hold infinite cells, or numbers, and the fit has not seen them.
            StrayTimes: rows are left unchanged because their times are far from all others.

        Raises:
            TableError, TableTypeError: the table lacks columns of the fit or has another kind, or its times have a zone
                where those of the fit have none, or none where those have one.
        """
        frame = self._fitting(X)
        found = self._placed(frame)
        columns, left = self._answers(found)
        out = frame.filled(fills_of(found, columns))
        warn_of_stray_rows(found.stray)
        warn_of_unused(found)
        warn_of_holes(found.left + left)
        return out

    def fit_transform(self, X: Any, y: Any = None) -> Any:  # noqa: N803
        """Fit to a table and fill it."""
        return self.fit(X, y).transform(X)

    def bands(self, X: Any) -> dict[Any, Band]:  # noqa: N803
        """Return the 90 % bands and methods of the cells of a table as `transform` fills it, by column."""
        frame = self._fitting(X)
        found = self._placed(frame)
        columns, _ = self._answers(found)
        bands = {}
        for name, read, filled in zip(found.names, found.cells.columns, columns, strict=True):
            seen = filled.method == Method.OBSERVED
            lower, upper = (np.where(seen & ~read.hole, read.value, each) for each in (filled.lower, filled.upper))
            bands[name] = Band(lower, upper, filled.method, filled.doubted)
        return bands

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns, which a fill does not change."""
        self._require_fit()
        names = np.array([str(name) for name in self._names], dtype=object)
        if input_features is None:
            return names
        stated = np.asarray(input_features, dtype=object)
        if hasattr(self, "feature_names_in_") and not np.array_equal(stated, self.feature_names_in_):
            raise TableError("input_features is not equal to feature_names_in_")
        if len(stated) != len(names):
            raise TableError(f"input_features should have length equal to number of features ({len(names)})")
        return stated

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the parameters and the fit to a file, atomically. The file holds no code.

        Raises:
            NotFittedError: there is no fit.
            TableError: columns have names that are neither text nor whole numbers.
        """
        self._require_fit()
        state = {"params": self.get_params(deep=False), "names": list(self._names), "sensors": list(self._sensors)}
        saved.write(
            Path(path), self._fitted, state | {"timed": self._timed, "array": self._array, "zoned": self._zoned}
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that `save` wrote.

        Raises:
            ModelError: the file is absent, damaged or of another kind.
        """
        fitted, state = saved.read(Path(path))
        out = cls(**state["params"])
        out._keep(
            fitted, state["names"], state["sensors"], timed=state["timed"], array=state["array"],
            zoned=state.get("zoned"),
        )  # fmt: skip
        return out

    def __sklearn_tags__(self) -> Any:
        """Allow missing values in the input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _keep(
        self, fitted: SensorFits, names: Sequence[Any], sensors: Sequence[Any], *, timed: bool, array: bool,
        zoned: bool | None,
    ) -> None:  # fmt: skip
        self._fitted, self._names, self._sensors = fitted, tuple(names), tuple(sensors)
        self._timed, self._array, self._zoned = timed, array, zoned  # `zoned` is None in files of earlier versions
        self.n_features_in_ = len(names)
        self.__dict__.pop("feature_names_in_", None)
        if not array and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        place = {name: name for name in fitted.sensors} | {str(name): name for name in sensors}
        self.expected_error_ = {place[name]: error for name, error in fitted.expected_error.items()}
        self.interpolation_error_ = {place[name]: error for name, error in fitted.line_error.items()}
        self.long_gap_error_ = {place[name]: error for name, (error, _) in fitted.long_gap_error.items()}
        self.method_ = {place[name]: method for name, method in fitted.chosen.items()}

    def _require_fit(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call fit or load first")

    def _fitting(self, table: Any) -> Frame:
        """The frame of a table, with the columns of the fit."""
        self._require_fit()
        frame = _matrix(table)
        if self._array or isinstance(frame, ArrayFrame):
            if len(frame.names) != self.n_features_in_:
                raise TableError(
                    f"X has {len(frame.names)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                    "features as input"
                )
            if self._array != isinstance(frame, ArrayFrame):
                raise TableError("expected columns of names in both the fit and the table, or in neither")
        absent = [name for name in self._sensors if name not in frame.names]
        if absent:
            raise TableError(f"expected the columns of the fit, found none named {listed(absent)}")
        return frame

    def _placed(self, frame: Frame) -> Placed:
        flags = Flags(self.time, self.group, missing=self.missing or ())
        others = [name for name in readings_in(frame, flags) if name not in self._sensors]
        unknown = [name for name in others if self.columns is None and np.isnan(frame.numbers[name].values).any()]
        if unknown:
            raise TableError(f"{listed(unknown)}: columns with holes that the fit has not seen, or without any hole")
        step_ms = self._fitted.step_ms or self.step_ms
        found = placed(frame, replace(flags, columns=self._sensors), step_ms, self._fitted.sensors)
        if found.timed != self._timed:
            raise TableError("expected times in both the fit and the table, or in neither")
        if self._zoned not in (None, found.zoned):
            kinds = ("times without a zone", "times with a zone")
            raise TableError(
                f"expected {kinds[self._zoned]}, as in the fit, found {kinds[found.zoned]} in {frame.rows:,} rows"
            )
        if self.columns is not None:
            return found
        added = dict.fromkeys(others, f"{frame.rows:,} cells that the fit has not seen")
        return replace(found, unused=found.unused | added | texts_of_numbers(frame, flags))

    def _groups(self, found: Placed) -> list[Group]:
        groups = groups_of(found.cells, found.series)
        return [each.judged() for each in groups] if self.plausibility else groups

    def _answers(self, found: Placed) -> tuple[tuple[FilledColumn, ...], Counter[str]]:
        filled = apply(self._fitted, self._groups(found), max_gap=self.max_gap)
        return columns_of(found.cells, found.series, filled, beside=True)


def _matrix(table: Any) -> Frame:
    """The frame of a table with rows and columns; lists of lists count as arrays, as in scikit-learn."""
    if isinstance(table, (list, tuple)) or _is_array_like(table):
        try:
            table = np.array(table, np.float64)
        except (TypeError, ValueError) as error:
            raise TableTypeError(f"expected rows of numbers: {error}") from error
    frame = frame_of(table)
    if isinstance(frame, ArrayFrame) and frame.array.ndim != 2:
        raise TableError("Expected 2D array, got 1D array instead. Reshape your data to rows and columns")
    for count, what in ((frame.rows, "sample(s)"), (len(frame.names), "feature(s)")):
        if not count:
            shape = (frame.rows, len(frame.names))
            raise TableError(f"Found array with 0 {what} (shape={shape}) while a minimum of 1 is required.")
    return frame


def _is_array_like(table: Any) -> bool:
    """Whether numpy can turn an object that is not a table into an array."""
    return hasattr(table, "__array__") and not hasattr(table, "columns") and not isinstance(table, np.ndarray)
