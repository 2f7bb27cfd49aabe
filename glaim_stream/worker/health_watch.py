"""Reports events of the Faust app to Health: the loop runs, partitions are assigned, models answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import faust
from faust.types import TP

from glaim_stream.core import metrics
from glaim_stream.core.contract import Contract
from glaim_stream.imputers import Rung, first_answers
from glaim_stream.worker.health import Health, PartitionState
from glaim_stream.worker.partition import PartitionWorker

log = logging.getLogger(__name__)

BEAT_S = 1.0  # a sixtieth of SILENCE_S, and no cost beside the batches
_POSITION_PATIENCE_S = 5.0


def watch(
    app: faust.App,
    health: Health,
    workers: Mapping[TP, PartitionWorker],
    first_rung: Rung | None,
    contracts: Mapping[str, Contract],
    take_up_quiet: Callable[[TP], Awaitable[bool]],
) -> None:
    """Hook into an app that has not started.

    Args:
        app: the worker's Faust app.
        health: receives the reports.
        workers: workers by partition; the mapping changes as partitions are assigned.
        first_rung: first rung of the ladder; None if it uses no model and so needs no first answer.
        contracts: contracts of the models whose first answers are required.
        take_up_quiet: starts the worker of a partition without new records if there is state to restore; returns
            False while that is not known.
    """
    assigned: frozenset[TP] = frozenset()
    idle: set[TP] = set()  # assigned partitions that hold nothing beyond the group's position

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
        finally:  # also when cancelled: the app is stopping
            health.ending()

    @app.task  # type: ignore[untyped-decorator]
    async def look_for_idle_partitions() -> None:
        while not app.should_stop:
            for tp in assigned - idle - workers.keys():
                if await _at_its_end(app.consumer, tp) and await take_up_quiet(tp):
                    idle.add(tp)
            await asyncio.sleep(BEAT_S)

    if first_rung is not None:
        rung = first_rung

        @app.task  # type: ignore[untyped-decorator]
        async def query_first_rung() -> None:
            await first_answers(rung, contracts, on_answer=health.answered, on_failure=health.not_answered)


def agent_works(agent: Any) -> bool:
    """Return whether an actor of a Faust agent runs; its supervisor restarts one that crashed."""
    supervisor = agent.supervisor
    actors = [] if supervisor is None else supervisor._services
    return any(actor.started and not actor.crashed and not actor.actor_task.done() for actor in actors)


def _state(worker: PartitionWorker | None, *, idle: bool) -> PartitionState:
    if worker is not None:
        return PartitionState.REBUILDING if worker.rebuilding else PartitionState.WHOLE
    return PartitionState.IDLE if idle else PartitionState.UNREAD


async def _at_its_end(consumer: Any, tp: TP) -> bool:
    """Return whether the broker has answered a fetch of a partition and holds nothing beyond the group's position.

    A partition without new records gives the worker no batch, so the worker never rebuilds its windows.
    """
    try:
        end = consumer.highwater(tp)
        if end is None or tp in consumer.ledgers:  # not fetched yet; or fetched, and its batch is in flight
            return False
        position = await asyncio.wait_for(consumer.position(tp), _POSITION_PATIENCE_S)
    except Exception as error:  # it is being reassigned, or Kafka is away: checked again later
        log.debug("%s-%d: its position is unknown: %r", tp.topic, tp.partition, error)
        return False
    return position is not None and position >= end
