"""Plain names, OPC UA names and StatusCodes, mapped to one of three qualities."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.decode.parsed import quality_of
from glaim_stream.output.records import Quality


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, Quality.GOOD),
        ("", Quality.GOOD),
        ("good", Quality.GOOD),
        ("Good_LocalOverride", Quality.GOOD),
        ("GoodClamped", Quality.GOOD),
        (" UNCERTAIN ", Quality.UNCERTAIN),
        ("UncertainLastUsableValue", Quality.UNCERTAIN),
        ("Bad_SensorFailure", Quality.BAD),
        ("BadNoCommunication", Quality.BAD),
        ("bad", Quality.BAD),
        (0, Quality.GOOD),
        (0x00960000, Quality.GOOD),  # GoodLocalOverride
        (0x40900000, Quality.UNCERTAIN),  # UncertainLastUsableValue
        (0x808C0000, Quality.BAD),  # BadSensorFailure
        (0xC0000000, Quality.BAD),  # reserved, read as bad
        (0x808C0000 - 2**32, Quality.BAD),  # the same bits as int32
        (2156658688.0, Quality.BAD),
        ("2156658688", Quality.BAD),
        ("0x808C0000", Quality.BAD),
        ("1083179008", Quality.UNCERTAIN),
        ("nonsense", Quality.UNCERTAIN),
        ("0xnonsense", Quality.UNCERTAIN),
        (2**32, Quality.UNCERTAIN),
        (2**32 - 1, Quality.BAD),
        (2**31 - 1, Quality.UNCERTAIN),
        (-(2**31), Quality.BAD),
        (-(2**31) - 1, Quality.UNCERTAIN),
        (" " * 61 + "bad", Quality.BAD),
        (" " * 62 + "bad", Quality.UNCERTAIN),
        (" " * 64 + "bad", Quality.GOOD),
        ("0X808C0000", Quality.BAD),
        (1e300, Quality.UNCERTAIN),
        (float("nan"), Quality.UNCERTAIN),
    ],
)
def test_a_quality_is_mapped_to_one_of_three(text: str | float | None, expected: Quality) -> None:
    assert quality_of(text) is expected


@given(st.one_of(st.text(), st.integers(), st.floats(), st.text("0123456789xXbadgo_-+ ")))
def test_any_text_or_number_has_a_quality(text: str | float) -> None:
    assert quality_of(text) in Quality
