"""The StatusCodes of rows."""

import numpy as np
import pytest

from glaim_stream.core.vocabulary import Method, Status, severity
from glaim_stream.output.records import QUALITIES

# Names and numbers from the OPC Foundation's StatusCode.csv.
STANDARD = {
    "Good": 0x00000000,
    "Uncertain": 0x40000000,
    "BadNoCommunication": 0x80310000,
    "BadSensorFailure": 0x808C0000,
    "UncertainLastUsableValue": 0x40900000,
    "UncertainSubstituteValue": 0x40910000,
    "UncertainSensorNotAccurate": 0x40930000,
    "BadNoData": 0x809B0000,
    "BadDataUnavailable": 0x809E0000,
    "BadAggregateInvalidInputs": 0x80D60000,
}


def test_names_and_numbers_match_the_standard() -> None:
    assert {status.symbol: int(status) for status in Status} == STANDARD


def test_codes_of_methods_keep_their_meaning() -> None:
    """Rows in topics and files carry the codes; a new method gets a new one."""
    assert [method.name.lower() for method in sorted(Method)] == [
        "observed", "model", "blend", "interpolation", "last_value", "none", "gaussian",
    ]  # fmt: skip


@pytest.mark.parametrize("status", list(Status))
def test_the_severity_is_the_first_word_of_the_name(status: Status) -> None:
    code = severity(np.array([status], np.uint32))[0]
    assert status.symbol.lower().startswith(QUALITIES[code])
