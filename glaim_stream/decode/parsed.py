"""Readings whose bytes were understood and whose names became codes: what each input format is read into."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from glaim_stream.decode.quality import quality_of

Time = int | float | str | None  # epoch milliseconds or ISO 8601
Stated = int | float | str | None  # quality: a word or a StatusCode


class Said(NamedTuple):
    """What one reading said, in its own words; for messages about it."""

    group: str | None
    sensor: str | None
    time: Time


@dataclass(frozen=True, slots=True)
class Parsed:
    """Readings in order of arrival, not yet judged; every column has the length n."""

    group: NDArray[np.int64]  # GroupIndex.groups: a code, or why there is none
    sensor: NDArray[np.int64]  # GroupIndex.sensors
    time_ms: NDArray[np.float64]  # NaN where it cannot be read
    value: NDArray[np.float64]  # NaN where there is none
    record: NDArray[np.int64]  # which of the batch's records carried it
    position: NDArray[np.int64]  # of the reading inside its record
    quality: NDArray[np.int8] | None  # None: nothing is stated of any
    said: Callable[[int], Said]  # by place in the columns

    def __len__(self) -> int:
        return len(self.record)


def joined(parts: Sequence[Parsed]) -> Parsed:
    """Parts as one, in order of their records."""
    if len(parts) == 1:
        return parts[0]
    record = np.concatenate([part.record for part in parts])
    order = np.argsort(record, kind="stable")
    starts = np.cumsum([0, *map(len, parts)])

    def column(columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(list(columns))[order]

    def said(place: int) -> Said:
        of = int(order[place])
        part = int(np.searchsorted(starts, of, side="right")) - 1
        return parts[part].said(of - int(starts[part]))

    return Parsed(
        column(part.group for part in parts),
        column(part.sensor for part in parts),
        column(part.time_ms for part in parts),
        column(part.value for part in parts),
        record[order],
        column(part.position for part in parts),
        None
        if all(part.quality is None for part in parts)
        else column(np.zeros(len(part), np.int8) if part.quality is None else part.quality for part in parts),
        said,
    )


def positions(counts: Sequence[int]) -> NDArray[np.int64]:
    """0, 1, ... for each record that holds so many readings."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1]) - np.repeat(ends - counts, counts)


def times_ms(times: Sequence[Time]) -> NDArray[np.float64]:
    """Epoch milliseconds, NaN where it is no time."""
    if not isinstance(times[0], str):
        try:
            return np.frombuffer(array("d", cast("Sequence[float]", times)))  # refuses text
        except (TypeError, OverflowError):  # some are ISO stamps, or absent, or too large
            pass
    return _by_kind(times, _time_ms, np.float64)


def qualities(stated: Sequence[Stated]) -> NDArray[np.int8] | None:
    """vocabulary.Quality of each; None where nothing is stated of any."""
    return _by_kind(stated, quality_of, np.int8) if any(stated) else None


def _by_kind(said: Sequence[Any], meaning: Callable[[Any], float], dtype: type[Any]) -> NDArray[Any]:
    """The meaning of each; one that is said often, as a step's time or `good`, is asked for once."""
    known = {kind: meaning(kind) for kind in set(said)}
    return np.fromiter(map(known.__getitem__, said), dtype, len(said))


def _time_ms(time: Time) -> float:
    try:
        if not isinstance(time, str):
            return np.nan if time is None else float(time)
        moment = datetime.fromisoformat(time)
        return moment.timestamp() * 1000 if moment.tzinfo is not None else np.nan
    except (ValueError, OverflowError):
        return np.nan
