"""Integers in JSON that a float of 64 bits cannot hold.

The decoder reads every number as the nearest float. That is exact for integers up to 2**53; only records with a value
beyond it are decoded a second time, to look at the digits.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import msgspec
import numpy as np

from glaim_stream.core.readings import InputRecord
from glaim_stream.decode.parsed import Parsed

LARGEST_EXACT = 2.0**53  # all integers up to it are floats
_INTEGER = re.compile(rb"-?[0-9]{16,309}")  # shorter ones are exact, longer ones no float
_NONE = msgspec.Raw(b"null")


class _RawItem(msgspec.Struct, gc=False):
    value: msgspec.Raw = _NONE


class _RawRecord(msgspec.Struct):
    """The values of a record in any of the three shapes, as they were written."""

    value: msgspec.Raw = _NONE
    values: dict[str, msgspec.Raw] | None = None
    readings: list[_RawItem] | None = None


_decoder = msgspec.json.Decoder(_RawRecord)


def with_inexact(parts: Sequence[Parsed], records: Sequence[InputRecord]) -> list[Parsed]:
    """The parts of JSON records, with `inexact` where a value was an integer that its float does not equal."""
    return [_with_inexact(part, records) for part in parts]


def _with_inexact(part: Parsed, records: Sequence[InputRecord]) -> Parsed:
    large = np.flatnonzero(np.abs(part.value) >= LARGEST_EXACT)
    if len(large) == 0:
        return part
    inexact = np.zeros(len(part), np.bool_)
    texts: dict[int, list[bytes]] = {}
    for row in large.tolist():
        place = int(part.record[row])
        if place not in texts:
            texts = {place: _value_texts(records[place].value or b"")}  # the rows of a record follow each other
        inexact[row] = not is_exact(texts[place][int(part.position[row])])
    return replace(part, inexact=inexact) if inexact.any() else part


def is_exact(text: bytes) -> bool:
    """Whether a JSON number is not an integer, or one that its float equals.

    Writers of floats print large ones with their shortest digits and zeros behind them (2**63 in JavaScript is
    9223372036854776000): these digits mean the float that was written.
    """
    text = text.strip()
    if not _INTEGER.fullmatch(text):
        return True
    integer, nearest = int(text), float(text)
    if math.isinf(nearest):  # outside every limit, and reported as that
        return True
    return int(nearest) == integer or int(Decimal(repr(nearest))) == integer


def _value_texts(value: bytes) -> list[bytes]:
    """The values of a record's readings as they were written, by position."""
    try:
        document = _decoder.decode(value)
    except msgspec.DecodeError:  # NaN and Infinity, see json_records
        return _texts_of_lenient(json.loads(value))
    if document.readings is not None:
        return [bytes(item.value) for item in document.readings]
    if document.values is not None:
        return [bytes(each) for each in document.values.values()]
    return [bytes(document.value)]


def _texts_of_lenient(document: dict[str, object]) -> list[bytes]:
    readings, values = document.get("readings"), document.get("values")
    if isinstance(readings, list):
        stated = [item.get("value") for item in readings]
    else:
        stated = list(values.values()) if isinstance(values, dict) else [document.get("value")]
    return [repr(each).encode() for each in stated]
