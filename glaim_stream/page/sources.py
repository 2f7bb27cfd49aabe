"""The page's access to a running worker and its event loop.

Windows and scores change only in the event loop. So they are also read there, by a coroutine that the page's thread
waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from glaim_stream.blend import Expert
from glaim_stream.form import ClosedForm
from glaim_stream.imputers import ClosedFormImputer
from glaim_stream.page.cost import booked
from glaim_stream.page.elsewhere import Elsewhere
from glaim_stream.page.faults import FaultLog
from glaim_stream.page.overview import GroupStates, group_states
from glaim_stream.page.recent import RecentMessages
from glaim_stream.pipeline import PartitionEngine, Pipeline
from glaim_stream.windows import ROWS_AT_A_TIME, ModelWindows, Place

T = TypeVar("T")
PATIENCE_S = 10.0  # longest wait for a busy event loop


class LoopBusy(Exception):
    """The event loop did not answer in time, or has not started."""


@dataclass
class Sources:
    """The parts of a worker.

    engines: function that returns the engines by partition; called in the event loop.
    health: function that returns the document of `/health`; called from any thread.
    forms: imputer of the closed forms; None without one.
    elsewhere: groups of other workers; None if live accuracy is not published.
    faults: events of sensor health; None if it is not judged.
    """

    pipeline: Pipeline
    engines: Callable[[], Mapping[int, PartitionEngine]]
    recent: RecentMessages
    health: Callable[[], dict[str, Any]] = dict
    forms: ClosedFormImputer | None = None
    loop: asyncio.AbstractEventLoop | None = field(default=None, repr=False)
    elsewhere: Elsewhere | None = field(default=None, repr=False)
    faults: FaultLog | None = field(default=None, repr=False)

    def in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the event loop and wait for it; never call this from the loop itself.

        Raises:
            LoopBusy: the loop does not run, or is blocked.
        """
        loop = self.loop
        if loop is None or loop.is_closed() or not loop.is_running():
            coroutine.close()
            raise LoopBusy("the worker's event loop does not run")
        future = asyncio.run_coroutine_threadsafe(booked(coroutine), loop)
        try:
            return future.result(PATIENCE_S)
        except TimeoutError as error:
            future.cancel()
            raise LoopBusy(f"the worker's event loop did not answer for {PATIENCE_S:g} s") from error

    def form_of(self, model: str) -> ClosedForm | None:
        """The closed form of a model; None without one."""
        return None if self.forms is None else self.forms.form_of(model)

    async def states(self) -> list[GroupStates]:
        """The state of all groups, in parts; each part is one turn of the loop."""
        names, parts = self.pipeline.index.names, []
        for partition, engine in sorted(self.engines().items()):
            if engine.windows is None:
                continue
            for windows in engine.windows.models:
                first = 0
                while first < len(windows.rings.groups):
                    parts.append(group_states(windows, partition, names, first))
                    first += ROWS_AT_A_TIME
                    await asyncio.sleep(0)
        return parts

    def windows_of(self, group: str) -> tuple[int, PartitionEngine, ModelWindows, int] | None:
        """Partition, engine, windows and ring row of a group; None if this worker does not have it."""
        code = self.pipeline.index.known(group)
        if code is None:
            return None
        codes = np.array([code], np.int32)
        for partition, engine in self.engines().items():
            if engine.windows is None:
                continue
            for windows in engine.windows.models:
                if windows.rings.has_rows(codes)[0]:
                    return partition, engine, windows, int(windows.rings.rows(codes)[0])
        return None

    async def weights(self, partition: int, model: int) -> dict[str, Any] | None:
        """The experts' weights for each sensor's first estimates and final values, as means over gap ages."""
        engine = self.engines().get(partition)
        if engine is None or not self.pipeline.scored:
            return None
        table = engine.scores.models[model].table()  # [sensors, ages, places, experts]
        of = {"first": Place.EDGE, "final": Place.INTERIOR}
        return {
            "experts": [each.name.lower() for each in list(Expert)[: table.shape[3]]],
            **{name: table[:, :, place].mean(axis=1).round(4).tolist() for name, place in of.items()},
        }
