"""A record in memory, for benchmarks that run the pipeline without a broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LoadRecord:
    """The fields of a Kafka record that decoding uses; `timestamp` in epoch ms."""

    value: bytes
    offset: int
    timestamp: int
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
