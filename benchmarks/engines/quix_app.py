"""The same windows in Quix Streams: a tumbling window per step and group, the last value of each sensor, a ring of 96.

It runs without changelog topics, which is faster but makes the state unrecoverable. It fills no holes.
"""

from __future__ import annotations

import os
from typing import TypedDict

from quixstreams import Application

from benchmarks.engines.rings import StepRings

STEP_MS = int(os.environ["BENCH_STEP_MS"])


class QuixReading(TypedDict):
    """A decoded reading."""

    sensor: str
    ts: int
    value: float


class QuixStep(TypedDict):
    """The state of one step."""

    readings: int
    values: dict[str, float]


class ClosedWindow(TypedDict):
    """A closed window of Quix Streams."""

    start: int
    value: QuixStep


def begin(reading: QuixReading) -> QuixStep:
    """The state of a step after its first reading."""
    return {"readings": 1, "values": {reading["sensor"]: reading["value"]}}


def take(step: QuixStep, reading: QuixReading) -> QuixStep:
    """The state of a step after another reading."""
    step["readings"] += 1
    step["values"][reading["sensor"]] = reading["value"]
    return step


def main() -> None:
    """Run until the process is killed."""
    app = Application(
        os.environ["BENCH_KAFKA"],
        consumer_group=os.environ["BENCH_GROUP"],
        auto_offset_reset="earliest",
        commit_interval=0.5,
        state_dir=os.path.join(os.environ["BENCH_DIRECTORY"], os.environ["BENCH_GROUP"]),  # noqa: PTH118
        use_changelog_topics=False,
        loglevel="WARNING",
    )
    source = app.topic(
        os.environ["BENCH_INPUT"],
        value_deserializer="json",
        timestamp_extractor=lambda value, headers, timestamp, kind: value["ts"],
    )
    sink = app.topic(os.environ["BENCH_OUTPUT"], value_serializer="json")
    rings = StepRings(STEP_MS)

    def close(window: ClosedWindow, key: bytes, timestamp: int, headers: object) -> dict[str, object]:
        rings.put(key.decode(), window["start"], window["value"]["values"])
        return {"ts": window["start"], **window["value"]}

    frame = app.dataframe(source).tumbling_window(STEP_MS).reduce(take, begin).final(closing_strategy="partition")
    frame = frame.apply(close, metadata=True)
    frame = frame.set_headers(lambda step, key, ts, headers: [("readings", str(step["readings"]).encode())])
    frame.to_topic(sink)
    app.run()


if __name__ == "__main__":
    main()
