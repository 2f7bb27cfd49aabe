"""The breaker: one failure opens it, one probe a rest decides, and nothing else gets through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.errors import ImputerError, ImputerUnavailable
from glaim_stream.imputers.breaker import Breaker, State
from glaim_stream.imputers.ladder import Ladder
from glaim_stream.imputers.protocol import Imputed, Windows
from glaim_stream.imputers.simple import Interpolation, LastValue
from glaim_stream.records import Method


def test_a_failure_opens_it_and_after_the_rest_one_batch_tries() -> None:
    breaker = Breaker(5.0)
    assert breaker.admits(0.0)
    breaker.failed(1.0)
    assert not breaker.admits(1.0)
    assert not breaker.admits(5.9)
    assert breaker.admits(6.0)
    assert not breaker.admits(6.0), "the probe is under way"
    assert not breaker.admits(60.0), "and stays the only one"
    breaker.answered()
    assert breaker.admits(60.0)
    assert breaker.admits(60.0)


def test_a_probe_that_fails_begins_another_rest() -> None:
    breaker = Breaker(5.0)
    breaker.failed(0.0)
    assert breaker.admits(5.0)
    breaker.failed(7.0)
    assert not breaker.admits(11.9)
    assert breaker.admits(12.0)


def test_batches_from_before_it_opened_change_nothing() -> None:
    breaker = Breaker(5.0)
    assert [breaker.admits(0.0) for _ in range(3)] == [True] * 3
    breaker.failed(1.0)
    breaker.failed(4.0)
    assert breaker.state is State.OPEN
    breaker.answered()
    assert breaker.state is State.OPEN
    assert breaker.admits(6.0), "the rest counts from the first failure"


@given(st.lists(st.tuples(st.sampled_from(["ask", "fail", "answer"]), st.floats(0, 3)), max_size=60), st.floats(0.1, 4))
def test_never_two_batches_while_it_is_half_open(actions: list[tuple[str, float]], rest_s: float) -> None:
    seen: list[State] = []
    breaker, now_s, opened_s, probing = Breaker(rest_s, seen.append), 0.0, -1.0, False
    for action, passed_s in actions:
        now_s += passed_s
        before = breaker.state
        if action == "ask":
            admitted = breaker.admits(now_s)
            if before is not State.CLOSED:
                assert admitted == (not probing and now_s >= opened_s + rest_s)
                probing |= admitted
        elif action == "fail":
            breaker.failed(now_s)
            opened_s = now_s if before is not State.OPEN else opened_s
            probing = False
        else:
            breaker.answered()
            probing &= breaker.state is State.HALF_OPEN
    assert all(one is not two for one, two in pairwise(seen))


class Flaky(LastValue):
    """The last value, but for the time that it is away."""

    name = "flaky"

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.asked = 0
        self.gate: asyncio.Event | None = None

    async def impute(self, windows: Windows) -> Imputed:
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await super().impute(windows)


WINDOWS = Windows("m", np.ones((6, 1, 4), np.float32), np.ones((6, 1, 4), np.bool_), 1)


@pytest.fixture
async def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the event loop's clock, which the ladder reads, by so many seconds: a rest is over without waiting."""
    loop = asyncio.get_running_loop()
    real_time, passed_s = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: real_time() + sum(passed_s))
    return passed_s.append


async def test_while_one_batch_tries_the_others_pass_on(pass_time: Callable[[float], None]) -> None:
    rung, states = Flaky(), list[tuple[str, str, State]]()
    ladder = Ladder([rung, Interpolation()], batch=1, rest_s=600, on_state=lambda *said: states.append(said))
    rung.error = ImputerUnavailable("away")
    await ladder.impute(WINDOWS.slice(0, 1))
    answer = await ladder.impute(WINDOWS)
    assert rung.asked == 1, "left alone"
    assert (answer.method == Method.LAST_VALUE).sum() == 0
    pass_time(601)
    rung.error, rung.gate = None, asyncio.Event()
    trying = asyncio.create_task(ladder.impute(WINDOWS))
    while rung.asked < 2:  # noqa: ASYNC110  a batch of a task of its own
        await asyncio.sleep(0)
    others = await ladder.impute(WINDOWS)
    assert rung.asked == 2
    assert (others.method != Method.MODEL).all()
    rung.gate.set()
    assert (await trying).method[:, 0, 0].tolist().count(Method.LAST_VALUE) == 1
    await ladder.impute(WINDOWS)
    assert rung.asked == 8
    assert states == [("flaky", "m", state) for state in (State.OPEN, State.HALF_OPEN, State.CLOSED)]


async def test_a_refusal_is_an_answer_and_leaves_the_breaker_closed() -> None:
    rung = Flaky()
    rung.error = ImputerError("no such model")
    ladder = Ladder([rung, Interpolation()], batch=1)
    await ladder.impute(WINDOWS)
    assert rung.asked == 6


@pytest.mark.parametrize("end", ["cancelled", "fault"])
async def test_a_probe_that_ends_otherwise_is_not_the_last_one(end: str, pass_time: Callable[[float], None]) -> None:
    rung = Flaky()
    ladder = Ladder([rung, Interpolation()], rest_s=600)
    rung.error = ImputerUnavailable("away")
    await ladder.impute(WINDOWS)
    pass_time(601)
    if end == "cancelled":
        rung.gate = asyncio.Event()
        probe = asyncio.create_task(ladder.impute(WINDOWS))
        while rung.asked < 2:  # noqa: ASYNC110  the probe is a task of its own
            await asyncio.sleep(0)
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        rung.gate = None
    else:
        rung.error = ZeroDivisionError()
        with pytest.raises(ZeroDivisionError):
            await ladder.impute(WINDOWS)
    rung.error = None
    pass_time(601)
    await ladder.impute(WINDOWS)
    assert rung.asked == 3
