"""Input, output and interfaces of imputers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import WindowShapeError, WrongAnswer
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import Kind

_Rows = slice | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of many groups of one model, stacked.

    values: float64 [n, C, window], sensor units, 0 where not observed.
    observed: bool [n, C, window], True where a reading arrived.
    steps: number of newest steps to impute.
    resolution: float64 [C], the step to which each sensor's imputed values are published; None: the contract's.
    end_ms: int64 [n], start of each window's newest step, epoch ms; None: not known.
    lags: lags of the newest `steps` whose values are used, in steps before the newest one; None: all. An imputer may
        leave the others without values. Lags must not depend on the windows at hand, because the last bits of an
        answer may depend on them.
    directions: bool [C], sensors that the catalogue declares as directions in degrees; None: there are none.
    """

    model: str
    values: NDArray[np.float64]
    observed: NDArray[np.bool_]
    steps: int
    resolution: NDArray[np.float64] | None = None
    end_ms: NDArray[np.int64] | None = None
    lags: tuple[int, ...] | None = None
    directions: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or self.values.shape != self.observed.shape:
            raise WindowShapeError(
                f"windows must be [n, sensor, step] with observed alike, found {self.values.shape} and "
                f"{self.observed.shape}"
            )
        if not 1 <= self.steps <= self.values.shape[2]:
            raise WindowShapeError(f"steps must lie in 1..{self.values.shape[2]}, found {self.steps}")
        if self.lags is not None and not all(0 <= lag < self.steps for lag in self.lags):
            raise WindowShapeError(f"lags must lie in 0..{self.steps - 1}, found {self.lags}")
        if self.end_ms is not None and self.end_ms.shape != self.values.shape[:1]:
            raise WindowShapeError(f"{len(self.values)} windows must have an end each, found {self.end_ms.shape}")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def asked(self) -> NDArray[np.bool_]:
        """The newest steps whose values are used by their lag, bool [steps]."""
        asked = np.full(self.steps, self.lags is None)
        if self.lags is not None:
            asked[self.steps - 1 - np.array(self.lags, np.int64)] = True
        return asked

    def slice(self, start: int, stop: int) -> Windows:
        """Windows `[start, stop)`."""
        return self.taken(slice(start, stop))

    def padded(self, count: int | None) -> Windows:
        """The windows followed by copies of the last one, `count` in all; with None, the windows unchanged.

        A model selects its kernels by the shape of the batch, and the last bits of its output depend on them. With a
        fixed batch size a window's output has the same bytes whatever other windows are in its batch.

        Raises:
            WindowShapeError: there are no windows, or more than `count`.
        """
        if count is None or len(self) == count:
            return self
        if not 0 < len(self) < count:
            raise WindowShapeError(f"expected 1 to {count} windows for a fixed batch, found {len(self)}")
        return self.taken(np.minimum(np.arange(count), len(self) - 1))

    def taken(self, rows: _Rows) -> Windows:
        """The chosen windows."""
        end_ms = None if self.end_ms is None else self.end_ms[rows]
        return replace(self, values=self.values[rows], observed=self.observed[rows], end_ms=end_ms)


