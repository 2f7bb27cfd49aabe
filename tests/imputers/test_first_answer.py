"""The first call of an imputer, which is repeated until it succeeds."""

import asyncio

import numpy as np
import pytest

from glaim_stream.core.errors import ContractError, ImputerUnavailable
from glaim_stream.core.retry import Retry
from glaim_stream.imputers.first_answer import empty_windows, first_answers, typical_windows
from glaim_stream.imputers.protocol import Imputed, Windows
from glaim_stream.imputers.simple import LastValue
from tests.support import contract


def test_a_typical_window_has_the_training_mean_and_a_missing_newest_step() -> None:
    windows = typical_windows(contract(3, window=6, emitted_steps=2))
    assert windows.values.shape == (1, 3, 6)
    assert windows.values.dtype == np.float64
    assert windows.observed[..., :-1].all()
    assert not windows.observed[..., -1].any()
    assert windows.steps == 2


def test_an_empty_window_has_the_same_shape_and_no_observations() -> None:
    windows = empty_windows(contract(3, window=6))
    assert windows.values.shape == (1, 3, 6)
    assert not windows.observed.any()
    assert not windows.values.any()


class Late(LastValue):
    """Answers from the third call for each model on."""

    name = "late"

    def __init__(self, error: Exception) -> None:
        self.called_models: list[str] = []
        self.error = error

    async def impute(self, windows: Windows) -> Imputed:
        self.called_models.append(windows.model)
        if self.called_models.count(windows.model) < 3:
            raise self.error
        return await super().impute(windows)


@pytest.mark.parametrize("error", [ImputerUnavailable("refused"), ContractError("other tensors")])
async def test_every_model_is_called_until_it_answers(error: Exception) -> None:
    rung = Late(error)
    answered: list[str] = []
    failures: list[tuple[str, str]] = []
    contracts = {name: contract(name=name) for name in ("a", "b")}
    await asyncio.wait_for(
        first_answers(
            rung,
            contracts,
            on_answer=answered.append,
            on_failure=lambda name, reason: failures.append((name, reason)),
            retry=Retry(0.001),
        ),
        10,
    )
    assert sorted(answered) == ["a", "b"]
    assert sorted(rung.called_models) == ["a"] * 3 + ["b"] * 3
    assert failures[0] == ("a", f"late has not answered yet: {error}")
    assert len(failures) == 4


def test_a_typical_window_holds_each_sensors_own_mean_before_the_newest_step() -> None:
    """
    step        0     1     2
    s0       20.0  20.0     0
    s1       -3.5  -3.5     0
    """
    base = contract(2, window=3)
    sensors = [
        sensor.model_copy(update={"mean": mean}) for sensor, mean in zip(base.sensors, (20.0, -3.5), strict=True)
    ]
    windows = typical_windows(base.model_copy(update={"sensors": sensors}))
    assert windows.values.tolist() == [[[20.0, 20.0, 0.0], [-3.5, -3.5, 0.0]]]


async def test_the_first_answer_of_each_model_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    contracts = {name: contract(name=name) for name in ("a", "b")}
    with caplog.at_level("INFO"):
        await first_answers(LastValue(), contracts, on_answer=lambda name: None, on_failure=lambda name, reason: None)
    assert caplog.messages == ["last_value answers for model a", "last_value answers for model b"]
