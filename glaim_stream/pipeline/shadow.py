"""Scores another version of the network on the probes, beside the version whose values are used.

The other version gets the probe windows that the serving one has answered, after these answers were used and beside all
other work. Its answers go into metrics and nowhere else: no row, weight or interval depends on them. A call that fails
or is slow costs only its scores. Both errors are counted on the same hidden readings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend import Expert
from glaim_stream.core import metrics
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.errors import ImputerError, WindowShapeError
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import Kind, Limits
from glaim_stream.imputers import Imputed, Windows
from glaim_stream.output import SensorTables
from glaim_stream.pipeline.predictions import predict_probes
from glaim_stream.pipeline.querying import Answer
from glaim_stream.windows import Place, Probes

log = logging.getLogger(__name__)

_PAIRS = 2  # pairs of versions, by model, whose series are kept: while replicas change, two pairs may alternate

# Imputes windows by another version than the one named; None where none can be asked.
OtherVersion = Callable[[Windows, str], Awaitable[Imputed | None]]


@dataclass(frozen=True, slots=True)
class _Compared:
    """The probes of an answer, and the windows of them that the other version gets."""

    model_index: int
    probes: Probes
    serving: Imputed
    limits: Limits | None
    chosen: NDArray[np.int64]
    version: str  # version that answered them
    kinds: Sequence[Kind] | None  # kinds of the sensors, by the closed form; None: all are numbers


class Shadow:
    """The scores of the models of one worker, for all of its partitions."""

    def __init__(self, catalogue: Catalogue, tables: SensorTables, other: OtherVersion, *, most: int) -> None:
        """Start without a pair of versions.

        Args:
            catalogue: the models.
            tables: tables of their sensors.
            other: asks the other version.
            most: most windows in one call. A model has one call at a time; probes that come meanwhile are not scored.
        """
        self._catalogue, self._tables, self._other, self._most = catalogue, tables, other, most
        self._pending: dict[int, asyncio.Task[None]] = {}  # call by the model's index
        self._pairs: dict[int, list[tuple[str, str]]] = {}

    def score(self, answer: Answer) -> None:
        """Begin to score the probes of an answer; returns at once and never fails."""
        try:
            compared = self._compared(answer)
            if compared is None:
                return
            if compared.model_index in self._pending:
                self._windows(compared, "skipped", len(compared.chosen))
                return
            task = asyncio.get_running_loop().create_task(self._ask(compared))
            self._pending[compared.model_index] = task
            task.add_done_callback(lambda _: self._pending.pop(compared.model_index, None))
        except Exception:
            log.exception("the probes of an answer cannot be scored by another version")

    def _compared(self, answer: Answer) -> _Compared | None:
        """The windows of the answer's newest version, of which the newest are asked again."""
        probes, serving = answer.probes, answer.probe_imputed
        if probes is None or serving is None:
            return None
        by_model = np.flatnonzero((serving.method == Method.MODEL).any(axis=(1, 2)))
        if not len(by_model):
            return None
        version = serving.version[int(by_model[-1])]
        same = np.array([serving.version[window] == version for window in by_model.tolist()])
        chosen = by_model[same][-self._most :]
        return _Compared(answer.model_index, probes, serving, answer.probe_limits, chosen, version, answer.kinds)

    async def _ask(self, compared: _Compared) -> None:
        model, probes = self._catalogue.models[compared.model_index], compared.probes
        ends_ms = probes.window_ends_ms(model.step_ms)
        windows = Windows(
            model.name,
            probes.values[compared.chosen],
            probes.observed[compared.chosen],
            compared.serving.values.shape[2],
            self._tables[compared.model_index].resolution,
            ends_ms[compared.chosen],
            (0, model.revise_after),
        )
        try:
            found = await self._other(windows, compared.version)
            if found is None:
                return
            expected = (len(windows), *compared.serving.values.shape[1:])
            if found.values.shape != expected:
                raise WindowShapeError(f"the other version must fill {expected}, found {found.values.shape}")
            self._count(compared, found)
            self._windows(compared, "scored", len(compared.chosen))
        except ImputerError as error:
            log.warning("%s cannot be scored by another version than %s: %s", model.name, compared.version, error)
            self._windows(compared, "failed", len(compared.chosen))
        except Exception:
            log.exception("%s cannot be scored by another version than %s", model.name, compared.version)
            self._windows(compared, "failed", len(compared.chosen))

    def _count(self, compared: _Compared, found: Imputed) -> None:
        """Add the errors of both versions on the hidden readings that both have answered."""
        serving, probes = compared.serving, compared.probes
        values, method = np.full(serving.values.shape, np.nan), np.full(serving.method.shape, Method.NONE, np.int8)
        values[compared.chosen], method[compared.chosen] = found.values, found.method
        other = Imputed(values, method, [""] * len(values))
        table = self._tables[compared.model_index]
        answers = [
            predict_probes(probes, each, table, None, compared.limits, compared.kinds) for each in (serving, other)
        ]
        errors = np.abs(np.stack([each.errors(probes.truth)[:, Expert.MODEL] for each in answers]))
        known = np.flatnonzero(np.isfinite(errors).all(axis=0))
        if not len(known):
            return
        pair = compared.version, found.version[0]
        self._note(compared.model_index, pair)
        model, places = self._catalogue.models[compared.model_index], len(Place)
        key = answers[0].sensor[known] * places + answers[0].place[known]
        counts = np.bincount(key)
        sums = [np.bincount(key, each[known]) for each in errors]
        for at in np.flatnonzero(counts).tolist():
            cell = model.name, model.sensor_ids[at // places], Place(at % places).name.lower()
            for (version, against), error in zip((pair, pair[::-1]), sums, strict=True):
                metrics.shadow_error.labels(*cell, version, against).inc(float(error[at]))
                metrics.shadow_questions.labels(*cell, version, against).inc(int(counts[at]))

    def _note(self, model_index: int, pair: tuple[str, str]) -> None:
        """Keep the series of the newest pairs alone."""
        newest = pair if pair[0] < pair[1] else pair[::-1]
        pairs = self._pairs.setdefault(model_index, [])
        if newest in pairs:
            return
        pairs.append(newest)
        if len(pairs) <= _PAIRS:
            return
        one, other = pairs.pop(0)
        for version, against in ((one, other), (other, one)):
            labels = {"model": self._catalogue.models[model_index].name, "version": version, "against": against}
            for counter in (metrics.shadow_error, metrics.shadow_questions):
                counter.remove_by_labels(labels)

    def _windows(self, compared: _Compared, outcome: str, count: int) -> None:
        metrics.shadow_windows.labels(self._catalogue.models[compared.model_index].name, outcome).inc(count)
