"""Real parts for the tests: one Kafka and one Triton for the whole run, or those of the environment."""

from __future__ import annotations

import re
import signal
import uuid
from collections.abc import Iterator

import pytest

from deploy.cache import CHECKOUT
from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka, kafka_from_environment
from deploy.triton import ExternalTriton, LocalTriton, models_of, triton_from_environment
from deploy.triton_install import unsupported_reason


def pytest_configure() -> None:
    """Let SIGINT through: a shell ignores it for what runs in the background, and every child would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka | ExternalKafka]:
    """One broker for the whole run; take topic names from `topic_prefix`."""
    with kafka_from_environment(jvm_options=QUICK_START) as running:
        yield running


@pytest.fixture(scope="session")
def triton() -> Iterator[LocalTriton | ExternalTriton]:
    """One server on the model repository of the checkout for the whole run."""
    repository = CHECKOUT / "model_repo"
    if not models_of(repository):
        pytest.skip("model_repo holds no model: run the training commands of the README first")
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    with triton_from_environment(repository) as running:
        yield running


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> str:
    """A beginning for topic and consumer group names that no other test has, ending in a dash."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:60]
    return f"{name}-{uuid.uuid4().hex[:8]}-"
