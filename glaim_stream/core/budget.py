"""How much records, groups and windows may take in memory, decided before any of it is allocated."""

from __future__ import annotations

from dataclasses import dataclass


class OverBudget(ValueError):
    """A record that would take more memory than its budget; the message names both."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a partition: records and new groups beyond them are refused, and a larger batch is applied in parts.

    A JSON value of n bytes takes up to 25 n in memory, the worst case being an object of short names. An Arrow value
    takes what it decompresses to, up to some thousand times its bytes.
    """

    record_bytes: int = 32_000_000  # of one Arrow value once decompressed
    record_json_bytes: int = 4_000_000  # of one JSON value
    record_readings: int = 250_000  # of one record, in either format
    batch_bytes: int = 32_000_000  # of the values that are decoded together, Arrow ones once decompressed
    batch_readings: int = 250_000  # of the Arrow records that are decoded together
    groups: int = 10_000  # with windows in one partition
    slice_bytes: int = 8_000_000  # of windows and rows that are made before they are published; at least one step


DEFAULT = Budget()
