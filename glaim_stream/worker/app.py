"""The Faust app: topics, the agent, and the handling of assigned and revoked partitions. No arithmetic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import faust
from aiokafka import AIOKafkaProducer
from faust.exceptions import NotReady
from faust.types import TP

from glaim_stream.build import ServedRung, create_pipeline
from glaim_stream.core import metrics
from glaim_stream.core.budget import BATCHES_IN_FLIGHT
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.errors import ContractError, ImputerError
from glaim_stream.core.settings import Settings
from glaim_stream.core.tls import KAFKA, METRICS, TRITON, WatchedTls, watched_tls
from glaim_stream.imputers import State
from glaim_stream.kafka import (
    LINGER_MS,
    KafkaPublisher,
    OwnLoop,
    TransactionalPublisher,
    commit_interval_s,
    end_open_transactions,
    extra_options,
    quality_records,
    read_every_record,
    topic_identity,
)
from glaim_stream.output import Output
from glaim_stream.output.quality import KeptKeys
from glaim_stream.page import Page
from glaim_stream.worker.batches import Batch, BatchSchema
from glaim_stream.worker.faust_connection import faust_broker, faust_credentials, faust_send, group_options
from glaim_stream.worker.health import Health
from glaim_stream.worker.health_watch import watch
from glaim_stream.worker.holds import watch_holds
from glaim_stream.worker.lag import watch_lag
from glaim_stream.worker.live_learning import learn_live
from glaim_stream.worker.lost_offsets import LostOffsets
from glaim_stream.worker.metric_series import create_series
from glaim_stream.worker.outlet import AtLeastOnce, ExactlyOnce, Outlet
from glaim_stream.worker.partition import PartitionWorker
from glaim_stream.worker.quality_keys import QualityKeys
from glaim_stream.worker.rebuild import KafkaRebuilder
from glaim_stream.worker.transport import Consumer
from glaim_stream.worker.unusable import UnusableShare, watch_unusable

log = logging.getLogger(__name__)

_BUFFERED_BATCHES = 4  # events in the agent's buffer; here an event is a whole batch
VERSION_CHECK_INTERVAL_S = 10.0  # one small call for each model, and one inference for each version out of service
_COMMIT_PATIENCE_S = 5.0  # batches of the partition wait meanwhile
_STAYS_PER_POLL_INTERVAL = 10  # reports of a paused worker to its group in the time after which it would be given up


class WorkerApp(faust.App):
    """A Faust app without tables, whose clients take the user's options.

    Attributes:
        consumer_options: keyword arguments of the consumer in the group.
        producer_extra: the user's options for the producer, beside Faust's own.
        identify: returns the identity of the input topic, see `topic_identity`; called in a thread.
    """

    consumer_options: Mapping[str, Any]
    producer_extra: Mapping[str, Any]
    identify: Callable[[], str | None]

    def _create_directories(self) -> None:
        """Create nothing: Faust's directories, by default below the working directory, are for tables on disk."""


