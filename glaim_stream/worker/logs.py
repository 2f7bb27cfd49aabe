"""Logging of a running worker: its level, and the level of the libraries below it."""

from __future__ import annotations

import logging
import platform
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import cast

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.errors import listed
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import commit_interval_s

# At info these log their internals: services that start and stop, and the assignment step by step.
_INNER = ("aiokafka", "faust", "kafka", "mode")
_DUMP, _WAITING = "Agent tracebacks:", "wait_empty: Waiting for tasks"
_MOST_KINDS = 1000  # a library that formats values into its messages makes each of them a kind


def prepare_logging(level: str) -> None:
    """Set the level of the root logger and filter its handlers; called once Faust has made them.

    Faust leaves the root logger at DEBUG whatever level it is given, which costs a saturated worker 14 %.
    """
    root = logging.getLogger()
    root.setLevel(level.upper())
    quieten_libraries(level)
    for handler in root.handlers:
        handler.addFilter(WaitLines())
        handler.addFilter(LogLimit())
        handler.addFilter(services_as_libraries)


def quieten_libraries(level: str) -> None:
    """Make Faust and the Kafka clients log only warnings and worse, unless the level is debug."""
    for name in _INNER:
        logging.getLogger(name).setLevel(logging.NOTSET if level == "debug" else logging.WARNING)


def services_as_libraries(record: logging.LogRecord) -> bool:
    """Whether to log a line: lines of Faust's services are subject to the level of the libraries.

    A service logs under the module of its class, which may be one of ours, so the logger's name does not tell.
    """
    return not str(record.msg).startswith("[^") or logging.getLogger("mode").isEnabledFor(record.levelno)


def opening_lines(settings: Settings, catalogue: Catalogue, port: int, page: str | None = None) -> list[str]:
    """The opening lines of a worker's log: its version, topics and imputers, and where to look.

    Args:
        settings: the worker's settings.
        catalogue: the models.
        port: port of the health pages.
        page: address of the page that shows the groups; None without one.
    """
    models = listed([f"{model.name} ({len(model.sensors)} sensors)" for model in catalogue.models])
    used = {
        "triton": f"Triton at {settings.triton}",
        "local": f"TorchScript from {settings.model_repository} in this process",
        "gaussian": f"the closed form in {settings.model_repository}",
    }
    filled_by = used.get(settings.imputer, settings.imputer)
    if all(model.learn for model in catalogue.models) and settings.needs_model:
        filled_by = f"the closed form that is learned; {filled_by} where a network is added"
    member = f" as {settings.instance_id}" if settings.instance_id else ""
    scheme = "http" if settings.metrics_tls_files is None else "https"
    once = settings.delivery == "exactly_once"
    return [
        f"glaim-stream {version('glaim-stream')}, Python {platform.python_version()}, consumer group "
        f"{settings.consumer_group}{member} at {settings.kafka}",
        f"topics: reads {settings.input_topic}, writes rows to {settings.output_topic}, unusable records to "
        f"{settings.dlq_topic}, late readings to {settings.late_topic}, outages to {settings.outage_topic}"
        + (f", sensor health to {settings.health_topic}" if settings.judges_health else ""),
        f"models: {models} of {settings.catalogue}; imputed by {filled_by}",
        f"delivery: {'exactly once, for readers of committed records' if once else 'at least once'}; commits every "
        f"{commit_interval_s(settings.kafka_extra):g} s",
        f"pages: {scheme}://{settings.metrics_host}:{port}/metrics and /health; log level {settings.log_level}",
        *([] if page is None else [f"page: {page} shows the groups while they are filled"]),
    ]


class WaitLines(logging.Filter):
    """A filter that turns Faust's report of a slow rebalance into one plain line.

    Before a rebalance Faust waits until the delivered batches are answered. Every 10 s it logs all of their records
    and the tracebacks of all agents, although nothing has failed.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop the tracebacks, and count the batches instead of printing them."""
        text = str(record.msg)
        if _WAITING in text and isinstance(record.args, tuple):
            (waiting,) = record.args
            record.msg = "a rebalance waits for %d batches whose output is not acknowledged yet"
            record.args = (len(cast("list[object]", waiting)),)
        return _DUMP not in text


@dataclass
class _Kind:
    since_s: float
    passed: int = 0
    held_back: int = 0


class LogLimit(logging.Filter):
    """A filter that passes a limited number of warnings of each kind in an interval.

    The first warning after the interval states how many were held back. While a broker is away, its driver logs every
    attempt of every task, hundreds a second, and the lines about the worker itself are lost among them. A kind is a
    logger, a level and a message before its values are formatted. Lines of this program always pass.
    """

    def __init__(self, most: int = 3, every_s: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without any kind.

        Args:
            most: warnings of a kind that pass in each interval.
            every_s: the interval, seconds.
            clock: a monotonic clock, seconds.
        """
        super().__init__()
        self._most, self._every_s, self._clock = most, every_s, clock
        self._kinds: dict[tuple[str, int, str], _Kind] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record passes; one that follows others that were held back states their number."""
        if record.levelno < logging.WARNING or record.name.partition(".")[0] == __name__.partition(".")[0]:
            return True
        now_s, name = self._clock(), (record.name, record.levelno, str(record.msg))
        with self._lock:
            kind = self._kinds.get(name)
            if kind is None or now_s - kind.since_s >= self._every_s:
                if len(self._kinds) >= _MOST_KINDS:
                    self._kinds.clear()
                held = kind.held_back if kind is not None else 0
                kind = self._kinds[name] = _Kind(now_s)
                if held:
                    record.msg = f"{record.msg} (and {held} more like it before)"
            passes = kind.passed < self._most
            kind.passed += passes
            kind.held_back += not passes
        return passes
