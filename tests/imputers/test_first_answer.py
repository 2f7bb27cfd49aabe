"""The first question to an imputer, and asking it until it is answered."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from glaim_stream.errors import ContractError, ImputerUnavailable
from glaim_stream.imputers.first_answer import empty_windows, first_answers, typical_windows
from glaim_stream.imputers.protocol import Imputed, Windows
from glaim_stream.imputers.simple import LastValue
from tests.support import contract


def test_a_typical_window_is_the_training_mean_with_the_newest_step_out() -> None:
    windows = typical_windows(contract(3, window=6, emitted_steps=2))
    assert windows.values.shape == (1, 3, 6)
    assert windows.values.dtype == np.float32
    assert windows.observed[..., :-1].all()
    assert not windows.observed[..., -1].any()
    assert windows.steps == 2


def test_an_empty_window_has_the_same_shape_and_nothing_in_it() -> None:
    windows = empty_windows(contract(3, window=6))
    assert windows.values.shape == (1, 3, 6)
    assert not windows.observed.any()
    assert not windows.values.any()


class Late(LastValue):
    """Answers from the third question of each model on."""

    name = "late"

    def __init__(self, error: Exception) -> None:
        self.asked: list[str] = []
        self.error = error

    async def impute(self, windows: Windows) -> Imputed:
        self.asked.append(windows.model)
        if self.asked.count(windows.model) < 3:
            raise self.error
        return await super().impute(windows)


@pytest.mark.parametrize("error", [ImputerUnavailable("refused"), ContractError("other tensors")])
async def test_every_model_is_called_until_it_answers_and_no_longer(error: Exception) -> None:
    rung = Late(error)
    answered: list[str] = []
    failures: list[tuple[str, str]] = []
    contracts = {name: contract(name=name) for name in ("a", "b")}
    await asyncio.wait_for(
        first_answers(
            rung,
            contracts,
            on_answer=answered.append,
            on_failure=lambda name, why: failures.append((name, why)),
            first_pause_s=0.001,
        ),
        10,
    )
    assert sorted(answered) == ["a", "b"]
    assert sorted(rung.asked) == ["a"] * 3 + ["b"] * 3
    assert failures[0] == ("a", f"late has not answered yet: {error}")
    assert len(failures) == 4
