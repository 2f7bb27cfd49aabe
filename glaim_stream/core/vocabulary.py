"""The codes in a row: method, quality, status and revision. All packages use them; this module imports numpy alone.

The two top bits of a status are its severity, and a row's quality is that severity, so the two cannot contradict each
other. Quoted texts are the standard's own.

Source: OPC UA Part 4, 7.39 (severity), Part 8 (data access) and Part 11, with the numbers of the OPC Foundation's
StatusCode.csv. One meaning differs: the standard's substitute value is entered by a person, here it is computed by a
method. The standard has no code for a computed value, and existing systems display this one correctly.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

_SEVERITY_BITS = 30

# A revision names the event that made the row and does not count the rows before it. So revisions are a function of the
# topic, and a worker that rebuilt its windows assigns the same ones as its predecessor.
PROVISIONAL = 0  # the first estimate, made when the step closes
FINAL = 1  # made `revise_after` steps later, with observations on both sides of the hole
UPGRADED = 2  # a final row of a fallback, made again by the model, or by the first closed form
FIRST_CORRECTION = 3  # a late reading changed the cell; each further one adds 1

MAX_NAME_CHARS = 249  # Kafka's limit for its own names; a pattern must not admit a name that fills a message
GAP_AGES = (1, 4, 16, 48)  # steps; upper end of each class by which filled rows and their errors are counted
GAP_AGE_NAMES = ("1", "2-4", "5-16", "17-48", "over 48")


class Method(IntEnum):
    """The way in which a row's value was obtained."""

    OBSERVED = 0
    MODEL = 1
    BLEND = 2
    INTERPOLATION = 3
    LAST_VALUE = 4
    NONE = 5
    GAUSSIAN = 6  # the closed form: conditional mean of a Gaussian


class Quality(IntEnum):
    """The degree to which a value can be trusted."""

    GOOD = 0  # observed
    UNCERTAIN = 1  # imputed, or doubtful: reported so by its sensor, or apart from its window
    BAD = 2  # unknown


METHODS = [method.name.lower() for method in Method]
QUALITIES = [quality.name.lower() for quality in Quality]
DOUBTFUL = "doubtful"  # the method of a reading that stands apart and is kept, in files that `fill` wrote


class Status(IntEnum):
    """An OPC UA StatusCode; the name is its symbolic id in this project's spelling."""

    GOOD = 0x00000000  # observed
    UNCERTAIN = 0x40000000  # observed, and reported as uncertain by the reading itself
    UNCERTAIN_SENSOR_NOT_ACCURATE = 0x40930000  # observed, but apart from its window (health/plausibility.py)
    UNCERTAIN_LAST_USABLE_VALUE = 0x40900000  # last value: "whatever was updating this value has stopped doing so"
    UNCERTAIN_SUBSTITUTE_VALUE = 0x40910000  # made by the model, the blend, the closed form or interpolation
    BAD_NO_COMMUNICATION = 0x80310000  # null: silent for longer than max_gap; "no last known value available"
    BAD_SENSOR_FAILURE = 0x808C0000  # null, and a reading of this step reported that it holds no value
    BAD_NO_DATA = 0x809B0000  # null: the sensor is absent from the whole window; "no data exists for the time range"
    BAD_DATA_UNAVAILABLE = 0x809E0000  # null: no imputer answered; "temporary unavailability"
    BAD_AGGREGATE_INVALID_INPUTS = 0x80D60000  # null: the interval exceeds max_interval; "could not be derived"

    @property
    def symbol(self) -> str:
        """OPC UA's symbolic id, such as BadNoData."""
        return "".join(word.capitalize() for word in self.name.split("_"))


def severity(status: NDArray[np.uint32]) -> NDArray[np.int8]:
    """The severity of each status: 0 good, 1 uncertain, 2 bad (the standard reserves 3, which also means bad)."""
    codes: NDArray[np.int8] = np.minimum(status >> np.uint32(_SEVERITY_BITS), 2).astype(np.int8)
    return codes
