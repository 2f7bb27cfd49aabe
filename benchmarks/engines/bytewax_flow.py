"""The same windows in Bytewax: a tumbling window a step and group, the last value of each sensor, a ring of 96.

Without recovery, which is quicker and starts again from nothing. Fills no holes.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
import orjson
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.testing import cluster_main

from benchmarks.engines.rings import Rings

STEP_MS = int(os.environ["BENCH_STEP_MS"])
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Reading = tuple[datetime, str, float]


def parse(message: Any) -> tuple[str, Reading]:
    """Key and reading of a message."""
    said = orjson.loads(message.value)
    return said["group"], (datetime.fromtimestamp(said["ts"] / 1000, UTC), said["sensor"], said["value"])


def create_flow() -> Dataflow:
    """From the one topic to the other."""
    brokers = [os.environ["BENCH_KAFKA"]]
    rings = Rings(STEP_MS)

    def close(item: tuple[str, tuple[int, list[Reading]]]) -> KafkaSinkMessage[bytes, bytes]:
        group, (step, readings) = item
        values = {sensor: value for _, sensor, value in readings}
        rings.put(group, step * STEP_MS, values)
        said = orjson.dumps({"ts": step * STEP_MS, "values": values})
        return KafkaSinkMessage(group.encode(), said, headers=[("readings", str(len(readings)).encode())])

    flow = Dataflow("steps")
    source = KafkaSource(brokers, [os.environ["BENCH_INPUT"]], batch_size=10_000)
    readings = op.map("parse", op.input("in", flow, source), parse)
    clock = win.EventClock(lambda reading: reading[0], wait_for_system_duration=timedelta(0))
    windower = win.TumblingWindower(timedelta(milliseconds=STEP_MS), EPOCH)
    steps = win.collect_window("step", readings, clock, windower, ordered=False)
    op.output("out", op.map("close", steps.down, close), KafkaSink(brokers, os.environ["BENCH_OUTPUT"]))
    return flow


if __name__ == "__main__":
    cluster_main(create_flow(), [], 0)
