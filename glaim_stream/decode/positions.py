"""The positions of rejected readings in their record, as header text of bounded size.

A record of a thousand bytes may hold a million readings, and the broker refuses a letter whose headers list them all.
There are three forms; a letter has the first that fits:

- `positions`: a JSON list, up to 100 of them;
- `ranges`: comma-separated `7`, `0-4` and `3-993/11` (every eleventh from 3 to 993);
- `bitmap`: `first:base64`, one bit per position from `first` on, most significant bit first; in several letters where
  one bitmap does not hold all positions.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]

MAX_LISTED = 100
MAX_TEXT_BYTES = 6_000  # with its other headers a letter stays below 10,000, the least max_message_bytes
MAX_POSITION = 1 << 24  # readings of one record: far above what fits into one
_BITS = MAX_TEXT_BYTES // 4 * 3 * 8 - 80  # base64 takes 4 bytes for 3; `first:` takes up to 9
_RANGE = re.compile(r"(\d{1,8})(?:-(\d{1,8})(?:/(\d{1,8}))?)?")


def encode_positions(positions: Positions) -> Iterator[tuple[Positions, str, str]]:
    """Encode distinct ascending positions.

    Yields:
        For each letter: its positions, the name of the form, and the text of at most MAX_TEXT_BYTES.
    """
    if len(positions) <= MAX_LISTED:
        yield positions, "positions", json.dumps(positions.tolist())
        return
    text = _ranges(positions)
    if text is not None:
        yield positions, "ranges", text
        return
    start = 0
    while start < len(positions):
        first = int(positions[start])
        stop = int(np.searchsorted(positions, first + _BITS))
        part = positions[start:stop]
        bits = np.zeros(int(part[-1]) - first + 1, np.bool_)
        bits[part - first] = True
        yield part, "bitmap", f"{first}:{base64.b64encode(np.packbits(bits).tobytes()).decode()}"
        start = stop


def decode_positions(texts: Mapping[str, bytes]) -> Positions | None:
    """Positions that one of the forms in `texts` lists, ascending; None without any form.

    Raises:
        ValueError: the text is in no such form, or a position is not in [0, MAX_POSITION).
    """
    if "positions" in texts:
        listed = json.loads(texts["positions"])
        if not isinstance(listed, list) or not all(isinstance(each, int) for each in listed):
            raise ValueError("expected a JSON list of positions")
        return _checked(listed)
    if "ranges" in texts:
        return _from_ranges(texts["ranges"].decode())
    if "bitmap" in texts:
        first, _, bits = texts["bitmap"].decode().partition(":")
        packed = np.frombuffer(base64.b64decode(bits, validate=True), np.uint8)
        return _checked((int(first[:9]) + np.flatnonzero(np.unpackbits(packed))).tolist())
    return None


def _checked(positions: list[int]) -> Positions:
    if positions and not (min(positions) >= 0 and max(positions) < MAX_POSITION):
        raise ValueError(f"expected positions from 0 to {MAX_POSITION - 1}")
    return np.unique(np.array(positions, np.int64))


def shown(positions: Sequence[int]) -> str:
    """The positions as text for people: a list, or for more than MAX_LISTED ranges, cut after some of them."""
    if len(positions) <= MAX_LISTED:
        return ", ".join(map(str, positions))
    pieces = list(islice(_pieces(np.array(positions, np.int64)), MAX_LISTED + 1))
    return ", ".join(pieces[:MAX_LISTED]) + (" and more" if len(pieces) > MAX_LISTED else "")


def _ranges(positions: Positions) -> str | None:
    """The second form; None if it is too long."""
    pieces: list[str] = []
    size = -1
    for piece in _pieces(positions):
        pieces.append(piece)
        size += 1 + len(piece)
        if size > MAX_TEXT_BYTES:
            return None
    return ",".join(pieces)


def _pieces(positions: Positions) -> Iterator[str]:
    """Single positions, and runs of equal distance."""
    distance = np.diff(positions)
    ends = np.flatnonzero(np.append(np.diff(distance) != 0, len(distance) > 0)) + 1  # last position of each run
    start = 0
    for end in ends.tolist():
        step = int(distance[start]) if start < end else 0
        if end - start >= 2 or step == 1:
            yield f"{positions[start]}-{positions[end]}" + (f"/{step}" if step > 1 else "")
            start = end + 1
        else:
            yield from map(str, positions[start:end].tolist())
            start = max(start, end)
    yield from map(str, positions[start:].tolist())


def _from_ranges(text: str) -> Positions:
    parts: list[Positions] = []
    for piece in text.split(","):
        found = _RANGE.fullmatch(piece)
        if found is None:
            raise ValueError(f"expected ranges of positions, found {piece[:40]!r}")
        first = int(found[1])
        last, step = int(found[2] or first), int(found[3] or 1)
        if not (first <= last < MAX_POSITION and step):
            raise ValueError(f"expected positions from 0 to {MAX_POSITION - 1}, found {piece!r}")
        parts.append(np.arange(first, last + 1, step, dtype=np.int64))
        if sum(map(len, parts)) > MAX_POSITION:
            raise ValueError(f"expected at most {MAX_POSITION} positions")
    return np.unique(np.concatenate(parts))
