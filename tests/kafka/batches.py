"""Record batches as bytes, good ones and damaged ones, as a producer may send them."""

import gzip
import struct
from collections.abc import Callable, Sequence

import pyarrow as pa
from aiokafka.record.util import calc_crc32c, encode_varint

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
_FIELDS = struct.Struct(">qiibIhiqqqhii")


def varint(number: int) -> bytes:
    """A number as the format writes it."""
    out = bytearray()
    encode_varint(number, out.append)
    return bytes(out)


def sized(text: bytes | None) -> bytes:
    """A text after its length."""
    return varint(-1) if text is None else varint(len(text)) + text


def fields(
    place: int,
    value: bytes | None,
    *,
    key: bytes | None = None,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    count: int | None = None,
) -> bytes:
    """The fields of one record without its length; `count` of headers may be a lie."""
    named = b"".join(sized(name) + sized(text) for name, text in headers)
    number = varint(len(headers) if count is None else count)
    return b"\0" + varint(0) + varint(place) + sized(key) + sized(value) + number + named


def record(place: int, value: bytes | None, **more: object) -> bytes:
    """One record."""
    return sized(fields(place, value, **more))  # type: ignore[arg-type]


def batch(
    records: Sequence[bytes],
    *,
    attributes: int = 0,
    body: bytes | None = None,
    base_offset: int = 0,
    time_ms: int = 1_700_000_000_000,
    count: int | None = None,
) -> bytes:
    """A batch with a right checksum around records; `body` replaces their bytes, for instance by compressed ones."""
    number = len(records) if count is None else count
    data = b"".join(records) if body is None else body
    checked = struct.pack(">hiqqqhii", attributes, number - 1, time_ms, time_ms, -1, -1, -1, number) + data
    return struct.pack(">qiibI", base_offset, len(checked) + 9, -1, 2, calc_crc32c(checked)) + checked


def snappy_blocks(data: bytes) -> bytes:
    """Snappy as Java's producers write it."""
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for start in range(0, len(data), 32768):
        block = pa.Codec("snappy").compress(data[start : start + 32768], asbytes=True)
        out += struct.pack(">i", len(block)) + block
    return out


def framed(codec: str) -> Callable[[bytes], bytes]:
    """A compression in one piece."""

    def pack(data: bytes) -> bytes:
        packed: bytes = pa.Codec(codec).compress(data, asbytes=True)
        return packed

    return pack


PACK: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (GZIP, gzip.compress),
    "snappy": (SNAPPY, framed("snappy")),
    "snappy in blocks": (SNAPPY, snappy_blocks),
    "lz4": (LZ4, framed("lz4")),
    "zstd": (ZSTD, framed("zstd")),
}
