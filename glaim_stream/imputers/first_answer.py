"""First calls to an imputer: one typical window of each model, with the newest step missing.

A server's health endpoints can stay green while the interpreter behind a model is dead. Only an answer shows that the
model works.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

import numpy as np

from glaim_stream.core.contract import Contract
from glaim_stream.core.errors import GlaimError
from glaim_stream.core.retry import FIRST_ANSWER, Retry
from glaim_stream.imputers.protocol import Rung, Windows

log = logging.getLogger(__name__)


def typical_windows(contract: Contract) -> Windows:
    """One window in which every sensor has its training mean and the newest step is missing.

    values: float64 [1, C, window] in sensor units; observed: bool of the same shape; steps: all that the model emits.
    """
    shape = (1, len(contract.sensors), contract.window)
    means = np.array([sensor.mean for sensor in contract.sensors])
    values = np.broadcast_to(means[None, :, None], shape).copy()
    observed = np.ones(shape, bool)
    values[..., -1], observed[..., -1] = 0, False
    return Windows(contract.name, values, observed, contract.emitted_steps)


def empty_windows(contract: Contract) -> Windows:
    """One window of the same shape without any observation, which a model may handle wrongly."""
    typical = typical_windows(contract)
    return Windows(
        typical.model, np.zeros_like(typical.values), np.zeros_like(typical.observed), contract.emitted_steps
    )


async def first_answers(
    rung: Rung,
    contracts: Mapping[str, Contract],
    *,
    on_answer: Callable[[str], object],
    on_failure: Callable[[str, str], object],
    retry: Retry = FIRST_ANSWER,
) -> None:
    """Query all models side by side until each has answered once, so that a missing model delays no other.

    Args:
        rung: called directly, without its breakers, so a failed attempt delays no batch.
        contracts: contracts of the models to query, by model name.
        on_answer: called with the name of each model that has answered.
        on_failure: called with the model's name and the reason after every failed attempt.
        retry: pauses after a model's failed attempts.
    """

    async def first_answer(name: str, windows: Windows) -> None:
        await retry.until_done(
            lambda: rung.impute(windows), GlaimError,
            lambda error, _: on_failure(name, f"{rung.name} has not answered yet: {error}"),
        )  # fmt: skip
        on_answer(name)
        log.info("%s answers for model %s", rung.name, name)

    await asyncio.gather(*(first_answer(name, typical_windows(contract)) for name, contract in contracts.items()))
