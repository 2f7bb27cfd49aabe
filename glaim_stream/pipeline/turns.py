"""When a query may be made: once all earlier blocks are settled, so that it is known for which sensors the model rests.

A worker that is far behind applies many blocks of steps (glaim_stream.blend.worth) before the imputer has answered for
the first. Queries that did not wait would call the model for nearly all of their windows. So the first query of a block
and all others of that block wait until everything applied before the block is settled. A slice of a batch ends with its
block (glaim_stream.windows.model), so a query seldom has steps of two; one that has does not wait and knows nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from glaim_stream.blend.worth import BLOCK
from glaim_stream.windows.closing import Closed
from glaim_stream.windows.probes import Probes

Blocks = Mapping[int, tuple[int, int]]  # first and last block of each model


@dataclass(frozen=True, slots=True)
class Turn:
    """The place of one query among those of its partition.

    Attributes:
        after: is set once everything before the query's block is settled; None: it does not wait.
        settled: to be set once the query's own answers are settled.
    """

    after: asyncio.Event | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class Turns:
    """The queries of one partition, in their order."""

    def __init__(self) -> None:
        """Start without queries."""
        self.restart()

    def restart(self) -> None:
        """Forget the earlier queries: other windows follow, whose scores do not have their errors."""
        self._newest: dict[int, int] = {}  # block of each model
        self._before: asyncio.Event | None = None  # these blocks: the last query
        self._last: asyncio.Event | None = None

    def next(self, blocks: Blocks) -> Turn:
        """Return the turn of the query that follows.

        Args:
            blocks: of its holes and probes.
        """
        if any(last > self._newest.get(model, last - 1) for model, (_, last) in blocks.items()):
            self._before = self._last
        whole = all(first == last for first, last in blocks.values())
        self._newest |= {model: last for model, (_, last) in blocks.items()}
        if not whole:
            self._newest.clear()  # the rest of its last block waits for it
        turn = Turn(self._before if whole else None)
        self._last = turn.settled
        return turn


def blocks_of(closed: Iterable[Closed], probes: Iterable[Probes], steps_ms: Sequence[int]) -> Blocks:
    """The blocks that holes and probes lie in, by model.

    Args:
        closed: rows, some of which are holes.
        probes: known values that are hidden.
        steps_ms: length of each model's step.
    """
    found: dict[int, tuple[int, int]] = {}
    for model, first, last in _ranges(closed, probes, steps_ms):
        known = found.get(model, (first, last))
        found[model] = min(known[0], first), max(known[1], last)
    return found


def _ranges(
    closed: Iterable[Closed], probes: Iterable[Probes], steps_ms: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    for rows in closed:
        _, step = rows.hole_steps(steps_ms[rows.model_index])
        if len(step):
            yield rows.model_index, int(step.min()) // BLOCK, int(step.max()) // BLOCK
    for each in probes:
        if len(each):
            yield each.model_index, int(each.step[0]) // BLOCK, int(each.step[-1]) // BLOCK