@dataclass(frozen=True, slots=True)
class Imputed:
    """Imputed values of the newest `steps` of each window.

    values: float64 [n, C, steps], sensor units; NaN where the imputer has no value.
    method: int8 [n, C, steps], vocabulary.Method.
    version: version of the model that imputed each window, "" without a model; length n.
    deviation: float64 [n, C, steps], sensor units: the closed form's standard deviation of the values with method
        GAUSSIAN, and of values with method BLEND in which the model has no part; NaN elsewhere. None: there are no
        such values.
    form_version: version of the values with a deviation; "": the same as `version`.
    trained_range: least and largest value of each sensor in the closed form's training, float64 [C]; None: the form
        has no part, or the range is not known.
    unmixable: bool [n, C], sensors of windows between whose values a mean means nothing, such as a valve's or a
        direction's: the closed form's value stands alone. None: there are none.
    kinds: kind of each of the C sensors, as the closed form recognised it. None: all are numbers, or unknown.
    """

    values: NDArray[np.float64]
    method: NDArray[np.int8]
    version: list[str]
    deviation: NDArray[np.float64] | None = None
    form_version: str = ""
    trained_range: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    unmixable: NDArray[np.bool_] | None = None
    kinds: Sequence[Kind] | None = None

    def slice(self, start: int, stop: int) -> Imputed:
        """Values for the windows `[start, stop)`."""
        deviation = None if self.deviation is None else self.deviation[start:stop]
        unmixable = None if self.unmixable is None else self.unmixable[start:stop]
        return replace(
            self,
            values=self.values[start:stop],
            method=self.method[start:stop],
            version=self.version[start:stop],
            deviation=deviation,
            unmixable=unmixable,
        )

    def versions_of(self, method: Method) -> list[str]:
        """Versions of the windows with a value by `method`."""
        found = (self.method == method).any(axis=(1, 2))
        return [version for version, here in zip(self.version, found.tolist(), strict=True) if here]

    @classmethod
    def joined(cls, parts: Sequence[Imputed]) -> Self:
        """Values of several batches in their order; `parts` must not be empty."""
        shapes = [part.values.shape for part in parts]
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.method for part in parts]),
            [version for part in parts for version in part.version],
            _joined([part.deviation for part in parts], shapes, np.nan),
            trained_range=next((part.trained_range for part in parts if part.trained_range is not None), None),
            unmixable=_joined([part.unmixable for part in parts], [shape[:2] for shape in shapes], False),
            kinds=next((part.kinds for part in parts if part.kinds is not None), None),
        )


def _joined(arrays: Sequence[NDArray[Any] | None], shapes: Sequence[tuple[int, ...]], blank: Any) -> Any:
    """The arrays together, None if all are absent; an absent array gets its shape, filled with `blank`."""
    if all(each is None for each in arrays):
        return None
    pairs = zip(arrays, shapes, strict=True)
    return np.concatenate([np.full(shape, blank) if each is None else each for each, shape in pairs])


class WindowImputer(Protocol):
    """An imputer of windows that never fails."""

    async def impute(self, windows: Windows) -> Imputed:
        """Impute the newest steps of each window."""
        ...


class Rung(Protocol):
    """One imputer of the ladder; when it fails, the ladder calls the next one."""

    @property
    def name(self) -> str:
        """Short name for metrics and logs."""
        ...

    async def impute(self, windows: Windows) -> Imputed:
        """Impute the newest steps of each window.

        Raises:
            ImputerAbsent: the imputer has nothing for the windows' model; this is not counted as a failure.
            ImputerError: the imputer cannot impute these windows.
        """
        ...

    async def close(self) -> None:
        """Release connections and memory."""
        ...


class ExpertRung(Rung, Protocol):
    """A registered expert of the blend, of whose answer only `values` are used; NaN where it has none.

    number: 3 or more and never changed: it gives the order in which the experts' values are added up.
    """

    number: int


def requested_values(
    model: str,
    answer: Any,
    windows: Windows,
    *,
    sent: int,
    sensors: int,
    emitted_steps: int,
    version: str = "",
) -> NDArray[np.float32]:
    """Check the array that a model returned and take the requested windows and steps from it.

    Args:
        model: model name, for error messages.
        answer: the model's output, which should be an array [sent, sensors, emitted_steps]; None if there is none.
        windows: the windows before padding.
        sent: number of windows that the model received, padding included.
        sensors: number of sensors in the model's contract.
        emitted_steps: number of steps in the model's contract.
        version: version that answered, for the error.

    Returns:
        float32 [len(windows), sensors, windows.steps], all finite.

    Raises:
        WrongAnswer: the array has another shape, or a requested value is NaN or infinite.
    """
    expected = (sent, sensors, emitted_steps)
    found = getattr(answer, "shape", None)
    if found != expected:
        raise WrongAnswer(f"model {model} must return values of shape {expected}, found {found}", "shape", version)
    values: NDArray[np.float32] = answer[: len(windows), :, -windows.steps :].astype(np.float32, copy=False)
    if not np.isfinite(values).all():
        raise WrongAnswer(f"model {model} returned values that are not finite", "not_finite", version)
    return values
