"""Closes by the wall clock in a partition: the topic does not contain them, so a commit has to record them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

_MOST = 64  # entries per partition: their text stays far below the 4,096 bytes that a broker takes with a commit


@dataclass(frozen=True, slots=True)
class ClockClose:
    """The steps of `model` up to `through` were published when `offset` was the next record's offset."""

    offset: int
    model: str
    through: int


class ClockCloses:
    """The clock closes of a partition, oldest first, at most 64 of them.

    With more, the oldest are forgotten: a worker that rebuilds its windows then numbers the rows of those steps as if
    event time had closed them.
    """

    def __init__(self) -> None:
        self._closes: list[ClockClose] = []

    def add(self, offset: int, model: str, through: int | None) -> None:
        """Record a close; it replaces an earlier one of the same model at the same offset."""
        if through is None:
            return
        kept = [each for each in self._closes if (each.offset, each.model) != (offset, model)]
        self._closes = [*kept, ClockClose(offset, model, through)][-_MOST:]

    def needed(self, rebuild_from: int, ahead: Set[str]) -> tuple[ClockClose, ...]:
        """Return, and keep, the closes that a rebuild from this offset repeats.

        These are the closes since then, and the last one of each model in `ahead`, which has an open published step.
        """
        last = {each.model: each for each in self._closes if each.model in ahead}
        self._closes = [each for each in self._closes if each.offset > rebuild_from or last.get(each.model) is each]
        return tuple(self._closes)
