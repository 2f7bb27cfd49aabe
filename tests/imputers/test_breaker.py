"""The breaker: one failure opens it, and after each rest one probe decides while other batches are rejected."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.errors import ImputerError, ImputerUnavailable
from glaim_stream.imputers.ladder import Breaker, Ladder, State
from glaim_stream.imputers.protocol import Imputed, Windows
from glaim_stream.imputers.simple import Interpolation, LastValue
from glaim_stream.output import Method


def test_a_failure_opens_the_breaker_and_one_batch_probes_after_the_rest() -> None:
    breaker = Breaker(5.0)
    assert breaker.admits(0.0)
    breaker.failed(1.0)
    assert not breaker.admits(1.0)
    assert not breaker.admits(5.9)
    assert breaker.admits(6.0)
    assert not breaker.admits(6.0), "the probe is running"
    assert not breaker.admits(60.0), "it stays the only probe"
    breaker.answered()
    assert breaker.admits(60.0)
    assert breaker.admits(60.0)


def test_a_failed_probe_starts_another_rest() -> None:
    breaker = Breaker(5.0)
    breaker.failed(0.0)
    assert breaker.admits(5.0)
    breaker.failed(7.0)
    assert not breaker.admits(11.9)
    assert breaker.admits(12.0)


def test_batches_admitted_before_the_breaker_opened_do_not_change_it() -> None:
    breaker = Breaker(5.0)
    assert [breaker.admits(0.0) for _ in range(3)] == [True] * 3
    breaker.failed(1.0)
    breaker.failed(4.0)
    assert breaker.state is State.OPEN
    breaker.answered()
    assert breaker.state is State.OPEN
    assert breaker.admits(6.0), "the rest counts from the first failure"


@given(
    st.lists(st.tuples(st.sampled_from(["call", "fail", "succeed"]), st.floats(0, 3)), max_size=60), st.floats(0.1, 4)
)
def test_a_half_open_breaker_admits_only_one_batch(actions: list[tuple[str, float]], rest_s: float) -> None:
    seen: list[State] = []
    breaker, now_s, opened_s, probing = Breaker(rest_s, seen.append), 0.0, -1.0, False
    for action, passed_s in actions:
        now_s += passed_s
        before = breaker.state
        if action == "call":
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
    """The last value, unless an error is set."""

    name = "flaky"

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.calls = 0
        self.gate: asyncio.Event | None = None

    async def impute(self, windows: Windows) -> Imputed:
        self.calls += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await super().impute(windows)


WINDOWS = Windows("m", np.ones((6, 1, 4), np.float32), np.ones((6, 1, 4), np.bool_), 1)


@pytest.fixture
async def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Advance the event loop's clock, which the ladder reads, by some seconds, so that a rest ends without waiting."""
    loop = asyncio.get_running_loop()
    real_time, passed_s = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: real_time() + sum(passed_s))
    return passed_s.append


async def test_while_one_batch_probes_the_others_use_the_next_rung(pass_time: Callable[[float], None]) -> None:
    rung, states = Flaky(), list[tuple[str, str, State]]()
    ladder = Ladder([rung, Interpolation()], batch=1, rest_s=600, on_state=lambda *change: states.append(change))
    rung.error = ImputerUnavailable("unavailable")
    await ladder.impute(WINDOWS.slice(0, 1))
    answer = await ladder.impute(WINDOWS)
    assert rung.calls == 1, "the open breaker admits nothing"
    assert (answer.method == Method.LAST_VALUE).sum() == 0
    pass_time(601)
    rung.error, rung.gate = None, asyncio.Event()
    probe = asyncio.create_task(ladder.impute(WINDOWS))
    while rung.calls < 2:  # noqa: ASYNC110  the batch runs in its own task
        await asyncio.sleep(0)
    others = await ladder.impute(WINDOWS)
    assert rung.calls == 2
    assert (others.method != Method.MODEL).all()
    rung.gate.set()
    assert (await probe).method[:, 0, 0].tolist().count(Method.LAST_VALUE) == 1
    await ladder.impute(WINDOWS)
    assert rung.calls == 8
    assert states == [("flaky", "m", state) for state in (State.OPEN, State.HALF_OPEN, State.CLOSED)]


async def test_an_error_response_leaves_the_breaker_closed() -> None:
    rung = Flaky()
    rung.error = ImputerError("no such model")
    ladder = Ladder([rung, Interpolation()], batch=1)
    await ladder.impute(WINDOWS)
    assert rung.calls == 6


@pytest.mark.parametrize("end", ["cancelled", "fault"])
async def test_another_probe_follows_a_cancelled_or_crashed_one(end: str, pass_time: Callable[[float], None]) -> None:
    rung = Flaky()
    ladder = Ladder([rung, Interpolation()], rest_s=600)
    rung.error = ImputerUnavailable("unavailable")
    await ladder.impute(WINDOWS)
    pass_time(601)
    if end == "cancelled":
        rung.gate = asyncio.Event()
        probe = asyncio.create_task(ladder.impute(WINDOWS))
        while rung.calls < 2:  # noqa: ASYNC110  the probe runs in its own task
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
    assert rung.calls == 3
