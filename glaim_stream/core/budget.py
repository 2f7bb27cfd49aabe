"""Memory limits of records, groups and windows, checked before any memory is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

BATCHES_IN_FLIGHT = 4  # batches of one partition; more hide latency and use more memory


class OverBudget(ValueError):
    """A record that would take more memory than its budget; the message names both."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a partition: records and new groups beyond them are refused, and a larger batch is applied in parts.

    A JSON value of n bytes takes up to 25 n in memory, the worst case being an object of short names. An Arrow value
    takes what it decompresses to, up to some thousand times its bytes.
    """

    record_bytes: int = 32_000_000  # bytes of one Arrow value once decompressed
    record_json_bytes: int = 4_000_000  # bytes of one JSON value
    record_readings: int = 250_000  # readings of one record, in either format
    batch_bytes: int = 32_000_000  # bytes of the values that are decoded together, Arrow ones once decompressed
    batch_readings: int = 250_000  # readings of the Arrow records that are decoded together
    groups: int = 10_000  # groups with windows in one partition
    slice_bytes: int = 8_000_000  # bytes of windows and rows that are made before they are published; at least one step
    unpacked_bytes: int = 32 * 1024**2  # bytes of one unpacked batch of Kafka records, and of a poll's records

    @classmethod
    def of(cls, record_mb: int, groups: int) -> Self:
        """The limits that follow from the largest record.

        A JSON record may have an eighth of its bytes, since it takes up to 25 times as much while it is decoded. A
        record may have a reading per 128 bytes. A slice has a quarter of the bytes, since several wait at a time.

        Args:
            record_mb: megabytes of the largest Arrow record once decompressed.
            groups: number of groups with windows in one partition.
        """
        record_bytes = record_mb * 1_000_000
        readings = record_bytes // 128
        return cls(
            record_bytes=record_bytes,
            record_json_bytes=record_bytes // 8,
            record_readings=readings,
            batch_bytes=record_bytes,
            batch_readings=readings,
            groups=groups,
            slice_bytes=record_bytes // 4,
            unpacked_bytes=record_mb * 1024**2,
        )


DEFAULT = Budget()
