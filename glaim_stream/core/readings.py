"""A record of the input, and readings as columns: the output of decoding and the input of the windows. Pure numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray


class InputRecord(Protocol):
    """The fields of a Kafka record that decoding uses; the records of aiokafka and kafka-python both fit."""

    @property
    def key(self) -> bytes | None:
        """The producer's key; the group of a record that names none."""
        ...

    @property
    def value(self) -> bytes | None:
        """The payload."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """The headers; `content-type` selects the format."""
        ...

    @property
    def offset(self) -> int:
        """Offset in the partition."""
        ...

    @property
    def timestamp(self) -> int:
        """Time of production, epoch milliseconds; negative if the record has none."""
        ...


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Readings:
    """Readings of one partition in order of arrival; every column has length n.

    A reported dropout (null, NaN, bad quality) has the value NaN and the quality bad: it advances the clock, but is not
    an observation.
    """

    model: NDArray[np.int32]  # index of the model in the catalogue
    group: NDArray[np.int32]  # the group's code (groups.GroupIndex)
    sensor: NDArray[np.int32]  # row of the sensor in the model
    event_time_ms: NDArray[np.int64]
    value: NDArray[np.float64]
    offset: NDArray[np.int64]  # offset of its record
    position: NDArray[np.int32]  # position of the reading inside its record
    quality: NDArray[np.int8]  # vocabulary.Quality; BAD exactly where the value is NaN
    produced_ms: NDArray[np.int64]  # production time of its record; wall time if the record has none
    requeued: NDArray[np.bool_]  # comes from a requeued dead letter, so that no row contains it yet

    def __len__(self) -> int:
        return len(self.offset)

    def group_codes(self) -> list[NDArray[np.int32]]:
        """Codes of their groups."""
        return [self.group]

    def where(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """The selected readings, by bool [n] or by index [k]."""
        return type(self)(*(getattr(self, column.name)[keep] for column in fields(self)))


def no_readings() -> Readings:
    """Columns of length 0."""
    ints = np.empty(0, np.int32)
    longs = np.empty(0, np.int64)
    flags = np.empty(0, np.bool_)
    return Readings(ints, ints, ints, longs, np.empty(0, np.float64), longs, ints, np.empty(0, np.int8), longs, flags)


def concatenated(parts: Sequence[Readings]) -> Readings:
    """The readings of several parts in their order."""
    if not parts:
        return no_readings()
    return Readings(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(Readings)))
