"""Tells a worker's Health what happens in its Faust app: the loop's beat, partitions that come, the first answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import faust
from faust.types import TP

from glaim_stream import metrics
from glaim_stream.imputers.first_answer import first_answers
from glaim_stream.imputers.protocol import Rung
from glaim_stream.models.contract import Contract
from glaim_stream.worker.health import Health, PartitionState
from glaim_stream.worker.partition import PartitionWorker

log = logging.getLogger(__name__)

BEAT_S = 1.0  # a sixtieth of the silence that is allowed, and nothing beside a batch a second
_POSITION_PATIENCE_S = 5.0


def watch(
    app: faust.App,
    health: Health,
    workers: Mapping[TP, PartitionWorker],
    first_rung: Rung | None,
    contracts: Mapping[str, Contract],
) -> None:
    """Hook into an app that has not started.

    Args:
        app: the worker's.
        health: is told.
        workers: of the partitions, as they are now.
        first_rung: of the ladder, None when it needs no first answer because it needs nothing.
        contracts: of the models that it has to answer for.
    """
    assigned: frozenset[TP] = frozenset()
    idle: set[TP] = set()  # assigned ones whose end the consumer has seen before their first record

    def states() -> dict[int, PartitionState]:
        return {tp.partition: _state(workers.get(tp), idle=tp in idle) for tp in assigned}

    health.watch(states)
    if first_rung is not None:
        health.await_answers(contracts, first_rung.name)

    @app.on_partitions_assigned.connect(weak=False)  # type: ignore[untyped-decorator]
    async def joined(app: faust.App, tps: set[TP], **_: Any) -> None:
        nonlocal assigned
        idle.intersection_update(tps & assigned)
        assigned = frozenset(tps)
        health.joined()

    @app.task  # type: ignore[untyped-decorator]
    async def beat() -> None:
        try:
            while not app.should_stop:
                pause_s = health.beat(agent_works=any(map(agent_works, app.agents.values())))
                metrics.loop_delay_seconds.observe(max(0.0, pause_s - BEAT_S))
                await asyncio.sleep(BEAT_S)
        finally:  # cancelled too: the app is told to end
            health.ending()

    @app.task  # type: ignore[untyped-decorator]
    async def look_for_idle_partitions() -> None:
        while not app.should_stop:
            for tp in assigned - idle - workers.keys():
                if await _at_its_end(app.consumer, tp):
                    idle.add(tp)
            await asyncio.sleep(BEAT_S)

    if first_rung is not None:
        rung = first_rung

        @app.task  # type: ignore[untyped-decorator]
        async def ask_first() -> None:
            await first_answers(rung, contracts, on_answer=health.answered, on_failure=health.not_answered)


def agent_works(agent: Any) -> bool:
    """Whether an actor of a Faust agent runs; its supervisor starts one again that fell over."""
    supervisor = agent.supervisor
    actors = [] if supervisor is None else supervisor._services
    return any(actor.started and not actor.crashed and not actor.actor_task.done() for actor in actors)


def _state(worker: PartitionWorker | None, *, idle: bool) -> PartitionState:
    if worker is not None:
        return PartitionState.REBUILDING if worker.rebuilding else PartitionState.WHOLE
    return PartitionState.IDLE if idle else PartitionState.UNREAD


async def _at_its_end(consumer: Any, tp: TP) -> bool:
    """Whether the broker has answered a fetch of a partition, and has nothing beyond the group's position.

    A partition that nobody writes to gives the worker no batch, and so it never rebuilds windows for it.
    """
    try:
        end = consumer.highwater(tp)
        if end is None or tp in consumer.ledgers:  # not fetched yet; or fetched, and its batch is under way
            return False
        position = await asyncio.wait_for(consumer.position(tp), _POSITION_PATIENCE_S)
    except Exception as error:  # it moves elsewhere this moment, or Kafka is away: looked at again
        log.debug("%s-%d: cannot tell its position: %r", tp.topic, tp.partition, error)
        return False
    return position is not None and position >= end
