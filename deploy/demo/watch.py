"""Reads the output and the dead letters while they are written: for the screen, for the Arrow file, for the scores."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from numpy.typing import NDArray

from glaim_stream.decode.dead_letters import HEADER_PREFIX, positions_of
from glaim_stream.kafka.connection import kafka_options
from glaim_stream.records import METHODS, read_rows
from glaim_stream.settings import Settings

_POLL_MS = 200


@dataclass
class Seen:
    """What has come out so far. Written by the watcher's thread alone."""

    tables: list[pa.Table] = field(default_factory=list)  # in the order of each partition
    rows: int = 0
    filled: Counter[str] = field(default_factory=Counter)  # holes by the method of their first estimate
    observed: int = 0
    dead_letters: int = 0
    newest_ms: dict[int, int] = field(default_factory=dict)  # newest step of each partition
    latency_ms: list[int] = field(default_factory=list)  # of each message
    latency_rows: list[int] = field(default_factory=list)  # rows of each message
    first_ms: int | None = None  # broker time of the first and the last message
    last_ms: int | None = None


class Watcher:
    """Follows these topics from their beginning, in a thread of its own."""

    def __init__(self, settings: Settings) -> None:
        self.seen = Seen()
        self._settings = settings
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._consumer = KafkaConsumer(**kafka_options(settings), enable_auto_commit=False, max_poll_records=500)
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
        """Raise what stopped the thread, if anything did."""
        if self._failure is not None:
            raise self._failure

    def catch_up(self, timeout_s: float) -> bool:
        """Wait until all that is on the topics now has been read."""
        self._caught_up.clear()
        return self._caught_up.wait(timeout_s)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                asked = not self._caught_up.is_set()
                ends = self._consumer.end_offsets(self._partitions) if asked else {}
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
                    self.seen.dead_letters += len(positions_of(record.headers) or {0})

    def _take(self, partition: int, value: bytes, timestamp_ms: int, headers: list[tuple[str, bytes]]) -> None:
        seen = self.seen
        table = read_rows(value)
        seen.tables.append(table)
        seen.rows += table.num_rows
        first_word = table["revision"].to_numpy() == 0
        methods = _dictionary_codes(table["method"])[first_word]
        for code, count in zip(*np.unique(methods, return_counts=True), strict=True):
            name = METHODS[code]
            if name == "observed":
                seen.observed += int(count)
            else:
                seen.filled[name] += int(count)
        newest = int(table["ts"].cast(pa.int64()).to_numpy().max())
        seen.newest_ms[partition] = max(newest, seen.newest_ms.get(partition, newest))
        source_ms = next(int(text) for name, text in headers if name == HEADER_PREFIX + "input-timestamp-ms")
        seen.latency_ms.append(timestamp_ms - source_ms)
        seen.latency_rows.append(table.num_rows)
        seen.first_ms = timestamp_ms if seen.first_ms is None else seen.first_ms
        seen.last_ms = timestamp_ms


def latency_percentiles(latency_ms: list[int], rows: list[int], levels: tuple[float, ...]) -> list[float]:
    """Percentiles of a row's latency: each message counts with its rows. NaN without a row."""
    if not rows:
        return [float("nan")] * len(levels)
    order = np.argsort(latency_ms, kind="stable")
    ordered = np.asarray(latency_ms, np.float64)[order]
    share = np.cumsum(np.asarray(rows, np.float64)[order])
    places = np.searchsorted(share, np.asarray(levels) / 100 * share[-1])
    return [float(ordered[min(place, len(ordered) - 1)]) for place in places]


def _dictionary_codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Codes into METHODS of a dictionary column that was written with exactly these names."""
    chunks = [np.asarray(chunk.indices.to_numpy(zero_copy_only=False), np.int64) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, np.int64)
