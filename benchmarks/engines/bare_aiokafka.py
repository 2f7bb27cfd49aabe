"""The bare driver below Faust: fetch, count, say how many; nothing is decoded. What a Python worker cannot exceed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.engines import Job, counted, job_environment


class BareAiokafka:
    """The loop below, as a process."""

    name = "aiokafka"
    missing = None

    def command(self, job: Job) -> list[str]:
        """See Engine."""
        return [sys.executable, "-m", "benchmarks.engines.bare_aiokafka"]

    def environment(self, job: Job) -> Mapping[str, str]:
        """See Engine."""
        return job_environment(job)

    def readings_after(self, job: Job, outputs: Sequence[Any]) -> list[int]:
        """See Engine."""
        return counted(outputs)


async def consume(environment: Mapping[str, str]) -> None:
    """Until the process ends."""
    servers = environment["BENCH_KAFKA"]
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
            await producer.send(environment["BENCH_OUTPUT"], b"", partition=partition.partition, headers=headers)


if __name__ == "__main__":
    asyncio.run(consume(os.environ))
