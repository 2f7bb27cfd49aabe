"""The page's access to a running worker and its event loop.

Windows change only in the event loop. So they are also read there, by a coroutine that the page's thread waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from glaim_stream.page.recent import RecentMessages
from glaim_stream.pipeline import PartitionEngine, Pipeline
from glaim_stream.windows import ROWS_AT_A_TIME, ModelWindows, states_of

T = TypeVar("T")
PATIENCE_S = 10.0  # longest wait for a busy event loop
UNKNOWN_S = 2**32 - 1


class LoopBusy(Exception):
    """The event loop did not answer in time, or has not started."""


@dataclass(frozen=True, slots=True)
class GroupStates:
    """n groups in one partition.

    missing: percent of the cells of the newest steps without a reading.
    behind_s: seconds from the group's newest observed step to the partition's newest closed one.
    faulty: number of sensors that are faulty, up to 255; 0 where their health is not judged.
    """

    partition: int
    names: list[str]
    state: NDArray[np.uint8]
    missing: NDArray[np.uint8]
    behind_s: NDArray[np.uint32]
    faulty: NDArray[np.uint8]


@dataclass
class Sources:
    """The parts of a worker.

    engines: function that returns the engines by partition; called in the event loop.
    health: function that returns the document of `/health`; called from any thread.
    """

    pipeline: Pipeline
    engines: Callable[[], Mapping[int, PartitionEngine]]
    recent: RecentMessages
    health: Callable[[], dict[str, Any]] = dict
    loop: asyncio.AbstractEventLoop | None = field(default=None, repr=False)

    def in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the event loop and wait for it; never call this from the loop itself.

        Raises:
            LoopBusy: the loop does not run, or is blocked.
        """
        loop = self.loop
        if loop is None or loop.is_closed() or not loop.is_running():
            coroutine.close()
            raise LoopBusy("the worker's event loop does not run")
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result(PATIENCE_S)
        except TimeoutError as error:
            future.cancel()
            raise LoopBusy(f"the worker's event loop did not answer for {PATIENCE_S:g} s") from error

    async def states(self) -> list[GroupStates]:
        """The state of all groups, in parts of ROWS_AT_A_TIME; each part is one turn of the loop."""
        names, parts = self.pipeline.index.names, []
        for partition, engine in sorted(self.engines().items()):
            if engine.windows is None:
                continue
            for windows in engine.windows.models:
                first = 0
                while first < len(windows.rings.groups):
                    parts.append(_states(windows, partition, names, first))
                    first += ROWS_AT_A_TIME
                    await asyncio.sleep(0)
        return parts

    def windows_of(self, group: str) -> tuple[int, ModelWindows, int] | None:
        """Partition, windows and ring row of a group; None if this worker does not have it."""
        code = self.pipeline.index.known(group)
        if code is None:
            return None
        codes = np.array([code], np.int32)
        for partition, engine in self.engines().items():
            if engine.windows is None:
                continue
            for windows in engine.windows.models:
                if windows.rings.has_rows(codes)[0]:
                    return partition, windows, int(windows.rings.rows(codes)[0])
        return None


def _states(windows: ModelWindows, partition: int, names: Sequence[str], first: int) -> GroupStates:
    """Read up to ROWS_AT_A_TIME groups, from the ring row `first`; `names` has the groups' names by code."""
    codes = windows.rings.groups[first : first + ROWS_AT_A_TIME]
    rows = slice(first, first + len(codes))
    found = states_of(windows, rows)
    passed_s = found.silent_steps * windows.model.step_ms // 1000
    behind_s = np.where(found.silent_steps >= 0, passed_s, UNKNOWN_S).astype(np.uint32)
    percent = np.ceil(100 * found.missing).astype(np.uint8)
    own = [names[code] for code in codes]
    faulty = np.zeros(len(codes), np.uint8)
    health = windows.health
    if windows.rings.closable is not None and health is not None and health.judges:
        faulty = np.minimum(health.faulty_rows(rows).sum(axis=1), 255).astype(np.uint8)
    return GroupStates(partition, own, found.state, percent, behind_s, faulty)