def create_app(
    settings: Settings, health: Health | None = None, catalogue: Catalogue | None = None, page: Page | None = None
) -> faust.App:
    """Build the worker.

    Args:
        settings: the worker's settings.
        health: records the worker's state for the health pages; None where there are no pages.
        catalogue: the catalogue of the settings, if it has been read already.
        page: shows the worker; None where there is no page.

    Raises:
        GlaimError: the settings, the catalogue or a contract cannot be used; nothing has been started.
    """
    health = health or Health()
    read_every_record(settings.budget.unpacked_bytes)
    pipeline, ladder = create_pipeline(
        settings, catalogue, quality=True, shadow=True, on_failure=count_failure, on_state=count_state
    )
    unsure = [rung.name for rung in ladder.rungs[:-1]]  # the last one needs nothing but the window
    unsure += [pipeline.form_expert.name] if pipeline.form_expert else []
    create_series(
        pipeline.catalogue, pipeline.contracts, unsure, scored=pipeline.scored, quality=settings.quality,
        networks=pipeline.networks,
    )  # fmt: skip
    show_expiry(settings)
    consumer = group_options(settings)
    app = WorkerApp(
        settings.consumer_group,
        broker=faust_broker(settings),
        broker_credentials=faust_credentials(settings),
        broker_commit_interval=commit_interval_s(settings.kafka_extra),
        broker_request_timeout=consumer["request_timeout_ms"] / 1000,
        broker_max_poll_interval=consumer["max_poll_interval_ms"] / 1000,
        producer_acks=-1,
        producer_linger=LINGER_MS / 1000,
        producer_max_request_size=settings.max_message_bytes,
        stream_buffer_maxsize=_BUFFERED_BATCHES,
        stream_wait_empty=True,
        store="memory://",
        topic_disable_leader=True,
        web_enabled=False,
    )
    app.consumer_options = consumer
    app.identify = partial(topic_identity, settings, settings.input_topic)
    app.producer_extra = extra_options(settings.kafka_extra, AIOKafkaProducer)
    topic = app.topic(settings.input_topic, schema=BatchSchema(), acks=True)
    send = faust_send(app, settings)
    publisher = KafkaPublisher(send, settings)
    exactly_once = settings.delivery == "exactly_once"
    # A transaction is five requests, one after the other. Each would wait for a slice of decoding in the main loop.
    own_loop = OwnLoop("transactions") if exactly_once else None
    rebuilder = KafkaRebuilder(settings, pipeline.catalogue)
    workers: dict[TP, PartitionWorker] = {}
    unusable = UnusableShare(settings.dead_letter_share)
    background: set[asyncio.Future[None]] = set()  # a task without a reference may be collected before it is done

    def crash(error: BaseException) -> None:
        health.crashed(error)
        background.add(asyncio.ensure_future(app.crash(error)))

    def worker_of(tp: TP) -> PartitionWorker:
        if tp not in workers:
            workers[tp] = PartitionWorker(
                tp.topic,
                tp.partition,
                pipeline,
                outlet_of(tp),
                rebuilder,
                batches_in_flight=BATCHES_IN_FLIGHT,
                commit_interval_s=commit_interval_s(settings.kafka_extra),
                on_crash=crash,
                confirm=partial(confirm, tp, recently=True),
                committed=partial(committed, tp),
                on_published=published,
                quality=quality_keys(tp.partition) if settings.quality else None,
            )
        return workers[tp]

    def published(outputs: Sequence[Output]) -> None:
        unusable.count(outputs)
        if page is not None:
            page.recent.add(outputs)

    def quality_keys(partition: int) -> QualityKeys:
        models = pipeline.catalogue.models

        def model_of(group: str) -> str | None:
            index = pipeline.catalogue.model_of(group)
            return None if index is None else models[index].name

        steps = {model.name: model.step_ms for model in models}
        return QualityKeys(partial(KeptKeys, steps, model_of), partial(quality_records, settings, partition))

    def outlet_of(tp: TP) -> Outlet:
        if not exactly_once:
            return AtLeastOnce(publisher)
        here = asyncio.get_running_loop()

        async def confirmed() -> bool | None:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(confirm(tp), here))

        transactions = TransactionalPublisher(
            settings, tp.topic, tp.partition, confirmed, identity=lambda: app.consumer.topic_identity
        )
        return ExactlyOnce(transactions, lambda offset: app.consumer.continue_from(tp, offset), own_loop)

    async def confirm(tp: TP, *, recently: bool = False) -> bool | None:
        try:
            return await app.consumer.confirm(tp, recently=recently)
        except Exception as error:  # the consumer is starting, stopping or cut off: nothing is confirmed
            log.debug("cannot ask whether %s-%d is assigned: %r", *tp, error)
            return None

    async def committed(tp: TP) -> int | None:
        try:
            return await asyncio.wait_for(app.consumer.committed(tp), _COMMIT_PATIENCE_S)
        except Exception as error:  # the partition stays as it is, and is asked for again
            log.debug("cannot ask for the commit of %s-%d: %r", *tp, error)
            return None

    @app.agent(topic, name="glaim_stream.impute")  # type: ignore[untyped-decorator]
    async def impute(stream: Any) -> None:
        """Hand each batch to its partition's worker, which answers it once its output is acknowledged."""
        async for event in stream.noack().events():
            batch: Batch = event.value
            batch.done = event.ack
            await worker_of(event.message.tp).submit(batch)

    @app.on_partitions_assigned.connect(weak=False)  # type: ignore[untyped-decorator]
    async def assigned(app: faust.App, assigned: set[TP], **_: Any) -> None:
        numbers = {tp.partition for tp in assigned}
        log.info("partitions assigned: %s", ", ".join(map(str, sorted(numbers))) or "none")
        for tp in [tp for tp in workers if tp not in assigned]:
            await workers.pop(tp).stop()
            metrics.forget_partition(tp.partition)
        for worker in workers.values():
            worker.check_position()
        if not exactly_once:
            ending = asyncio.ensure_future(
                end_open_transactions(settings, numbers, lambda number: confirm(TP(settings.input_topic, number)))
            )
            background.add(ending)
            ending.add_done_callback(background.discard)

    @app.on_partitions_revoked.connect(weak=False)  # type: ignore[untyped-decorator]
    async def revoked(app: faust.App, revoked: set[TP], **_: Any) -> None:
        for worker in workers.values():  # before the group may assign them anew
            worker.check_position()
        await asyncio.gather(*(worker.commit_kept() for worker in workers.values()))

    @app.on_before_shutdown.connect(weak=False)  # type: ignore[untyped-decorator]
    async def stopping(app: faust.App, **_: Any) -> None:
        await asyncio.gather(*(worker.stop() for worker in workers.values()))

    @app.task  # type: ignore[untyped-decorator]
    async def started() -> None:
        app.consumer.commits = not exactly_once
        for rung in ladder.rungs:
            if isinstance(rung, ServedRung):
                await _check_served(rung)

    @app.task  # type: ignore[untyped-decorator]
    async def versions() -> None:
        served = [rung for rung in ladder.rungs if isinstance(rung, ServedRung)]
        while served and not app.should_stop:
            await asyncio.sleep(VERSION_CHECK_INTERVAL_S)
            for rung in served:
                try:
                    await rung.look()
                except Exception:  # versions stay as they are, and the next look may succeed
                    log.exception("cannot look at the versions that %s serves", rung.name)

    @app.task  # type: ignore[untyped-decorator]
    async def stay_in_the_group() -> None:
        while not app.should_stop:
            await asyncio.sleep(app.conf.broker_max_poll_interval / _STAYS_PER_POLL_INTERVAL)
            app.consumer.stay()

    async def take_up_quiet(tp: TP) -> bool:
        known = await committed(tp)
        if known and tp in app.consumer.assignment():  # it may have been revoked meanwhile
            worker_of(tp)
        return known is not None

    watch(app, health, workers, ladder.rungs[0] if settings.needs_model else None, pipeline.contracts, take_up_quiet)

    @app.task  # type: ignore[untyped-decorator]
    async def lag() -> None:
        await watch_lag(settings, lambda: _answered(app, Consumer.answered_to))

    @app.task  # type: ignore[untyped-decorator]
    async def unusable_share() -> None:
        await watch_unusable(unusable, health.degraded)

    @app.task  # type: ignore[untyped-decorator]
    async def holds() -> None:
        await watch_holds(settings.model_repository, [model.name for model in pipeline.catalogue.models])

    @app.task  # type: ignore[untyped-decorator]
    async def learning() -> None:
        def newest_ms() -> int | None:
            found = [worker.newest_event_ms for worker in workers.values()]
            return max((each for each in found if each is not None), default=None)

        await learn_live(settings, pipeline.catalogue, newest_ms)

    if page is not None:
        shown = page
        shown.show(
            pipeline,
            lambda: {tp.partition: worker.engine for tp, worker in workers.items()},
            lambda: health.document,
        )

        @app.task  # type: ignore[untyped-decorator]
        async def show_page() -> None:
            shown.runs_in(asyncio.get_running_loop())

    @app.task  # type: ignore[untyped-decorator]
    async def lost() -> None:
        def known(identity: str) -> None:
            app.consumer.topic_identity = identity

        watch_for = LostOffsets(settings, send, known)
        await watch_for.watch(app.consumer.gaps, lambda: _answered(app, Consumer.committable_to))

    return app


