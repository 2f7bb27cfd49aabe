"""Log lines of a slow rebalance, with Faust's consumer and logger."""

import asyncio
import gc
import logging
from collections.abc import Iterator
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest
from faust.transport.consumer import Consumer
from faust.types import TP
from faust.types.tuples import ConsumerMessage, Message
from mode import Service
from mode.utils.logging import CompositeLogger

from glaim_stream.core.catalogue import parse_catalogue
from glaim_stream.core.settings import Settings
from glaim_stream.worker.logs import opening_lines, prepare_logging, quieten_libraries
from tests.worker.test_transport import Record

ROOT = logging.getLogger()


class Lines(logging.Handler):
    """A handler that keeps the lines that pass its filters."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Lines of the root logger, configured as in a worker."""
    gc.collect()  # asyncio logs the exceptions of futures that earlier tests left, once they are collected
    handler, level = Lines(), ROOT.level
    before = {each: list(each.filters) for each in ROOT.handlers}
    ROOT.addHandler(handler)
    prepare_logging("info")
    yield handler.lines
    ROOT.removeHandler(handler)
    ROOT.setLevel(level)
    quieten_libraries("debug")
    for each, filters in before.items():
        each.filters = filters


class OwnService(Service):
    """A Faust service of a module of ours, as the worker's app and consumer are."""


def test_services_of_our_modules_report_warnings_alone(lines: list[str]) -> None:
    async def run() -> None:
        service = OwnService()
        await service.start()
        service.log.warning("partition 3 is gone")
        await service.stop()

    asyncio.run(run())
    assert lines == ["[^OwnService]: partition 3 is gone"]


class Waiting:
    """The part of a consumer that Faust's wait for unanswered events uses; the 11th check finds them answered."""

    should_stop = False
    app = SimpleNamespace(agents=SimpleNamespace(human_tracebacks=lambda: "TRACEBACK OF ALL RUNNING AGENT ACTORS"))
    _clean_unacked_messages = Consumer._clean_unacked_messages

    def __init__(self, *messages: Message) -> None:
        self._unacked_messages = set(messages)
        self.checks = 0
        self.log = CompositeLogger(logging.getLogger("glaim_stream.worker.transport"), formatter=self._format_log)

    def _format_log(self, severity: int, msg: str, *args: Any, **kwargs: Any) -> str:
        return f"[^---Consumer]: {msg}"

    async def commit(self) -> None: ...
    async def commit_and_end_transactions(self) -> None: ...

    async def _wait_for_ack(self, timeout: float) -> None:  # noqa: ASYNC109  Faust names it
        self.checks += 1
        if self.checks == 11:
            for message in self._unacked_messages:
                message.acked = True


def unanswered(partition: int) -> ConsumerMessage:
    tp, record = TP("in", partition), Record(b"a" * 1000)
    return ConsumerMessage(*tp, 0, 0.0, 0, None, None, [record], None, tp=tp)


def wait_empty(waiting: Waiting) -> None:
    unwrapped = Consumer.wait_empty.__wrapped__  # type: ignore[attr-defined]  the wrapper only stores a state
    asyncio.run(unwrapped(waiting))


def test_a_slow_rebalance_is_logged_in_one_line(lines: list[str]) -> None:
    wait_empty(Waiting(unanswered(0), unanswered(1)))
    assert lines == ["a rebalance waits for 2 batches whose output is not acknowledged yet"]


@pytest.mark.slow  # quicker: the log with the filter, above
def test_without_the_filter_faust_dumps_records_and_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    """Faust still writes the lines that the filter replaces."""
    with caplog.at_level(logging.INFO):
        wait_empty(Waiting(unanswered(0)))
    assert "wait_empty: Waiting for tasks" in caplog.text
    assert "TRACEBACK OF ALL RUNNING AGENT ACTORS" in caplog.text


def test_other_lines_pass_unchanged(lines: list[str]) -> None:
    logging.getLogger("glaim_stream.worker.transport").warning("[^---Consumer]: %s of %d", "partition", 4)
    assert lines == ["[^---Consumer]: partition of 4"]


def test_the_level_of_the_root_logger_applies(lines: list[str]) -> None:
    logging.getLogger("glaim_stream").debug("polled")
    assert lines == []
    assert ROOT.level == logging.INFO


@pytest.mark.parametrize("library", ["faust.transport.consumer", "mode", "aiokafka.consumer", "kafka.conn"])
def test_libraries_log_their_insides_at_debug_alone(lines: list[str], library: str) -> None:
    logger = logging.getLogger(library)
    logger.info("[^--Fetcher]: Starting...")
    logger.warning("connection lost")
    assert lines == ["connection lost"]
    quieten_libraries("debug")
    logger.info("[^--Fetcher]: Starting...")
    assert lines == ["connection lost", "[^--Fetcher]: Starting..."]


def test_the_log_opens_with_what_an_operator_needs() -> None:
    catalogue = parse_catalogue(
        {
            "models": [{"name": "pump", "step_s": 60, "sensors": [{"id": "flow"}, {"id": "speed"}]}],
            "groups": [{"model": "pump", "pattern": "*"}],
        },
        source="test",
    )
    settings = Settings(kafka="broker:9092", instance_id="worker-0", triton="gpu:8001", metrics_host="127.0.0.1")
    first, topics, models, delivery, pages = opening_lines(settings, catalogue, 9464)
    assert first.startswith(f"glaim-stream {version('glaim-stream')}, Python 3.")
    assert first.endswith("consumer group glaim-stream as worker-0 at broker:9092")
    assert all(topic in topics for topic in settings.topics)
    assert models == "models: pump (2 sensors) of groups.yaml; imputed by Triton at gpu:8001"
    assert delivery == "delivery: exactly once, for readers of committed records; commits every 0.5 s"
    assert pages == "pages: http://127.0.0.1:9464/metrics and /health; log level info"
    paged = opening_lines(settings, catalogue, 9464, "http://127.0.0.1:9465/")
    assert paged[5:] == ["page: http://127.0.0.1:9465/ shows the groups while they are filled"]
    often = opening_lines(
        settings.model_copy(update={"delivery": "at_least_once", "imputer": "last_value"}), catalogue, 1
    )
    assert "imputed by last_value" in often[2]
    learned = catalogue.model_copy(update={"models": [catalogue.models[0].model_copy(update={"learn": True})]})
    assert (
        "imputed by the closed form that is learned; Triton at gpu:8001 where" in opening_lines(settings, learned, 1)[2]
    )
    assert often[3].startswith("delivery: at least once")
