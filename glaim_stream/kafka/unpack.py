"""Unpacks the compressed body of a record batch, and stops before it exceeds a limit.

aiokafka's own functions unpack a body of any size, and need a further library for all codecs but gzip.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pyarrow as pa

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4  # bits 0 to 2 of a batch's attributes
_PIECE_BYTES = 1 << 20
_XERIAL = b"\x82SNAPPY\x00"  # then two versions of 4 bytes; blocks of a 4-byte length each follow
_XERIAL_HEADER_BYTES = 16


class UnpackError(Exception):
    """A body that its codec cannot unpack, or that exceeds the limit."""


def unpack(codec: int, body: memoryview, limit_bytes: int) -> Iterator[bytes]:
    """Yield the unpacked body in pieces of some 1 MiB; of a body above the limit, at most one piece more than that.

    Raises:
        UnpackError: the body is damaged, the codec is unknown, or the limit is exceeded.
    """
    codecs = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _arrow, ZSTD: _arrow}
    if codec not in codecs:
        raise UnpackError(f"codec {codec} is unknown")
    size = 0
    try:
        for piece in codecs[codec](codec, body, limit_bytes):
            size += len(piece)
            if size > limit_bytes:
                raise _above(limit_bytes)
            yield piece
    except (OSError, EOFError, ValueError, zlib.error, pa.ArrowException) as error:
        raise UnpackError(f"the {_NAMES[codec]} body is damaged: {error}") from error


_NAMES = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}


def _gzip(codec: int, body: memoryview, limit_bytes: int) -> Iterator[bytes]:
    rest = bytes(body)
    while rest:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            piece = member.decompress(rest, _PIECE_BYTES)
            rest = member.unconsumed_tail
            if piece:
                yield piece
            elif not member.eof:
                raise EOFError("it ends too early")
        rest = member.unused_data.lstrip(b"\0")


def _arrow(codec: int, body: memoryview, limit_bytes: int) -> Iterator[bytes]:
    with pa.input_stream(pa.py_buffer(body), compression=_NAMES[codec]) as stream:
        while piece := stream.read(_PIECE_BYTES):
            yield piece


def _snappy(codec: int, body: memoryview, limit_bytes: int) -> Iterator[bytes]:
    if bytes(body[: len(_XERIAL)]) != _XERIAL:
        yield _snappy_block(body, limit_bytes)
        return
    place = _XERIAL_HEADER_BYTES
    while place < len(body):
        end = place + 4 + int.from_bytes(body[place : place + 4], "big")
        if end > len(body):
            raise EOFError("it ends too early")
        yield _snappy_block(body[place + 4 : end], limit_bytes)
        place = end


def _snappy_block(block: memoryview, limit_bytes: int) -> bytes:
    """A block begins with its unpacked size, seven bits a byte."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > limit_bytes:
        raise _above(limit_bytes)
    # A copy of up to 64 bytes takes 3: a false size is refused before memory is allocated for it.
    if size > len(block) * 32:
        raise ValueError(f"{len(block)} bytes cannot come to {size}")
    unpacked: bytes = pa.Codec("snappy").decompress(bytes(block), decompressed_size=size, asbytes=True)
    return unpacked


def _above(limit_bytes: int) -> UnpackError:
    return UnpackError(f"it unpacks to more than the limit of {limit_bytes} bytes")
