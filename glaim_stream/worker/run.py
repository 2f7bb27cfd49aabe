"""Runs the worker: `glaim-stream worker`, or with Faust's own options `faust -A glaim_stream.worker.run worker`.

It waits for contracts of its models and for a broker with topics and rights. If it exited, the pauses between restarts
would grow, and each restart would lose the log.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import faust
from faust.exceptions import NotReady
from kafka.errors import KafkaError

from glaim_stream.build import missing_contracts
from glaim_stream.core.catalogue import Catalogue, read_catalogue
from glaim_stream.core.errors import BrokerUnready, listed
from glaim_stream.core.retry import PREREQUISITES
from glaim_stream.core.settings import Settings, read_settings
from glaim_stream.core.tls import METRICS, watched_tls
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.check import notable_topics, require_rights, require_transactions
from glaim_stream.page import page_of
from glaim_stream.windows import history_ms
from glaim_stream.worker.app import create_app
from glaim_stream.worker.health import SILENCE_S, Health
from glaim_stream.worker.health_pages import serve_pages
from glaim_stream.worker.logs import opening_lines, prepare_logging
from glaim_stream.worker.stop_watch import StopWatch

log = logging.getLogger(__name__)

STOP_GRACE_S = 55.0  # limit after a signal or a failure; supervisors wait 5 s longer, so that the end is logged
LOOP_SILENCE_S = SILENCE_S
_app: faust.App | None = None
_REPEAT_S = 60.0  # pause between two log lines with the same reason


def __getattr__(name: str) -> faust.App:
    """Build `app` from the environment when Faust looks it up, so that importing this module starts nothing."""
    global _app
    if name != "app":
        raise AttributeError(name)
    if _app is None:
        _app = _prepared(read_settings())
    return _app


def run_worker(settings: Settings) -> None:
    """Run until SIGTERM or Ctrl-C; then finish the batches in flight, commit and return.

    Where that takes longer than the grace period, or at a second signal, the process ends without it (see StopWatch).
    """
    app = _prepared(settings)
    app.Worker(loglevel=settings.log_level.upper(), redirect_stdouts=False, quiet=True).execute_from_commandline()


class WatchedWorker(faust.Worker):
    """Faust's worker with a time limit on its stop."""

    def __init__(
        self, watch: StopWatch, level: str, opening: Sequence[str], warnings: Sequence[str], *args: Any, **kwargs: Any
    ) -> None:
        self._watch, self._level, self._opening, self._warnings = watch, level, opening, warnings
        super().__init__(*args, **kwargs)

    def install_signal_handlers(self) -> None:
        """Receive signals in the event loop, beside the watch."""
        super().install_signal_handlers()
        self._watch.share()
        log.info("started; SIGTERM or Ctrl-C ends it")

    def on_setup_root_logger(self, logger: logging.Logger, level: int) -> None:
        """Open the log with what an operator needs, once there are handlers and before anything else is logged."""
        super().on_setup_root_logger(logger, level)
        prepare_logging(self._level)
        for line in self._opening:
            log.info("%s", line)
        for warning in self._warnings:
            log.warning("%s", warning)

    async def stop(self) -> None:
        """Stop in order; a signal calls it."""
        if not self.should_stop:
            log.info(
                "stopping: finishes and commits what it has read, in at most %g s; a second signal ends it at once",
                self._watch.grace_s,
            )
        await super().stop()

    def on_worker_shutdown(self) -> None:
        """Limit the time of a stop after an error too, for which there is no signal."""
        self._watch.stopping()
        super().on_worker_shutdown()


def quieten_garbage_collector() -> None:
    """Run the cyclic garbage collector less often: it finds almost nothing and took 40 % of a saturated worker.

    A poll creates tens of thousands of records, none of them in a cycle, and by default the collector runs after every
    700 objects. The few cycles that exist (exceptions, closed connections) are collected a little later.
    """
    gc.freeze()  # imported modules are never freed
    gc.set_threshold(200_000, 20, 100)


