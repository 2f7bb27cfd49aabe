"""The Faust app: topics, the agent, and what happens when partitions come and go. No arithmetic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import faust
from faust.exceptions import NotReady
from faust.types import TP

from glaim_stream import metrics
from glaim_stream.catalogue import Catalogue, read_catalogue
from glaim_stream.errors import ContractError, ImputerError
from glaim_stream.imputers.breaker import State
from glaim_stream.imputers.ladder import Ladder
from glaim_stream.imputers.protocol import Rung
from glaim_stream.imputers.simple import Echo, Interpolation, LastValue
from glaim_stream.imputers.triton import TritonImputer
from glaim_stream.kafka.connection import faust_broker, faust_credentials
from glaim_stream.kafka.publish import KafkaPublisher
from glaim_stream.models.contract import CONTRACT_FILE, Contract, read_contract
from glaim_stream.models.versions import Contracts
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.settings import Settings
from glaim_stream.worker.health import Health
from glaim_stream.worker.health_watch import watch
from glaim_stream.worker.lag import watch_lag
from glaim_stream.worker.log_limit import LogLimit
from glaim_stream.worker.metric_series import create_series
from glaim_stream.worker.partition import PartitionWorker, Work
from glaim_stream.worker.rebuild import KafkaRebuilder
from glaim_stream.worker.transport import Batch, BatchSchema

log = logging.getLogger(__name__)

_MODEL_FREE: dict[str, Callable[[], Rung]] = {"interpolation": Interpolation, "last_value": LastValue, "echo": Echo}
_BUFFERED_BATCHES = 4  # Faust's buffer of the agent; an event is a whole batch here
_REQUEST_TIMEOUT_S = 40.0
_STAYS_IN_AN_INTERVAL = 10  # so often is the group told that a paused worker is there, before it would be given up
_ENVELOPE_BYTES = 2_000  # headers and framing of a message, which count towards the broker's limit


class WorkerApp(faust.App):
    """A Faust app without tables."""

    def _create_directories(self) -> None:
        """None: Faust makes them, by default below the working directory, for tables on disk."""


def create_app(settings: Settings, health: Health | None = None, catalogue: Catalogue | None = None) -> faust.App:
    """Build the worker.

    Args:
        settings: of the worker.
        health: is told what becomes of it; None: nobody asks.
        catalogue: of the settings, when it was read already.

    Raises:
        GlaimError: the settings, the catalogue or a contract cannot be used; nothing has been started.
    """
    health = health or Health()
    pipeline, ladder = create_pipeline(settings, catalogue)
    create_series(pipeline.catalogue, pipeline.contracts, [rung.name for rung in ladder.rungs], scored=pipeline.scored)
    app = WorkerApp(
        settings.consumer_group,
        broker=faust_broker(settings),
        broker_credentials=faust_credentials(settings),
        broker_commit_interval=settings.commit_interval_s,
        broker_max_poll_records=settings.poll_records,
        broker_request_timeout=max(_REQUEST_TIMEOUT_S, settings.session_timeout_s),
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.session_timeout_s / 10,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=settings.instance_id,
        consumer_max_fetch_size=8 * 1024**2,
        producer_acks=-1,
        producer_linger=settings.linger_ms / 1000,
        producer_max_request_size=settings.max_message_bytes,
        stream_buffer_maxsize=_BUFFERED_BATCHES,
        stream_wait_empty=True,
        store="memory://",
        topic_disable_leader=True,
        web_enabled=False,
    )
    topic = app.topic(settings.input_topic, schema=BatchSchema(), acks=True)
    publisher = KafkaPublisher(app, settings)
    rebuilder = KafkaRebuilder(settings, pipeline.catalogue)
    workers: dict[TP, PartitionWorker] = {}
    crashes: set[asyncio.Future[None]] = set()  # keeps them from being collected before they are done

    def crash(error: BaseException) -> None:
        health.crashed(error)
        crashes.add(asyncio.ensure_future(app.crash(error)))

    def worker_of(batch: Batch) -> PartitionWorker:
        tp = TP(batch.topic, batch.partition)
        if tp not in workers:
            workers[tp] = PartitionWorker(
                batch.topic,
                batch.partition,
                pipeline,
                publisher,
                rebuilder,
                batches_in_flight=settings.batches_in_flight,
                on_crash=crash,
            )
        return workers[tp]

    @app.agent(topic, name="glaim_stream.impute")  # type: ignore[untyped-decorator]
    async def impute(stream: Any) -> None:
        """Hand each batch to its partition's worker, which answers it when its output is acknowledged."""
        async for event in stream.noack().events():
            batch: Batch = event.value
            await worker_of(batch).submit(Work(batch.records, batch.delivery, event.ack))

    @app.on_partitions_assigned.connect(weak=False)  # type: ignore[untyped-decorator]
    async def assigned(app: faust.App, assigned: set[TP], **_: Any) -> None:
        for tp in [tp for tp in workers if tp not in assigned]:
            await workers.pop(tp).stop()
            metrics.groups.remove(str(tp.partition))
            metrics.watermark_lag_seconds.remove(str(tp.partition))
            metrics.newest_event_seconds.remove(str(tp.partition))
        for worker in workers.values():
            worker.check_position()

    @app.task  # type: ignore[untyped-decorator]
    async def started() -> None:
        # Faust leaves the root logger at DEBUG whatever level it is given, which costs 14 % of a saturated worker.
        root = logging.getLogger()
        root.setLevel(settings.log_level.upper())
        for handler in root.handlers:
            handler.addFilter(LogLimit())
        for rung in ladder.rungs:
            if isinstance(rung, TritonImputer):
                await _check_served(rung)

    @app.task  # type: ignore[untyped-decorator]
    async def stay_in_the_group() -> None:
        while not app.should_stop:
            await asyncio.sleep(app.conf.broker_max_poll_interval / _STAYS_IN_AN_INTERVAL)
            app.consumer.stay()

    watch(app, health, workers, ladder.rungs[0] if settings.needs_model else None, pipeline.contracts)

    @app.task  # type: ignore[untyped-decorator]
    async def lag() -> None:
        await watch_lag(settings, lambda: _answered(app))

    return app


