"""Record batches that no client would send, through a real broker and the real worker.

Good records stand before, between and after the damaged ones; each of them gets its row, and each damaged one that the
broker takes is a dead letter.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.producer.sender import ProduceRequest

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.decode import ARROW_CONTENT_TYPE
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from glaim_stream.output import read_rows
from tests.integration.worker_process import WorkerProcess, call_command, small_settings, wait_until_committed
from tests.kafka.batches import GZIP, PACK, batch, fields, record, sized, varint

START_MS = 1_700_000_000_000 // 60_000 * 60_000
CATALOGUE = """
models:
  - {name: m, step_s: 60, window: 10, revise_after: 2, max_gap: 5, lateness_s: 30, idle_timeout_s: 100000,
     sensors: [{id: s0}]}
groups: [{model: m, pattern: "g*"}]
"""


def reading(minute: int) -> bytes:
    return json.dumps({"group": "g1", "sensor": "s0", "ts": START_MS + minute * 60_000, "value": minute}).encode()


def unknown_readings(count: int) -> bytes:
    """Some thousand bytes of Arrow."""
    table = pa.table(
        {
            "sensor": pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int8()), ["who"]),
            "ts": pa.array([START_MS] * count),
            "value": pa.nulls(count, pa.float64()),
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def damaged_batches() -> dict[str, bytes]:
    """Batches without a single good record; the broker refuses some of them."""
    found = {
        "a header's name that is not UTF-8": batch([record(0, b"x", headers=[(b"\xff", b"1")])]),
        "too many headers": batch([record(0, b"x", headers=[(b"", b"")] * 20_000)]),
        "a header without a value": batch([record(0, b"x", headers=[(b"content-type", None)])]),
        "an offset of another record": batch([record(5, b"x")]),
        "a negative offset": batch([record(-5, b"x")]),
        "a negative number of headers": batch([sized(fields(0, b"x", count=-1))]),
        "bytes after the headers": batch([sized(fields(0, b"x") + b"more")]),
        "a value beyond its record": batch([sized(b"\0" + varint(0) + varint(0) + varint(-1) + varint(99))]),
        "a record beyond its batch": batch([varint(99) + b"x"]),
        "more records than there are": batch([record(0, b"x")], count=3),
        "a time beyond all calendars": batch([record(0, b"x")], time_ms=2**62),
        "a time before all calendars": batch([record(0, b"x")], time_ms=-(2**62)),
    }
    for codec in (5, 6, 7):
        found[f"unknown codec {codec}"] = batch([record(0, b"x")], attributes=codec)
    bad_name = record(0, b"x", headers=[(b"\xff", b"1")])
    for name, (attributes, pack) in PACK.items():
        packed = pack(b"".join(record(place, b"v" * 99) for place in range(40)))
        found[f"{name} with a bad header"] = batch([bad_name], attributes=attributes, body=pack(bad_name))
        found[f"{name} cut short"] = batch([b""] * 40, attributes=attributes, body=packed[: len(packed) // 2])
        found[f"{name} that is none"] = batch([b""], attributes=attributes, body=b"rubbish" * 9)
    bomb = record(0, bytes(60_000_000))
    found["gzip of 60 MB"] = batch([bomb], attributes=GZIP, body=PACK["gzip"][1](bomb))
    found["zstd of 60 MB"] = batch([bomb], attributes=PACK["zstd"][0], body=PACK["zstd"][1](bomb))
    arrow = record(0, unknown_readings(240_000), key=b"g1", headers=[(b"content-type", ARROW_CONTENT_TYPE)])
    found["240,000 unknown readings"] = batch([arrow])
    return found


def fuzzed_batches(count: int, seed: int) -> list[bytes]:
    """Batches of records with some bytes changed, packed and not."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        body = bytearray(b"".join(record(place, b"x" * 9, key=b"k", headers=[(b"h", b"y")]) for place in range(3)))
        for _ in range(rng.randrange(1, 3)):
            body[rng.randrange(len(body))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        attributes, pack = rng.choice([(0, bytes), *PACK.values()])
        found.append(batch([b""] * 3, attributes=attributes, body=pack(bytes(body))))
    return found


async def produce(settings: Settings, batches: Sequence[bytes]) -> list[int | None]:
    """Send each batch in a request of its own; the first offset that each got, None where the broker refused it."""
    offsets: list[int | None] = []
    async with AIOKafkaProducer(bootstrap_servers=settings.kafka) as producer:
        await producer.client.fetch_all_metadata()
        topic = settings.input_topic
        await producer.client._wait_on_metadata(topic)
        node = producer.client.cluster.leader_for_partition(next(iter(producer_partitions(producer, topic))))
        for data in batches:
            request = ProduceRequest(None, -1, 10_000, [(topic, [(0, data)])])
            response = await producer.client.send(node, request)
            ((_, ((_, error, offset, *_),)),) = response.topics
            offsets.append(offset if error == 0 else None)
    return offsets


def producer_partitions(producer: AIOKafkaProducer, topic: str) -> list[object]:
    from aiokafka.structs import TopicPartition

    return [TopicPartition(topic, number) for number in producer.client.cluster.partitions_for_topic(topic) or ()]


@pytest.mark.slow  # quicker: tests/kafka/test_wire.py and tests/kafka/test_unreadable.py
def test_records_that_no_client_can_read_are_dead_letters_and_the_rest_flows(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    settings = small_settings(kafka.bootstrap_servers, topic_prefix, tmp_path, CATALOGUE)
    ensure_topics(settings)
    named = damaged_batches()
    bad = [*named.values(), *fuzzed_batches(60, seed=11)]
    packs = list(PACK.values())
    mixed: list[bytes] = []
    for minute, damaged in enumerate(bad):
        attributes, pack = packs[minute % len(packs)]  # producers that compress are read, whatever their codec
        good = record(0, reading(minute))
        mixed += [batch([good], attributes=attributes, body=pack(good)), damaged]
    mixed.append(batch([record(0, reading(len(bad)))]))
    offsets = asyncio.run(produce(settings, mixed))
    assert None not in offsets[::2]
    taken = dict(zip(named, offsets[1::2], strict=False))
    print({name: offset is not None for name, offset in taken.items()})
    assert taken["a header's name that is not UTF-8"] is not None
    end = (offsets[-1] or 0) + 1

    log = tmp_path / "worker.log"
    with WorkerProcess(settings, log) as worker:
        wait_until_committed(settings, total=end, deadline_s=120)
        assert worker.stop() == 0
    assert "internal error" not in log.read_text()

    rows = [read_rows(each.value) for each in read_topic(settings, settings.output_topic)[0]]
    observed = {
        (row["ts"].timestamp() * 1000 - START_MS) / 60_000: row["value"]
        for table in rows
        for row in table.to_pylist()
        if row["observed"]
    }
    assert observed == {minute: minute for minute in range(len(bad) - 1)}  # the last two steps are open

    letters = [dict(each.headers) for part in read_topic(settings, settings.dlq_topic).values() for each in part]
    covered = [
        offset
        for each in letters
        for offset in range(int(each.get("glaim-first-offset", each["glaim-offset"])), int(each["glaim-offset"]) + 1)
    ]
    good_offsets = set(offsets[::2])
    assert sorted(covered) == [offset for offset in range(end) if offset not in good_offsets]
    causes = {int(each["glaim-offset"]): each["glaim-cause"] for each in letters}
    assert causes[taken["a header's name that is not UTF-8"]] == b"unreadable"
    assert causes[taken["240,000 unknown readings"] or 0] == b"unknown-sensor"

    # The next owner reads the same records again for its windows, and so do all other readers.
    with WorkerProcess(settings, log) as worker:
        asyncio.run(produce(settings, [batch([record(0, reading(len(bad) + 1))])]))
        wait_until_committed(settings, total=end + 1, deadline_s=120)
        assert worker.stop() == 0
    assert "cannot rebuild" not in log.read_text()
    report = audit(settings)
    assert report.clean, report.problems
    causes_of_letters = Counter(each["glaim-cause"].decode() for each in letters)
    assert report.dead_letters == causes_of_letters | {"unknown-sensor": 240_000}
    shown = call_command(settings, "dlq", "list")
    assert (shown.returncode, "unreadable" in shown.stdout) == (0, True)
    asyncio.run(produce(settings.model_copy(update={"input_topic": settings.output_topic}), list(named.values())))
    followed = call_command(settings, "tail", "--from-beginning", "--timeout", "3", "--format", "jsonl")
    assert len(followed.stdout.splitlines()) >= sum(table.num_rows for table in rows)
    assert f"{settings.output_topic}-0 offset" in followed.stderr