def _answered(app: faust.App, to: Callable[[Consumer, TP], int | None]) -> dict[int, int | None]:
    """Return, for each assigned partition, the offset before which everything is answered."""
    try:
        return {tp.partition: to(app.consumer, tp) for tp in app.consumer.assignment()}
    except NotReady:  # the app is starting or stopping
        return {}


async def _check_served(rung: ServedRung) -> None:
    try:
        await rung.check()
    except ContractError as error:
        log.error("%s: its answers are refused, and the next rung fills in", error)
    except ImputerError as error:
        log.warning("%s: the next rung fills in until it answers", error)


def count_failure(rung: str, model: str) -> None:
    """Count a batch that a rung could not answer."""
    metrics.imputer_failures.labels(rung, model).inc()


def count_state(rung: str, model: str, state: State) -> None:
    """Show a breaker's new state, and count its openings and probes."""
    metrics.imputer_state.labels(rung, model).set(state)
    if state is State.OPEN:
        metrics.imputer_openings.labels(rung, model).inc()
    elif state is State.HALF_OPEN:
        metrics.imputer_probes.labels(rung, model).inc()


def show_expiry(settings: Settings) -> None:
    """Create a series for each file with certificates.

    Raises:
        SettingsError: the files cannot be used.
    """
    triton_files = settings.triton_tls_files if settings.imputer == "triton" else None
    used = ((KAFKA, settings.kafka_tls_files), (TRITON, triton_files), (METRICS, settings.metrics_tls_files))
    for use, files in used:
        if files is None:
            continue
        watched = watched_tls(use, files)
        for file in watched.current().expires_s:
            metrics.certificate_expires_seconds.labels(use, file).set_function(partial(_expires_s, watched, file))


def _expires_s(watched: WatchedTls, file: str) -> float:
    return watched.current().expires_s[file]
