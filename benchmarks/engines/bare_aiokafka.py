"""The bare driver below Faust: fetches and counts records, the upper limit of a Python worker.

It decodes the last record of each batch alone, which tells the newest step that is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def consume(environment: Mapping[str, str]) -> None:
    """Consume until the process is killed."""
    servers, step_ms = environment["BENCH_KAFKA"], int(environment["BENCH_STEP_MS"])
    consumer = AIOKafkaConsumer(
        environment["BENCH_INPUT"],
        bootstrap_servers=servers,
        group_id=environment["BENCH_GROUP"],
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
        max_partition_fetch_bytes=8 * 1024**2,
    )
    producer = AIOKafkaProducer(bootstrap_servers=servers, linger_ms=5)
    await consumer.start()
    await producer.start()
    while True:
        for partition, records in (await consumer.getmany(timeout_ms=1000, max_records=20_000)).items():
            headers = [("readings", str(len(records)).encode())]
            closed = json.dumps({"ts": json.loads(records[-1].value)["ts"] - step_ms}).encode()
            await producer.send(environment["BENCH_OUTPUT"], closed, partition=partition.partition, headers=headers)


if __name__ == "__main__":
    asyncio.run(consume(os.environ))
