"""The ladder: rungs that fail, batches in flight, and windows with a wrong shape."""

import asyncio
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from glaim_stream.core.errors import ImputerAbsent, ImputerError, ImputerUnavailable, WindowShapeError
from glaim_stream.imputers.ladder import Ladder, State
from glaim_stream.imputers.protocol import Imputed, Windows
from glaim_stream.imputers.simple import Interpolation
from glaim_stream.output import Method


@dataclass
class Scripted:
    """A rung that returns the first value of each window, or fails for windows that start with a bad one."""

    name: str = "scripted"
    bad: tuple[float, ...] = ()
    error: type[Exception] = ImputerUnavailable
    sizes: list[int] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    closed: bool = False

    async def impute(self, windows: Windows) -> Imputed:
        self.sizes.append(len(windows))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        if any(value in self.bad for value in windows.values[:, 0, 0]):
            raise self.error("scripted")
        shape = (*windows.values.shape[:2], windows.steps)
        values = np.broadcast_to(windows.values[:, :1, :1], shape)
        return Imputed(values, np.full(shape, Method.MODEL, np.int8), ["1"] * len(windows))

    async def close(self) -> None:
        self.closed = True


def windows(count: int, *, observed: bool = True) -> Windows:
    values = np.broadcast_to(np.arange(count, dtype=np.float32)[:, None, None], (count, 2, 6)).copy()
    return Windows("m", values, np.full(values.shape, observed), 3)


async def test_answers_have_the_order_of_the_windows() -> None:
    answer = await Ladder([Scripted()], batch=3).impute(windows(10))
    assert answer.values[:, 0, 0].tolist() == list(range(10))
    assert (answer.values.shape, answer.method.shape, len(answer.version)) == ((10, 2, 3), (10, 2, 3), 10)


async def test_the_batch_size_and_the_number_of_calls_in_flight_are_limited() -> None:
    rung = Scripted()
    await Ladder([rung], batch=4, in_flight=2).impute(windows(18))
    assert rung.sizes == [4, 4, 4, 4, 2]
    assert rung.most_running == 2


async def test_by_default_batches_have_64_windows_and_8_calls_are_in_flight() -> None:
    rung = Scripted()
    await Ladder([rung]).impute(windows(64 * 9 + 1))
    assert rung.sizes == [64] * 9 + [1]
    assert rung.most_running == 8


async def test_a_failed_batch_is_counted_and_passed_to_the_next_rung() -> None:
    failed: list[tuple[str, str]] = []
    ladder = Ladder([Scripted(bad=(4,)), Interpolation()], batch=2, on_failure=lambda *names: failed.append(names))
    answer = await ladder.impute(windows(6))
    methods = answer.method[:, 0, 0].tolist()
    assert methods == [1, 1, 1, 1, Method.INTERPOLATION, Method.INTERPOLATION]
    assert answer.version == ["1", "1", "1", "1", "", ""]
    assert failed == [("scripted", "m")]


async def test_a_rung_that_has_nothing_for_a_model_is_skipped_without_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed: list[tuple[str, str]] = []
    states: list[State] = []
    ladder = Ladder(
        [Scripted(bad=(0,), error=ImputerAbsent), Interpolation()],
        on_failure=lambda *names: failed.append(names),
        on_state=lambda rung, model, state: states.append(state),
    )
    for _ in range(2):
        assert (await ladder.impute(windows(1))).version == [""]
    assert (failed, states, caplog.messages) == ([], [], [])


async def test_windows_that_no_rung_imputes_are_null() -> None:
    failed: list[tuple[str, str]] = []
    rungs = [Scripted("a", bad=(0,)), Scripted("b", bad=(0,), error=ImputerError)]
    answer = await Ladder(rungs, on_failure=lambda *names: failed.append(names)).impute(windows(1))
    assert np.isnan(answer.values).all()
    assert (answer.method == Method.NONE).all()
    assert answer.version == [""]
    assert failed == [("a", "m"), ("b", "m")]


async def test_other_exceptions_than_imputer_errors_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await Ladder([Scripted(bad=(0,), error=ZeroDivisionError), Interpolation()]).impute(windows(1))


async def test_windows_without_any_observation_are_null_on_the_last_rung() -> None:
    answer = await Ladder([Interpolation()]).impute(windows(2, observed=False))
    assert np.isnan(answer.values).all()


async def test_closing_closes_every_rung() -> None:
    rungs = [Scripted("a"), Scripted("b")]
    await Ladder(rungs).close()
    assert all(rung.closed for rung in rungs)


@pytest.mark.parametrize(
    ("values", "observed", "steps", "message"),
    [
        ((2, 6), (2, 6), 1, r"must be \[n, sensor, step\]"),
        ((1, 2, 6), (1, 2, 5), 1, r"found \(1, 2, 6\) and \(1, 2, 5\)"),
        ((1, 2, 6), (1, 2, 6), 0, r"steps must lie in 1\.\.6, found 0"),
        ((1, 2, 6), (1, 2, 6), 7, r"steps must lie in 1\.\.6, found 7"),
    ],
)
def test_windows_with_a_wrong_shape_are_rejected(
    values: tuple[int, ...], observed: tuple[int, ...], steps: int, message: str
) -> None:
    with pytest.raises(WindowShapeError, match=message):
        Windows("m", np.zeros(values, np.float32), np.zeros(observed, np.bool_), steps)


async def test_null_answers_have_the_shape_of_the_emitted_steps() -> None:
    answer = await Ladder([Scripted(bad=(0,))]).impute(windows(1))
    assert answer.values.shape == answer.method.shape == (1, 2, 3)


@pytest.mark.parametrize("trial", [False, True], ids=["in use", "on trial"])
async def test_a_call_that_is_cancelled_says_nothing_about_its_imputer(trial: bool) -> None:
    """A partition that moves away cancels its calls; those of the others go on."""
    rung, states = Scripted(bad=(9.0,) if trial else ()), list[State]()
    ladder = Ladder([rung, Interpolation()], rest_s=0.0, on_state=lambda _rung, _model, state: states.append(state))
    if trial:
        bad = windows(1)
        await ladder.impute(replace(bad, values=np.full_like(bad.values, 9.0)))
    call = asyncio.create_task(ladder.impute(windows(1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await asyncio.sleep(0.01)
    assert states == ([State.OPEN, State.HALF_OPEN, State.OPEN] if trial else [])
    assert (await ladder.impute(windows(1))).method.max() == Method.MODEL