def _prepared(settings: Settings) -> faust.App:
    app: faust.App | None = None
    watch = StopWatch(STOP_GRACE_S, unanswered=lambda: unanswered(app))
    watch.start()
    try:
        health = Health(silence_s=LOOP_SILENCE_S)
        catalogue = read_catalogue(settings.catalogue)
        page = page_of(settings)
        tls = None if (files := settings.metrics_tls_files) is None else watched_tls(METRICS, files)
        port = serve_pages(health, settings.metrics_host, settings.metrics_port, tls)
        wait_for_contracts(settings, catalogue, health)
        app = create_app(settings, health, catalogue, page)
        address = None if page is None else page.open()
        wait_for_broker(settings, health)
        history = history_ms(catalogue, scored=settings.remembers, quality=settings.quality)
        warnings = [str(finding) for finding in notable_topics(settings, history)]
        opening = opening_lines(settings, catalogue, port, address)
        # Also for Faust's own command. It logs them, because there are no handlers yet.
        app.conf.Worker = partial(WatchedWorker, watch, settings.log_level, opening, warnings)
    except BaseException:
        watch.dismiss()
        raise
    quieten_garbage_collector()
    return app


def wait_for_contracts(settings: Settings, catalogue: Catalogue, health: Health) -> None:
    """Wait until each model that is needed has a contract: a volume may be filled, or a model trained, later."""
    wait_until(partial(_missing_contracts, settings, catalogue), health)


def wait_for_broker(settings: Settings, health: Health) -> None:
    """Create topics and check rights and transactions; retry until the broker has what the worker needs.

    Raises:
        SettingsError: waiting would not help.
    """
    wait_until(partial(_missing_at_broker, settings), health)
    health.topics_are_there()


def _missing_contracts(settings: Settings, catalogue: Catalogue) -> str | None:
    files = missing_contracts(settings, catalogue)
    return f"expected model contracts, found none at {listed(files)}" if files else None


def _missing_at_broker(settings: Settings) -> str | None:
    try:
        ensure_topics(settings)
        require_rights(settings)
        require_transactions(settings)
    except BrokerUnready as error:
        return str(error)
    except KafkaError as error:  # the broker has stopped meanwhile
        return f"Kafka at {settings.kafka}: {error!r}"
    return None


def wait_until(
    missing: Callable[[], str | None],
    health: Health,
    *,
    sleep: Callable[[float], object] = time.sleep,
    now_s: Callable[[], float] = time.monotonic,
) -> None:
    """Call a function again and again until nothing is missing.

    Args:
        missing: returns what is missing, a sentence without its full stop; None if nothing is. Its errors are raised.
        health: shows the sentence meanwhile.
        sleep: waits for so many seconds.
        now_s: a monotonic clock, seconds.
    """
    pauses = PREREQUISITES.pauses()
    said, said_s = "", 0.0
    while (why := missing()) is not None:
        health.waits_for(why)
        if why != said or now_s() - said_s >= _REPEAT_S:
            log.warning("%s. The worker waits and tries again", why)
            said, said_s = why, now_s()
        sleep(next(pauses))


def unanswered(app: faust.App | None) -> str:
    """List the offsets by partition. Any thread may call it, while the event loop runs or hangs."""
    try:
        ledgers = dict(app.consumer.ledgers) if app is not None else {}
        open_ = {tp: ledger.unanswered for tp, ledger in ledgers.items()}
    except NotReady:  # nothing has been read yet
        open_ = {}
    except RuntimeError:  # the event loop has changed a ledger meanwhile
        return "Some input is not answered"
    places = [f"{tp.topic}-{tp.partition} offsets {span[0]} to {span[1] - 1}" for tp, span in open_.items() if span]
    return f"Not answered: {listed(places)}" if places else "All input that was taken is answered"
