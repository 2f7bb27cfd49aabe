"""Rungs beside the ladder, whose answers are blended with its own and whose failures cost only their own answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from glaim_stream.core.errors import ImputerAbsent, ImputerError
from glaim_stream.core.vocabulary import Method
from glaim_stream.imputers.protocol import Imputed, Rung, Windows

log = logging.getLogger(__name__)


class BlendedRung:
    """The answers of the models' closed forms, or of a registered expert."""

    def __init__(self, rung: Rung, *, on_failure: Callable[[str, str], None] = lambda rung, model: None) -> None:
        """Wrap a rung.

        Args:
            rung: the imputer.
            on_failure: called with the names of the rung and the model for every batch without an answer.
        """
        self.rung, self._on_failure = rung, on_failure
        self.name = rung.name

    async def answer(self, windows: Windows) -> Imputed | None:
        """Impute; None if the rung has nothing for the windows' model.

        A failure is an answer without values, because the number of experts must not depend on it.
        """
        try:
            found = await self.rung.impute(windows)
        except ImputerAbsent:
            return None
        except ImputerError as error:
            self._on_failure(self.name, windows.model)
            log.warning("%s failed to impute %d windows of model %s: %s", self.name, len(windows), windows.model, error)
            return no_values(windows)
        return replace(found, form_version=found.version[0])


def no_values(windows: Windows) -> Imputed:
    """An answer without values."""
    shape = (*windows.values.shape[:2], windows.steps)
    return Imputed(np.full(shape, np.nan), np.full(shape, Method.NONE, np.int8), [""] * len(windows))
