"""OPC UA StatusCodes of a row: which of them we say, and when. Pure numpy.

The two top bits are the severity, and the column `quality` is nothing else. A reader that knows OPC UA needs no table
of ours; the texts in quotes are the standard's own.

Source: OPC UA Part 4, 7.39 (severity), Part 8 (data access) and Part 11, with the numbers of the OPC Foundation's
StatusCode.csv. Ours differs in one word: the standard's substitute value is one that a person has entered, here it
is one that a method has computed. Nothing in the standard says that, and it is the code that systems show so.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

_SEVERITY_BITS = 30


class Status(IntEnum):
    """A row's status; the name is OPC UA's symbolic id in our spelling."""

    GOOD = 0x00000000  # observed
    UNCERTAIN = 0x40000000  # observed, and the reading itself said that it is uncertain
    UNCERTAIN_LAST_USABLE_VALUE = 0x40900000  # the last value: "whatever was updating this value has stopped doing so"
    UNCERTAIN_SUBSTITUTE_VALUE = 0x40910000  # made by the model, the blend or interpolation
    BAD = 0x80000000  # no more is known: rows of schema 1
    BAD_NO_COMMUNICATION = 0x80310000  # null: silent for longer than max_gap; "no last known value available"
    BAD_SENSOR_FAILURE = 0x808C0000  # null, and a reading said of this very step that it holds no value
    BAD_NO_DATA = 0x809B0000  # null: nothing of the sensor in the whole window; "no data exists for the time range"
    BAD_DATA_UNAVAILABLE = 0x809E0000  # null: no imputer had an answer; "temporary unavailability"
    BAD_AGGREGATE_INVALID_INPUTS = 0x80D60000  # null: the interval is wider than max_interval; "could not be derived"

    @property
    def symbol(self) -> str:
        """OPC UA's symbolic id, such as BadNoData."""
        return "".join(word.capitalize() for word in self.name.split("_"))


def severity(status: NDArray[np.uint32]) -> NDArray[np.int8]:
    """The severity of each status: 0 good, 1 uncertain, 2 bad (the standard reserves 3, which is bad too)."""
    codes: NDArray[np.int8] = np.minimum(status >> np.uint32(_SEVERITY_BITS), 2).astype(np.int8)
    return codes