def _answered(app: faust.App) -> dict[int, int | None]:
    """Of each partition that is assigned, the offset before which everything is answered."""
    try:
        assigned = app.consumer.assignment()
    except NotReady:  # it starts, or stops
        return {}
    ledgers = app.consumer.ledgers
    return {tp.partition: ledgers[tp].answered_to if tp in ledgers else None for tp in assigned}


def create_pipeline(settings: Settings, catalogue: Catalogue | None = None) -> tuple[Pipeline, Ladder]:
    """What the worker and a replay drive alike, and the ladder in it, which must be closed.

    Raises:
        GlaimError: the catalogue, a contract or a model cannot be used.
    """
    catalogue = catalogue or read_catalogue(settings.catalogue)
    contracts = _contracts(settings, catalogue)
    ladder = create_ladder(settings, contracts)
    largest = settings.max_message_bytes - _ENVELOPE_BYTES
    return Pipeline(
        catalogue,
        contracts,
        ladder,
        max_message_bytes=largest,
        score_share=settings.score_share if settings.scored else 0.0,
        score_least=settings.score_least,
        upgrades=settings.needs_model,
    ), ladder


def create_ladder(settings: Settings, contracts: Mapping[str, Contract]) -> Ladder:
    """The rungs that the settings ask for, and interpolation below them."""
    rungs: list[Rung] = []
    if settings.imputer == "triton":
        rungs.append(
            TritonImputer(
                settings.triton, contracts, deadline_s=settings.triton_deadline_s, fixed_batch=settings.fixed_batch
            )
        )
    if settings.imputer == "local" or (settings.imputer == "triton" and settings.fallback_local):
        from glaim_stream.imputers.local import LocalImputer  # torch is an extra

        rungs.append(LocalImputer(settings.model_repository, contracts, fixed_batch=settings.fixed_batch))
    rungs.append(Interpolation() if settings.needs_model else _MODEL_FREE[settings.imputer]())
    for rung in rungs:
        metrics.imputer_state.labels(rung.name).set(State.CLOSED)
    return Ladder(
        rungs,
        batch=settings.triton_batch,
        in_flight=settings.triton_in_flight,
        rest_s=settings.breaker_rest_s,
        on_failure=lambda rung: metrics.imputer_failures.labels(rung).inc(),
        on_state=_count_state,
    )


def _count_state(rung: str, state: State) -> None:
    metrics.imputer_state.labels(rung).set(state)
    if state is State.OPEN:
        metrics.imputer_openings.labels(rung).inc()
    elif state is State.HALF_OPEN:
        metrics.imputer_probes.labels(rung).inc()


def _contracts(settings: Settings, catalogue: Catalogue) -> Contracts:
    """Contracts of the catalogue's models; those of model-free imputers are used where they are there."""
    names = [model.name for model in catalogue.models]
    at_start = {
        name: read_contract(settings.model_repository / name)
        for name in names
        if settings.needs_model or (settings.model_repository / name / CONTRACT_FILE).exists()
    }
    return Contracts(at_start, settings.model_repository)


async def _check_served(rung: TritonImputer) -> None:
    try:
        await rung.check()
    except ContractError as error:
        log.error("%s: what does not fit is refused, and interpolation stands in", error)
    except ImputerError as error:
        log.warning("%s: interpolation stands in until it does", error)
