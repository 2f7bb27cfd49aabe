"""One model is missing, wrong or slow: the answers of the others stay as they are."""

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from glaim_stream.core.errors import ImputerError, ImputerUnavailable
from glaim_stream.imputers import ladder as ladder_module
from glaim_stream.imputers.first_answer import first_answers
from glaim_stream.imputers.ladder import Ladder, State
from glaim_stream.imputers.protocol import Imputed, Windows
from glaim_stream.imputers.simple import Interpolation
from glaim_stream.output import Method
from tests.support import contract

REST_S = 600.0


class Served:
    """A rung whose models each have a fault of their own, or none."""

    name = "served"

    def __init__(self, **faults: Exception) -> None:
        self.faults = faults
        self.slow: dict[str, asyncio.Event] = {}
        self.calls: list[str] = []

    async def impute(self, windows: Windows) -> Imputed:
        self.calls.append(windows.model)
        if windows.model in self.slow:
            await self.slow[windows.model].wait()
        if windows.model in self.faults:
            raise self.faults[windows.model]
        shape = (*windows.values.shape[:2], windows.steps)
        return Imputed(np.ones(shape, np.float32), np.full(shape, Method.MODEL, np.int8), ["1"] * len(windows))

    async def close(self) -> None:
        """Nothing to release."""


def windows(model: str, count: int = 1) -> Windows:
    return Windows(model, np.ones((count, 1, 4), np.float32), np.ones((count, 1, 4), np.bool_), 1)


async def by_model(ladder: Ladder, model: str, count: int = 1) -> int:
    """Windows of `count` that the model imputed."""
    answer = await asyncio.wait_for(ladder.impute(windows(model, count)), 10)
    return int((answer.method == Method.MODEL).sum())


@pytest.fixture
async def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the event loop's clock, which the ladder reads: a rest is over without waiting."""
    loop = asyncio.get_running_loop()
    real_time, passed_s = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: real_time() + sum(passed_s))
    return passed_s.append


@pytest.mark.parametrize("fault", [ImputerUnavailable("not found"), ImputerError("values of another shape")])
async def test_a_model_that_is_missing_or_wrong_leaves_the_others_all_their_answers(
    fault: Exception, pass_time: Callable[[float], None]
) -> None:
    rung, failures = Served(ill=fault), list[tuple[str, str]]()
    ladder = Ladder([rung, Interpolation()], rest_s=REST_S, on_failure=lambda *names: failures.append(names))
    for _ in range(20):
        counts = await asyncio.gather(by_model(ladder, "ill"), by_model(ladder, "well", 3))
        assert counts == [0, 3]
        pass_time(REST_S / 3)
    assert rung.calls.count("well") == 20
    assert set(failures) == {("served", "ill")}


async def test_a_slow_model_fills_its_own_queue_alone() -> None:
    rung = Served()
    rung.slow["slow"] = asyncio.Event()
    ladder = Ladder([rung, Interpolation()], batch=1, in_flight=2)
    waiting = asyncio.create_task(ladder.impute(windows("slow", 40)))
    for _ in range(10):
        assert await by_model(ladder, "well", 5) == 5
    assert rung.calls.count("slow") == 2, "the others wait in its queue"
    rung.slow["slow"].set()
    assert ((await waiting).method == Method.MODEL).all()


async def test_a_trial_that_hangs_holds_its_batch_up_no_longer_than_said(
    pass_time: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch may hold windows of other models, whose rows wait for it; the trial still closes the breaker later."""
    monkeypatch.setattr(ladder_module, "TRIAL_WAIT_S", 0.01)
    rung, states = Served(ill=ImputerUnavailable("away")), list[State]()
    ladder = Ladder([rung, Interpolation()], rest_s=REST_S, on_state=lambda rung, model, state: states.append(state))
    assert await by_model(ladder, "ill") == 0
    del rung.faults["ill"]
    rung.slow["ill"] = asyncio.Event()
    pass_time(REST_S)
    assert await by_model(ladder, "ill") == 0
    assert states == [State.OPEN, State.HALF_OPEN]
    assert await by_model(ladder, "ill") == 0, "one trial at a time"
    assert rung.calls == ["ill"] * 2
    rung.slow["ill"].set()
    while states[-1] is State.HALF_OPEN:  # noqa: ASYNC110  the trial is a task of the ladder
        await asyncio.sleep(0)
    assert states[-1] is State.CLOSED
    assert await by_model(ladder, "ill") == 1


async def test_an_internal_error_of_a_trial_that_nobody_waits_for_is_logged(
    pass_time: Callable[[float], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ladder_module, "TRIAL_WAIT_S", 0.01)
    rung = Served(ill=ImputerUnavailable("away"))
    ladder = Ladder([rung, Interpolation()], rest_s=REST_S)
    await by_model(ladder, "ill")
    rung.faults["ill"], rung.slow["ill"] = ZeroDivisionError(), asyncio.Event()
    pass_time(REST_S)
    await by_model(ladder, "ill")
    rung.slow.pop("ill").set()
    async with asyncio.timeout(10):
        while not any(record.exc_info for record in caplog.records):  # noqa: ASYNC110  a task of the ladder
            await asyncio.sleep(0)
    rung.faults.clear()
    pass_time(REST_S)
    assert await by_model(ladder, "ill") == 1, "the failed trial began another rest"


async def test_closing_ends_a_trial_that_hangs(
    pass_time: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder_module, "TRIAL_WAIT_S", 0.01)
    rung = Served(ill=ImputerUnavailable("away"))
    ladder = Ladder([rung, Interpolation()], rest_s=REST_S)
    await by_model(ladder, "ill")
    rung.slow["ill"] = asyncio.Event()
    pass_time(REST_S)
    await by_model(ladder, "ill")
    (trial,) = ladder._trials
    await asyncio.wait_for(ladder.close(), 10)
    assert trial.cancelled()


async def test_when_the_server_is_down_every_breaker_opens_and_closes_by_itself(
    pass_time: Callable[[float], None],
) -> None:
    models = ("a", "b", "c")
    rung = Served(**{model: ImputerUnavailable("away") for model in models})
    states = {model: list[State]() for model in models}
    ladder = Ladder(
        [rung, Interpolation()], rest_s=REST_S, on_state=lambda rung, model, state: states[model].append(state)
    )
    for _ in range(3):
        assert [await by_model(ladder, model) for model in models] == [0, 0, 0]
    assert rung.calls == list(models), "each is called once"
    rung.faults.clear()
    pass_time(REST_S)
    assert [await by_model(ladder, model) for model in models] == [1, 1, 1]
    assert set(map(tuple, states.values())) == {(State.OPEN, State.HALF_OPEN, State.CLOSED)}


async def test_a_model_that_hangs_delays_no_other_s_first_answer() -> None:
    rung, answered = Served(), asyncio.Event()
    rung.slow["slow"] = asyncio.Event()
    contracts = {name: contract(name=name) for name in ("slow", "well")}
    querying = asyncio.create_task(
        first_answers(rung, contracts, on_answer=lambda name: answered.set(), on_failure=lambda name, why: None)
    )
    await asyncio.wait_for(answered.wait(), 10)
    rung.slow["slow"].set()
    await asyncio.wait_for(querying, 10)
