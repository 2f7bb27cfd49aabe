"""The list of other workers' groups, with their coverage and number of faulty sensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glaim_stream.page.compact import compact
from glaim_stream.page.sources import Sources

_EVERY_S = 5.0


class OtherGroups:
    """The newest list, made every few seconds at most, and only when something has changed."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._due_s = 0.0
        self._made_of: tuple[int, ...] = ()
        self.newest: tuple[int, bytes] = (0, b"")  # version and event; replaced as a whole, so no lock is needed

    def make(self, names: Sequence[str], version: int, partitions: Sequence[int], now_s: float) -> None:
        """Make the list again if it is due.

        Args:
            names: names of this worker's groups, which the list omits.
            version: version of the names; changes with them.
            partitions: partitions of this worker.
            now_s: time on the page's clock.
        """
        elsewhere, faults = self._sources.elsewhere, self._sources.faults
        known = [each.version for each in (elsewhere, faults) if each is not None]
        made_of = (*known, version)
        if not known or made_of == self._made_of or now_s < self._due_s:
            return
        self._due_s = now_s + _EVERY_S
        faulty = {} if faults is None else faults.going_outside(set(partitions))
        groups: dict[str, list[Any]] = {
            name: [name, partition, None, count] for name, (partition, count) in faulty.items()
        }
        for name, other in [] if elsewhere is None else elsewhere.outside(set(partitions)):
            coverage = None if other.coverage is None else round(other.coverage, 3)
            groups[name] = [name, other.partition, coverage, faulty.get(name, (0, 0))[1]]
        found = [groups[name] for name in sorted(groups.keys() - set(names))]
        newer = self.newest[0] + 1
        self._made_of, self.newest = made_of, (newer, compact({"version": newer, "groups": found}))
