"""Fixtures and hooks of all tests: one Kafka and one Triton per run, and the rule about skipped tests."""

import gc
import os
import re
import signal
import uuid
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase

from deploy.cache import CHECKOUT
from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka, kafka_from_environment
from deploy.triton import ExternalTriton, LocalTriton, models_of, triton_from_environment
from deploy.triton_install import unsupported_reason
from glaim_stream.core import metrics
from tests.file_order import folder_of, in_order
from tests.shared_servers import SharedServers
from tests.skip_rules import fail_disallowed_skip, skipped_in_a_line, skips_are_failures

ALL_SLOW = re.compile(r"^pytestmark = (\[[^]]*)?pytest\.mark\.slow\b", re.MULTILINE)
SHARED_SERVERS = pytest.StashKey[SharedServers]()


def pytest_configure() -> None:
    """Restore the default SIGINT handler: shells ignore SIGINT in background jobs, and child processes inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare a run without the slow tests the import of files that hold no others."""
    if collection_path.suffix != ".py" or "not slow" not in config.option.markexpr:
        return None
    text = collection_path.read_text()
    slow = len(re.findall(r"^@pytest\.mark\.slow\b", text, re.MULTILINE))
    every = len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE))
    return True if ALL_SLOW.search(text) or 0 < slow == every else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files into an order that suits several processes; fail if a test is where no command collects it.

    What is in tests/cluster has the marker, so that `make cluster-test` runs all of it.
    """
    for item in items:
        if folder_of(item.path, config.rootpath) == "cluster":
            item.add_marker("cluster")
    lost = misplaced(items, config.rootpath)
    if lost:
        raise pytest.UsageError("\n".join(lost))
    items[:] = in_order(items, config.rootpath)


def misplaced(items: Iterable[pytest.Item], root: Path) -> list[str]:
    """Name the tests that their markers keep out of every command of the Makefile, which names folders too."""
    lost = []
    for item in items:
        folder = folder_of(item.path, root)
        if item.get_closest_marker("chaos") is not None and folder not in ("chaos", "monitoring"):
            lost.append(f"{item.nodeid}: expected the marker chaos in the folders of make chaos, found it in {folder}")
        if item.get_closest_marker("cluster") is not None and folder != "cluster":
            lost.append(f"{item.nodeid}: expected the marker cluster in tests/cluster alone, found it in {folder}")
    return lost


def pytest_collection_finish() -> None:
    """Spare the garbage collector the modules and tests, some million objects: a full collection took 0.6 s."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def collected_before() -> Iterator[None]:
    """Keep the garbage collector out of what a test measures: one full collection would count as the measured work."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the servers that this process started, once no other process of the run uses them."""
    servers = session.config.stash.get(SHARED_SERVERS, None)
    if servers is not None:
        servers.stop()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print as the last line which tests were skipped and why, so that a green run does not hide them."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    line = reporter and skipped_in_a_line(reporter.stats.get("skipped", []))
    if line:
        reporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn disallowed skips into failures; see tests/skip_rules.py."""
    report = yield
    if skips_are_failures():
        fail_disallowed_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Apply the same rule to a file that skips while it is collected."""
    report = yield
    if skips_are_failures():
        fail_disallowed_skip(report)
    return report


@pytest.fixture(scope="session")
def shared_servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SharedServers:
    """The servers of this run; they outlive the fixture, because other test processes may still use them."""
    folder = tmp_path_factory.getbasetemp()
    # With pytest-xdist each process has a folder inside the folder of the run.
    servers = SharedServers(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)
    request.config.stash[SHARED_SERVERS] = servers
    return servers


@contextmanager
def _kafka_address() -> Iterator[str]:
    with kafka_from_environment(jvm_options=QUICK_START) as running:
        yield running.bootstrap_servers


@contextmanager
def _triton_address() -> Iterator[str]:
    with triton_from_environment(CHECKOUT / "model_repo") as running:
        yield running.grpc_url


@pytest.fixture(scope="session")
def kafka(shared_servers: SharedServers) -> Iterator[LocalKafka | ExternalKafka]:
    """One broker for the whole run; take topic names from `topic_prefix`."""
    with shared_servers.use("kafka", _kafka_address) as address:
        yield ExternalKafka(address)


@pytest.fixture(scope="session")
def triton(shared_servers: SharedServers) -> Iterator[LocalTriton | ExternalTriton]:
    """One server for the whole run, which serves the model repository of the checkout."""
    if not models_of(CHECKOUT / "model_repo"):
        pytest.skip("model_repo has no model: run the training commands of the README first")
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    with shared_servers.use("triton", _triton_address) as address:
        yield ExternalTriton(address)


@pytest.fixture(scope="module", autouse=True)
def no_series_of_other_files() -> None:
    """Metrics belong to the process, which runs many files: begin each file without the labelled series of the last."""
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase) and metric._labelnames:
            metric.clear()


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> str:
    """A unique prefix for topic and consumer group names, which ends in a dash."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:60]
    return f"{name}-{uuid.uuid4().hex[:8]}-"
