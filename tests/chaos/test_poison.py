"""Unusable messages between good ones: each becomes a dead letter with its cause, and the good ones are processed."""

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.decode import ARROW_CONTENT_TYPE
from tests.chaos.conftest import MakeScenario
from tests.chaos.stream import START_MS, STEP_MS, Message, messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

Kafka = LocalKafka | ExternalKafka
Headers = list[tuple[str, bytes]]
ARROW: Headers = [("content-type", ARROW_CONTENT_TYPE)]
LARGE = 900_000  # bytes: the broker accepts the record, but it leaves no room for the headers of a dead letter


def reading(**fields: Any) -> bytes:
    return json.dumps({"group": "g1", "sensor": "s0", "ts": START_MS + 50 * STEP_MS, "value": 1.0} | fields).encode()


def arrow(columns: dict[str, list[Any]]) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


GOOD_ARROW = arrow({"group": ["g1"], "sensor": ["s0"], "ts": [START_MS + 50 * STEP_MS], "value": [1.0]})

# Value, headers, and whether the record must become a dead letter because nothing in it can be used.
POISON: dict[str, tuple[bytes | None, Headers, bool]] = {
    "bad JSON": (b'{"group": "g1", "sens', [], True),
    "an array": (b"[1, 2, 3]", [], True),
    "a number": (b"7", [], True),
    "zero length": (b"", [], True),
    "a tombstone (no value)": (None, [], True),
    "invalid UTF-8": (b'{"group": "g\xff\xfe", "sensor": "s0", "ts": 1, "value": 1}', [], True),
    "deep nesting": (b'{"group":' + b"[" * 200_000 + b"]" * 200_000 + b"}", [], True),
    "deep nesting in an unused field": (b'{"x":' + b'{"x":' * 50_000 + b"1" + b"}" * 50_001, [], True),
    "wrong types": (reading(group=7, sensor=[], value={}), [], True),
    "a textual value": (reading(value="high"), [], True),
    "a textual time": (reading(ts="yesterday"), [], True),
    "no time": (reading(ts=None), [], True),
    "a time beyond all calendars": (reading(ts=10**30), [], True),
    "a time before all calendars": (reading(ts=-(10**17)), [], True),
    "a time in the far future": (reading(ts=4_000_000_000_000), [], True),
    "an unknown group": (reading(group="unknown"), [], True),
    "an unknown sensor": (reading(sensor="s99"), [], True),
    "an empty name": (reading(group="", sensor=""), [], True),
    "NaN": (reading(value=float("nan")), [], False),
    "infinite": (reading(value=float("inf")), [], True),
    "1e999": (reading().replace(b"1.0", b"1e999"), [], True),
    "2**53 + 1, beyond float64": (reading(sensor="s1", value=2**53 + 1), [], True),
    "a whole number of 400 digits": (reading(sensor="s1").replace(b"1.0", b"9" * 400), [], True),
    "out of its limits": (reading(value=1000), [], True),
    "null": (reading(value=None), [], False),
    "all missing": (reading(sensor=None, value=None, values={"s0": None, "s1": None, "s2": None}), [], False),
    "no values": (b'{"group": "g1", "ts": 1700000000000, "values": {}}', [], True),
    "no readings": (b'{"group": "g1", "readings": []}', [], True),
    "not an Arrow stream": (b"not arrow", ARROW, True),
    "a truncated Arrow stream": (GOOD_ARROW[: len(GOOD_ARROW) // 2], ARROW, True),
    "a damaged Arrow stream": (GOOD_ARROW[:200] + bytes(range(100)) + GOOD_ARROW[300:], ARROW, True),
    "Arrow without columns": (arrow({}), ARROW, True),
    "Arrow with other columns": (arrow({"a": [1], "b": ["x"]}), ARROW, True),
    "Arrow with columns of other types": (
        arrow({"group": [1.5], "sensor": [True], "ts": ["x"], "value": [b"y"]}),
        ARROW,
        True,
    ),
    "Arrow without rows": (arrow({"group": [], "sensor": [], "ts": [], "value": []}), ARROW, True),
    "JSON labelled as Arrow": (reading(), ARROW, True),
    "Arrow labelled as JSON": (GOOD_ARROW, [], True),
    "another content type": (b"<reading/>", [("content-type", b"text/xml")], True),
    "an undecodable content type": (b"\x00\x01", [("content-type", b"\xff\xfe\xfd")], True),
    "headers as large as a record": (b"{", [("x", b"h" * LARGE), ("y", b"h" * (1_000_000 - LARGE - 300))], True),
    "a record of the largest size": (b"{" + b"x" * (1_000_000), [], True),
}


def test_unusable_messages_become_dead_letters_and_good_ones_are_processed(
    kafka: Kafka, scenario: MakeScenario
) -> None:
    run = scenario(kafka.bootstrap_servers, f"{len(POISON)} kinds of unusable messages, each sent twice")
    good = messages(steps=100, seed=14, bad=False)
    mixed: list[Message] = []
    poison = [(value, headers) for value, headers, _ in POISON.values()] * 2
    every = len(good) // (len(poison) + 1)
    for place, message in enumerate(good):
        mixed.append(message)
        if place % every == every - 1 and poison:
            value, headers = poison.pop()
            mixed.append((b"g1", value, headers))
    assert not poison
    run.worker()
    with run.streaming(mixed, rate_per_s=2000):
        run.wait(total=len(mixed))
    run.stop()
    assert run.count_in_logs("processing ended") == 0
    report = run.end(recompute=True)
    letters = Counter(letter["glaim-cause"].decode() for letter in run.dead_letters())
    assert letters["processing"] == 0, "no input may cause an internal error"
    expected = 2 * sum(rejected for _, _, rejected in POISON.values())
    assert sum(letters.values()) - letters["too-late"] == expected, letters
    assert report.lost == 0
