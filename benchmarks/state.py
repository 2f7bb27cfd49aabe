"""The cost of a thousand groups: the time to rebuild their windows from the topic, and their memory.

python -m benchmarks.state SERVERS    prints one JSON line; benchmarks.stream runs it on the engine's core
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import yaml
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from benchmarks.load import TopicLoad
from benchmarks.topics import FilledTopic, fill_topic
from glaim_stream.core.catalogue import Catalogue, parse_catalogue
from glaim_stream.core.settings import Settings
from glaim_stream.imputers import Ladder, LastValue
from glaim_stream.kafka import Commit
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import PartitionWindows
from glaim_stream.worker import KafkaRebuilder, Rebuild, quieten_garbage_collector

GROUPS = 1000
STEPS = 120  # a window of 96 and some earlier steps


def main(servers: str) -> None:
    """Fill a topic, commit like a worker, rebuild the windows and measure their memory."""
    load = TopicLoad(int(GROUPS * 11 * STEPS * 0.95), shape="step", groups=GROUPS)
    name = f"bench-state-{uuid.uuid4().hex[:8]}"
    filled = fill_topic(servers, name, load)
    quieten_garbage_collector()
    with tempfile.TemporaryDirectory(prefix="glaim-bench-") as directory:
        result = asyncio.run(measure(servers, name, load, filled, Path(directory)))
    print(json.dumps(result))


async def measure(servers: str, name: str, load: TopicLoad, filled: FilledTopic, directory: Path) -> dict[str, float]:
    """The recovery time of all partitions in seconds, and the memory of the windows in megabytes."""
    (directory / "groups.yaml").write_text(load.catalogue)
    settings = Settings(
        kafka=servers, input_topic=name, consumer_group=name, catalogue=directory / "groups.yaml", imputer="last_value"
    )
    catalogue = parse_catalogue(yaml.safe_load(load.catalogue), source="benchmark")
    ends = [len(counts) for counts in filled.through]
    rebuilder = KafkaRebuilder(settings, catalogue)
    await commit(settings, {number: Commit(end, 0) for number, end in enumerate(ends)})
    _, needed = await rebuilt(rebuilder, catalogue, name, ends)  # from the beginning, to find the needed offsets
    await commit(settings, {number: Commit(end, needed[number]) for number, end in enumerate(ends)})
    start_s = time.perf_counter()
    windows, _ = await rebuilt(rebuilder, catalogue, name, ends)
    took_s = time.perf_counter() - start_s
    assert sum(each.groups for each in windows) == load.groups
    full = resident_mb()
    windows.clear()
    return {"recovery_1000_groups_s": took_s, "mb_per_1000_groups": (full - resident_mb()) / load.groups * 1000}


async def rebuilt(
    rebuilder: KafkaRebuilder, catalogue: Catalogue, topic: str, ends: Sequence[int]
) -> tuple[list[PartitionWindows], list[int]]:
    """The windows of all partitions, rebuilt concurrently as in a worker, and the offsets that a rebuild needs."""
    pipeline = Pipeline(catalogue, {}, Ladder([LastValue()], batch=64, in_flight=8))
    making = [Rebuild(pipeline, lambda: time.time_ns() // 1_000_000, isolate=False) for _ in ends]
    await asyncio.gather(
        *(
            rebuilder.rebuild(topic, number, end, making[number].apply, making[number].recall)
            for number, end in enumerate(ends)
        )
    )
    windows = [each.restored().windows for each in making]
    return windows, [each.rebuild_from(end) for each, end in zip(windows, ends, strict=True)]


async def commit(settings: Settings, commits: dict[int, Commit]) -> None:
    """Commit like the worker, with the offset that a rebuild needs in the metadata."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.kafka, group_id=settings.consumer_group, enable_auto_commit=False
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(settings.input_topic, number) for number in commits])
        await consumer.commit(
            {
                TopicPartition(settings.input_topic, number): OffsetAndMetadata(each.offset, each.metadata)
                for number, each in commits.items()
            }
        )
    finally:
        await consumer.stop()


def resident_mb() -> float:
    """The resident memory of this process after free memory has been returned to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main(sys.argv[1])
