"""Reads the fields of one record by itself, and reports its damage."""

from __future__ import annotations

MAX_HEADERS = 10_000  # most in a record; each takes 100 bytes of memory, and a record may hold half a million in 1 MB


class Damaged(Exception):
    """Bytes that are no record."""


class RecordFields:
    """The fields of one record, as far as they can be read; `reason` names the damage."""

    def __init__(self, record: memoryview, *, base_offset: int, time_ms: int, from_time_ms: int | None) -> None:
        """Prepare.

        Args:
            record: bytes of the record after its length.
            base_offset: base offset of the batch.
            time_ms: time of a record whose own time cannot be read.
            from_time_ms: base of the record's relative time; None where the broker stamped the batch.
        """
        self._record, self._base_offset, self._from_time_ms = record, base_offset, from_time_ms
        self.offset = -1
        self.timestamp = time_ms
        self.key: bytes | None = None
        self.value: bytes | None = None
        self.has_value = False
        self.headers: list[tuple[str, bytes]] = []
        self.reason = ""

    def read(self) -> None:
        """Read all fields."""
        record = self._record
        try:
            delta, place = varint(record, 1)  # after the attributes, one byte
            if self._from_time_ms is not None:
                self.timestamp = max(-(2**63), min(self._from_time_ms + delta, 2**63 - 1))
            delta, place = varint(record, place)
            self.offset = self._base_offset + delta
            self.key, place = _text(record, place, "key")
            self.value, place = _text(record, place, "value")
            self.has_value = True
            count, place = varint(record, place)
            if not 0 <= count <= MAX_HEADERS:
                raise Damaged(f"{count} headers, where at most {MAX_HEADERS} are read")
            for number in range(count):
                name, place = _text(record, place, "header's name")
                if name is None:
                    raise Damaged(f"header {number} has no name")
                text, place = _text(record, place, "header's value")
                self._add(number, name, text)
            if place != len(record):
                raise Damaged(f"{len(record) - place} bytes follow the last header")
        except Damaged as error:
            self.reason = str(error)

    def _add(self, number: int, name: bytes, text: bytes | None) -> None:
        try:
            readable = name.decode()
        except UnicodeDecodeError:
            readable = name.decode(errors="backslashreplace")
            self.reason = self.reason or f"the name of header {number} is not UTF-8: {readable[:100]}"
        self.headers.append((readable, text))  # type: ignore[arg-type]  # aiokafka gives None, too


def _text(record: memoryview, place: int, name: str) -> tuple[bytes | None, int]:
    """(text, place after it); None for a length of -1."""
    length, place = varint(record, place)
    if length == -1:
        return None, place
    if length < 0 or place + length > len(record):
        raise Damaged(f"a {name} of {length} bytes, where {len(record) - place} are left")
    return bytes(record[place : place + length]), place + length


def varint(text: memoryview, place: int) -> tuple[int, int]:
    """(number, place after it): seven bits a byte, the lowest first, zigzag.

    Raises:
        Damaged: the number has more than 64 bits or is cut short.
    """
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(text):
            break
        byte = text[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), place
    raise Damaged("a number that is cut short or has more than 64 bits")
