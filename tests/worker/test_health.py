"""The health of a worker with an injected clock, and its pages over real HTTP."""

import json
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.worker.health import Health, PartitionState
from glaim_stream.worker.health_pages import serve_pages

LOOPBACK = "127.0.0.1"


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def started_health(clock: Clock | None = None) -> Health:
    health = Health(silence_s=60, now_s=clock or Clock())
    health.topics_are_there()
    health.joined()
    return health


def test_a_new_worker_is_live_and_has_not_started() -> None:
    health = Health()
    assert health.live
    assert not health.started
    assert not health.ready
    assert len(health.started.why_not) == 2, "no topics, no group"


def test_a_worker_has_started_once_topics_group_and_models_are_available() -> None:
    health = Health()
    health.await_answers(["a", "b"], "triton")
    health.topics_are_there()
    health.joined()
    assert health.started.why_not == ("model a: triton was not queried yet", "model b: triton was not queried yet")
    health.answered("a")
    health.not_answered("b", "triton has not answered yet: connection refused")
    assert health.started.why_not == ("model b: triton has not answered yet: connection refused",)
    health.answered("b")
    assert health.started


def test_one_answer_per_model_is_enough() -> None:
    health = started_health()
    health.await_answers(["a"], "triton")
    health.answered("a")
    health.not_answered("a", "unavailable")
    assert health.started


def test_a_worker_without_partitions_is_ready() -> None:
    assert started_health().ready


@pytest.mark.parametrize("state", list(PartitionState))
def test_a_worker_is_ready_once_every_partition_is(state: PartitionState) -> None:
    health = started_health()
    health.watch(lambda: {0: PartitionState.WHOLE, 3: state})
    settled = state in (PartitionState.WHOLE, PartitionState.IDLE)
    assert bool(health.ready) is settled
    assert health.started, "partitions do not affect it"
    if not settled:
        assert health.ready.why_not == (f"partition 3: {state}",)


def test_a_blocked_event_loop_is_not_live_until_it_runs_again() -> None:
    clock = Clock()
    health = started_health(clock)
    assert health.beat(agent_works=True) == 0
    clock.now_s += 60
    assert health.live, "60 s are allowed"
    clock.now_s += 0.5
    assert not health.live
    assert "60.5 s" in health.live.why_not[0]
    assert health.beat(agent_works=True) == 60.5
    assert health.live


def test_a_worker_with_a_dead_agent_is_not_live() -> None:
    clock = Clock()
    health = started_health(clock)
    health.beat(agent_works=False)
    clock.now_s += 1000
    health.beat(agent_works=False)
    assert health.live, "Faust has not started the agent yet, perhaps because Kafka is unavailable"
    health.beat(agent_works=True)
    for _ in range(61):
        clock.now_s += 1
        health.beat(agent_works=False)
    assert health.live.why_not == ("no agent has been at work for 61.0 s, 60 s are allowed",)
    health.beat(agent_works=True)
    assert health.live


def test_a_crashed_worker_is_not_live() -> None:
    health = started_health()
    health.beat(agent_works=True)
    health.crashed(ValueError("no such thing"))
    assert health.live.why_not == ("processing ended: ValueError('no such thing')",)


def test_a_stopping_worker_is_live_without_beats() -> None:
    clock = Clock()
    health = started_health(clock)
    health.beat(agent_works=True)
    health.ending()
    clock.now_s += 1000
    assert health.live


def get(port: int, path: str, host: str = LOOPBACK) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10) as answer:
            status, body = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read()
    return status, json.loads(body) if path.startswith("/health") or status >= 400 else body.decode()


def test_pages_return_a_status_code_and_reasons() -> None:
    health = Health()
    port = serve_pages(health, LOOPBACK, 0)
    assert get(port, "/health/live") == (200, {"live": True, "why_not": []})
    status, document = get(port, "/health/started")
    assert status == 503
    assert document["started"] is False
    assert "Kafka" in document["why_not"][0]
    health.topics_are_there()
    health.joined()
    assert get(port, "/health/started") == (200, {"started": True, "why_not": []})
    health.watch(lambda: {1: PartitionState.REBUILDING})
    assert get(port, "/health/ready") == (503, {"ready": False, "why_not": ["partition 1: windows are being rebuilt"]})
    status, document = get(port, "/health")
    assert status == 503, "one page fails"
    assert (document["live"], document["started"], document["ready"]) == (True, True, False)
    assert document["partitions"] == {"1": "windows are being rebuilt"}


def test_the_metrics_page_shows_the_health() -> None:
    health = Health()
    port = serve_pages(health, LOOPBACK, 0)
    status, text = get(port, "/metrics")
    assert status == 200
    assert "glaim_readings_total" in text
    assert 'glaim_health{page="live"} 1.0' in text
    assert 'glaim_health{page="started"} 0.0' in text
    health.topics_are_there()
    health.joined()
    assert 'glaim_health{page="started"} 1.0' in get(port, "/metrics")[1]


def test_unknown_pages_and_methods_are_rejected() -> None:
    port = serve_pages(Health(), LOOPBACK, 0)
    status, document = get(port, "/healthz")
    assert status == 404
    assert "/health/ready" in document["expected"]
    request = urllib.request.Request(f"http://{LOOPBACK}:{port}/health", method="POST", data=b"")
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(request, timeout=10)


def test_a_silent_client_does_not_block_others() -> None:
    port = serve_pages(Health(), LOOPBACK, 0)
    with socket.create_connection((LOOPBACK, port)):
        assert get(port, "/health/live")[0] == 200


def test_an_unusable_address_is_reported() -> None:
    port = serve_pages(Health(), LOOPBACK, 0)
    with pytest.raises(
        SettingsError, match=rf"GLAIM_METRICS_PORT: expected an address.*'{LOOPBACK}' port {port} .*use"
    ):
        serve_pages(Health(), LOOPBACK, port)
    with pytest.raises(SettingsError, match="'no such host' port 0 cannot be used"):
        serve_pages(Health(), "no such host", 0)


def test_an_ipv6_address_can_be_used() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    port = serve_pages(Health(), "::1", 0)
    assert get(port, "/health/live", "[::1]")[0] == 200
