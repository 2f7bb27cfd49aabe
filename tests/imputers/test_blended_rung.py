"""The closed form as an expert: its answers, its absence, and its failures."""

import logging

import numpy as np
import pytest

from glaim_stream.core.errors import ImputerAbsent, ImputerError
from glaim_stream.core.vocabulary import Method
from glaim_stream.imputers.blended_rung import BlendedRung
from glaim_stream.imputers.protocol import Imputed, Windows

WINDOWS = Windows("m", np.zeros((2, 3, 6)), np.zeros((2, 3, 6), np.bool_), 2)
SHAPE = (2, 3, 2)
ANSWER = Imputed(
    np.ones(SHAPE), np.full(SHAPE, Method.GAUSSIAN, np.int8), ["gaussian-01234567"] * 2, np.full(SHAPE, 0.5)
)


class Given:
    """A rung that answers or raises what it was given."""

    name = "gaussian"

    def __init__(self, outcome: Imputed | Exception) -> None:
        self.outcome = outcome

    async def impute(self, windows: Windows) -> Imputed:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def close(self) -> None:
        pass


async def test_an_answer_carries_the_version_of_the_form() -> None:
    found = await BlendedRung(Given(ANSWER)).answer(WINDOWS)
    assert found is not None
    assert (found.form_version, found.version) == ("gaussian-01234567", ANSWER.version)
    assert found.values is ANSWER.values
    assert found.deviation is ANSWER.deviation


async def test_a_model_without_a_form_has_no_answer_and_no_failure() -> None:
    failed: list[tuple[str, str]] = []
    expert = BlendedRung(Given(ImputerAbsent("none")), on_failure=lambda *names: failed.append(names))
    assert (await expert.answer(WINDOWS), failed) == (None, [])


async def test_a_failure_is_an_answer_without_values_that_is_logged_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed: list[tuple[str, str]] = []
    expert = BlendedRung(Given(ImputerError("singular")), on_failure=lambda *names: failed.append(names))
    with caplog.at_level(logging.WARNING):
        found = await expert.answer(WINDOWS)
    assert found is not None
    assert found.values.shape == found.method.shape == SHAPE
    assert np.isnan(found.values).all()
    assert (found.method == Method.NONE).all()
    assert (found.version, found.form_version, failed) == (["", ""], "", [("gaussian", "m")])
    assert caplog.messages == ["gaussian failed to impute 2 windows of model m: singular"]
