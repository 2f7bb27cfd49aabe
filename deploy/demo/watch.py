"""Reads the output and the dead letters while they are written, for the screen, the Arrow file and the scores."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from numpy.typing import NDArray

from glaim_stream.core.settings import Settings
from glaim_stream.decode import HEADER_PREFIX, positions_of
from glaim_stream.kafka import consumer_options
from glaim_stream.output import METHODS, read_rows

_POLL_MS = 200


@dataclass
class Seen:
    """The output so far. Only the watcher's thread writes to it."""

    tables: list[pa.Table] = field(default_factory=list)  # in order within each partition
    rows: int = 0
    filled: Counter[str] = field(default_factory=Counter)  # holes by the method of their first estimate
    dead_letters: int = 0
    newest_ms: dict[int, int] = field(default_factory=dict)  # newest step of each partition
    latency_ms: list[int] = field(default_factory=list)  # one entry per message
    latency_rows: list[int] = field(default_factory=list)  # number of rows of each message


class Watcher:
    """Follows the output, dead-letter and late topics from their beginning, in a separate thread."""

    def __init__(self, settings: Settings) -> None:
        self.seen = Seen()
        self._settings = settings
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._consumer = KafkaConsumer(**(consumer_options(settings) | {"max_poll_records": 500}))
        self._partitions = [
            TopicPartition(topic, number)
            for topic in (settings.output_topic, settings.dlq_topic, settings.late_topic)
            for number in sorted(self._consumer.partitions_for_topic(topic) or ())
        ]
        self._consumer.assign(self._partitions)
        self._consumer.seek_to_beginning()
        self._caught_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._consumer.close()

    def check(self) -> None:
        """Raise the exception that ended the thread, if there was one."""
        if self._failure is not None:
            raise self._failure

    def catch_up(self, timeout_s: float) -> bool:
        """Wait until all present records of the topics have been read; False on timeout."""
        self._caught_up.clear()
        return self._caught_up.wait(timeout_s)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                requested = not self._caught_up.is_set()
                ends = self._consumer.end_offsets(self._partitions) if requested else {}
                self._read()
                while ends and not self._stop.is_set():
                    if all(self._consumer.position(tp) >= end for tp, end in ends.items()):
                        self._caught_up.set()
                        break
                    self._read()
        except Exception as error:
            self._failure = error

    def _read(self) -> None:
        for tp, records in self._consumer.poll(_POLL_MS).items():
            for record in records:
                if tp.topic == self._settings.output_topic:
                    self._take(tp.partition, record.value, record.timestamp, record.headers)
                else:
                    self.seen.dead_letters += _readings(record.headers)

    def _take(self, partition: int, value: bytes, timestamp_ms: int, headers: list[tuple[str, bytes]]) -> None:
        seen = self.seen
        table = read_rows(value)
        seen.tables.append(table)
        seen.rows += table.num_rows
        first_estimate = table["revision"].to_numpy() == 0
        methods = _dictionary_codes(table["method"])[first_estimate]
        for code, count in zip(*np.unique(methods, return_counts=True), strict=True):
            name = METHODS[code]
            if name != "observed":
                seen.filled[name] += int(count)
        newest = int(table["ts"].cast(pa.int64()).to_numpy().max())
        seen.newest_ms[partition] = max(newest, seen.newest_ms.get(partition, newest))
        source_ms = next(int(text) for name, text in headers if name == HEADER_PREFIX + "input-timestamp-ms")
        seen.latency_ms.append(timestamp_ms - source_ms)
        seen.latency_rows.append(table.num_rows)


def _readings(headers: list[tuple[str, bytes]]) -> int:
    positions = positions_of(headers)
    return 1 if positions is None else len(positions)


def latency_percentiles(latency_ms: list[int], rows: list[int], levels: tuple[float, ...]) -> list[float]:
    """Percentiles of the latency of rows: each message is weighted by its number of rows. NaN without rows."""
    if not rows:
        return [float("nan")] * len(levels)
    order = np.argsort(latency_ms, kind="stable")
    ordered = np.asarray(latency_ms, np.float64)[order]
    share = np.cumsum(np.asarray(rows, np.float64)[order])
    places = np.searchsorted(share, np.asarray(levels) / 100 * share[-1])
    return [float(ordered[min(place, len(ordered) - 1)]) for place in places]


def _dictionary_codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """The codes of a dictionary column whose dictionary is METHODS."""
    chunks = [np.asarray(chunk.indices.to_numpy(zero_copy_only=False), np.int64) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, np.int64)
