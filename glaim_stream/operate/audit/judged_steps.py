"""The steps that an audit judges: the steps of a stretch of event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.operate.audit.keys import Bools, Ints
from glaim_stream.operate.audit.model_columns import ModelColumns

_FIRST, _LAST = -(1 << 62), 1 << 62


@dataclass(frozen=True, slots=True)
class JudgedSteps:
    """The first step to judge and the one after the last, for each model; int64 [models]."""

    first: Ints
    end: Ints

    @classmethod
    def between(cls, since_ms: int | None, until_ms: int | None, columns: ModelColumns) -> JudgedSteps:
        """The steps that lie as a whole in `[since_ms, until_ms)`; None sets no bound."""
        step_ms = columns.step_ms
        none = np.zeros(len(step_ms), np.int64)
        first = none + _FIRST if since_ms is None else -(-since_ms // step_ms)
        return cls(first, none + _LAST if until_ms is None else until_ms // step_ms)

    def holds(self, step: Ints, model: NDArray[np.integer[Any]]) -> Bools:
        """True where a step of a model is judged; bool [n]."""
        judged: Bools = (step >= self.first[model]) & (step < self.end[model])
        return judged
