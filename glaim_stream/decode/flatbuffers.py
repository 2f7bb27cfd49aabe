"""The few lines of flatbuffers that reading the metadata of Arrow messages needs.

Source: https://flatbuffers.dev/internals. Every read is checked: a wrong offset raises ValueError.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

_INT32, _INT64 = struct.Struct("<i"), struct.Struct("<q")
_UINT16, _UINT32 = struct.Struct("<H"), struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Table:
    """A table at a place in a buffer."""

    buffer: bytes
    place: int

    @classmethod
    def root(cls, buffer: bytes) -> Self:
        """The buffer's root table."""
        return cls(buffer, read(_UINT32, buffer, 0))

    def place_of(self, field: int) -> int:
        """Place of a field's content, counted from 0 as the schema declares them; 0 if the field is absent."""
        vtable = self.place - read(_INT32, self.buffer, self.place)
        entry = 4 + 2 * field
        if entry >= read(_UINT16, self.buffer, vtable):
            return 0
        offset = read(_UINT16, self.buffer, vtable + entry)
        return self.place + offset if offset else 0

    def byte(self, field: int) -> int:
        """A field of one byte; 0 by default."""
        place = self.place_of(field)
        if place >= len(self.buffer):
            raise ValueError(f"expected a byte within {len(self.buffer)} bytes, found place {place}")
        return self.buffer[place] if place else 0

    def int64(self, field: int) -> int:
        """A field of 64 bits; 0 by default."""
        place = self.place_of(field)
        return read(_INT64, self.buffer, place) if place else 0

    def table(self, field: int) -> Self | None:
        """A field that is a table; None if it is absent."""
        place = self.place_of(field)
        return type(self)(self.buffer, place + read(_UINT32, self.buffer, place)) if place else None

    def int64_pairs(self, field: int) -> list[tuple[int, int]]:
        """A field that is a vector of structs of two 64-bit integers; empty by default."""
        place = self.place_of(field)
        if not place:
            return []
        start = place + read(_UINT32, self.buffer, place)
        count = read(_UINT32, self.buffer, start)
        content = self.buffer[start + 4 : start + 4 + 16 * count]
        if len(content) != 16 * count:
            raise ValueError(f"expected a vector of {count} structs, found {len(content)} bytes")
        numbers = struct.unpack(f"<{2 * count}q", content)
        return list(zip(numbers[::2], numbers[1::2], strict=True))


def read(number: struct.Struct, buffer: bytes, place: int) -> int:
    """An integer at a place.

    Raises:
        ValueError: the place lies outside of the buffer.
    """
    if not 0 <= place <= len(buffer) - number.size:
        raise ValueError(f"expected {number.size} bytes within {len(buffer)} bytes, found place {place}")
    found: int = number.unpack_from(buffer, place)[0]
    return found
