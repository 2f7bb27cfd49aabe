"""Documents made to take long: each is answered within a second of the processor, as a reading or as a reject."""

import json
import time
from typing import Any

import pytest

from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from glaim_stream.decode.parsed import qualities, times_ms
from tests.support import Record, catalogue

MEGA = 1_000_000
NOW_MS = 1_700_000_000_000


def reading(**fields: Any) -> bytes:
    return json.dumps({"group": "g1", "sensor": "s0", "ts": NOW_MS, "value": 1.0} | fields).encode()


def readings(*items: bytes) -> bytes:
    return b'{"group": "g1", "readings": [' + b",".join(items) + b"]}"


DOCUMENTS = {
    "an open array, a million deep": b"[" * MEGA,
    "open objects, 200,000 deep": b'{"x":' * (MEGA // 5),
    "arrays beside NaN, half a million deep": b'{"a":NaN,"x":' + b"[" * (MEGA // 2) + b"]" * (MEGA // 2) + b"}",
    "a value of a million digits": reading().replace(b"1.0", b"9" * MEGA),
    "a fraction of a million digits": reading().replace(b"1.0", b"0." + b"9" * MEGA),
    "a time of a million digits": reading().replace(b"17", b"9" * MEGA),
    "a time of 4,299 digits": reading().replace(b"17", b"9" * 4288),
    "an unknown field of a million digits beside NaN": reading(value=float("nan")).replace(
        b"}", b',"x":%s}' % (b"9" * MEGA)
    ),
    "a sensor of a million characters": reading(sensor="x" * MEGA),
    "a group of a million characters": reading(group="x" * MEGA),
    "a time in text of a million digits": reading(ts="2024-01-01T00:00:00." + "1" * MEGA + "Z"),
    "a quality of a million digits": reading(quality="9" * MEGA),
    "a million lines": b"\n" * MEGA,
    "a million backslashes": b'"' + b"\\" * MEGA,
    "lone surrogates": reading(sensor="@").replace(b"@", b"\\ud800" * (MEGA // 6)),
    "90,000 unknown sensors in one step": json.dumps(
        {"group": "g1", "ts": NOW_MS, "values": {f"k{number}": 1 for number in range(90_000)}}
    ).encode(),
    "100 readings of a group of half a million characters": readings(*[b'{"sensor":"s0","ts":1}'] * 100).replace(
        b"g1", b"x" * (MEGA // 2)
    ),
    "25,000 times with the same hash beside one in text": readings(
        *(b'{"sensor":"s0","ts":%d}' % ((2**61 - 1) * number) for number in range(25_000)),
        b'{"sensor":"s0","ts":"2024-01-01T00:00:00Z"}',
    ),
}


@pytest.mark.usefixtures("collected_before")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_made_to_take_long_does_not(name: str) -> None:
    decoder = Decoder(GroupIndex(catalogue()))
    start_s = time.process_time()
    decoded, rejects = decoder.decode([Record(DOCUMENTS[name], 7, b"g1")], now_ms=NOW_MS)
    assert time.process_time() - start_s < 1
    assert len(decoded) + sum(reject.count for reject in rejects) > 0
    assert all(len(reject.detail) < 5_000 for reject in rejects)


class NeverAKey(int):
    """An integer that must not be put into a dictionary or a set."""

    def __hash__(self) -> int:
        raise AssertionError("a producer may choose integers with the same hash")


def test_no_integer_of_a_producer_is_a_key() -> None:
    assert times_ms([NeverAKey(7), "1970-01-01T00:00:00Z", None])[:2].tolist() == [7.0, 0.0]
    stated = qualities([NeverAKey(0), "good", NeverAKey(0x80000000)])
    assert stated is not None
    assert stated.tolist() == [0, 0, 2]
