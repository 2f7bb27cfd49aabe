"""The quality that a reading states: names, OPC UA symbolic names and OPC UA StatusCodes, as good, uncertain or bad."""

from __future__ import annotations

from glaim_stream.core.vocabulary import Quality

_SEVERITY = (Quality.GOOD, Quality.UNCERTAIN, Quality.BAD, Quality.BAD)  # indexed by the two top bits of a StatusCode
_PREFIXES = (("good", Quality.GOOD), ("uncertain", Quality.UNCERTAIN), ("bad", Quality.BAD))
_MAX_CHARS = 64  # the longest symbolic name has about 50; of a longer text only the beginning counts


def quality_of(given: str | float | None) -> Quality:
    """The vocabulary.Quality of an input record's `quality`.

    Args:
        given: a name that begins with good, uncertain or bad in any case (`Bad_SensorFailure`,
            `UncertainLastUsableValue`), or a StatusCode as a number or as its digits, decimal or `0x` hexadecimal.

    Returns:
        GOOD if nothing is stated. UNCERTAIN if the text or number has no known meaning: the value is used, and its row
        is marked uncertain.

    Source: OPC UA Part 4, 7.39: the severity of a StatusCode is its bits 31 and 30; 00 good, 01 uncertain, 10 bad.
    """
    if given is None:
        return Quality.GOOD
    return _of_text(given[:_MAX_CHARS]) if isinstance(given, str) else _of_code(given)


def _of_text(text: str) -> Quality:
    text = text.strip().lower()
    for prefix, quality in _PREFIXES:
        if text.startswith(prefix):
            return quality
    try:
        return _of_code(int(text, 16 if text.startswith("0x") else 10))
    except ValueError:
        return Quality.UNCERTAIN if text else Quality.GOOD


def _of_code(code: float) -> Quality:
    # A StatusCode is a uint32; encoders without unsigned integers write it as an int32, which has the same bits.
    return _SEVERITY[(int(code) >> 30) & 3] if -(2**31) <= code < 2**32 else Quality.UNCERTAIN
