"""The same windows in Quix Streams: a tumbling window a step and group, the last value of each sensor, a ring of 96.

Without changelog topics, which is quicker and cannot be recovered. Fills no holes.
"""

from __future__ import annotations

import os
from typing import Any

from quixstreams import Application

from benchmarks.engines.rings import Rings

STEP_MS = int(os.environ["BENCH_STEP_MS"])


def begin(reading: dict[str, Any]) -> dict[str, Any]:
    """State of a step from its first reading."""
    return {"readings": 1, "values": {reading["sensor"]: reading["value"]}}


def take(step: dict[str, Any], reading: dict[str, Any]) -> dict[str, Any]:
    """State of a step after one more."""
    step["readings"] += 1
    step["values"][reading["sensor"]] = reading["value"]
    return step


def main() -> None:
    """Until the process ends."""
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
    rings = Rings(STEP_MS)

    def close(step: dict[str, Any], key: bytes, timestamp: int, headers: Any) -> dict[str, Any]:
        rings.put(key.decode(), step["start"], step["value"]["values"])
        return {"ts": step["start"], **step["value"]}

    frame = app.dataframe(source).tumbling_window(STEP_MS).reduce(take, begin).final(closing_strategy="partition")
    frame = frame.apply(close, metadata=True)
    frame = frame.set_headers(lambda step, key, ts, headers: [("readings", str(step["readings"]).encode())])
    frame.to_topic(sink)
    app.run()


if __name__ == "__main__":
    main()
