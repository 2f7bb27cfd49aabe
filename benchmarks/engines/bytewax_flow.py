"""The same windows in Bytewax: a tumbling window per step and group, the last value of each sensor, a ring of 96.

It runs without a recovery store, which is faster but loses the state in a crash. It fills no holes.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Protocol

import bytewax.operators as op
import bytewax.operators.windowing as win
import orjson
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.testing import cluster_main

from benchmarks.engines.rings import StepRings

STEP_MS = int(os.environ["BENCH_STEP_MS"])
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Reading = tuple[datetime, str, float]


class BytewaxMessage(Protocol):
    """The part of Bytewax's Kafka message that is used here."""

    value: bytes


def parse(message: BytewaxMessage) -> tuple[str, Reading]:
    """Key and reading of a message."""
    document = orjson.loads(message.value)
    return document["group"], (
        datetime.fromtimestamp(document["ts"] / 1000, UTC),
        document["sensor"],
        document["value"],
    )


def create_flow() -> Dataflow:
    """The dataflow from the input topic to the output topic."""
    brokers = [os.environ["BENCH_KAFKA"]]
    rings = StepRings(STEP_MS)

    def close(item: tuple[str, tuple[int, list[Reading]]]) -> KafkaSinkMessage[bytes, bytes]:
        group, (step, readings) = item
        values = {sensor: value for _, sensor, value in readings}
        rings.put(group, step * STEP_MS, values)
        value = orjson.dumps({"ts": step * STEP_MS, "values": values})
        return KafkaSinkMessage(group.encode(), value, headers=[("readings", str(len(readings)).encode())])

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
