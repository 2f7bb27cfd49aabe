"""Asks the imputer and the closed form: one call for all holes and probes of a model, so that it can be batched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glaim_stream.core import metrics
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.form import Kind, Limits, with_directions
from glaim_stream.imputers import FormExpert, Imputed, Imputer, Windows
from glaim_stream.output import SensorTables
from glaim_stream.windows import Closed, Probes, concatenate, joined


@dataclass(frozen=True, slots=True)
class Answer:
    """A query to one model, and the answers of the imputer and of the model's closed form."""

    model_index: int
    closed: Closed | None  # rows, some of which are holes
    imputed: Imputed | None  # for the holes; None when there are none
    probes: Probes | None
    probe_imputed: Imputed | None
    upgrade: bool = False  # these rows were published before, filled by a lower rung
    form: Imputed | None = None  # for the holes; None where the model has no closed form
    probe_form: Imputed | None = None
    limits: Limits | None = None  # of the windows of holes, [n, C]; None: the training's range is not known
    probe_limits: Limits | None = None  # of the windows of probes
    kinds: Sequence[Kind] | None = None  # of the sensors, by the closed form and the catalogue; None: all are numbers
    by_clock: bool = False  # the wall clock has closed these steps, so event time has not come to them


@dataclass(frozen=True, slots=True)
class Asking:
    """What answers the queries of all partitions."""

    catalogue: Catalogue
    tables: SensorTables
    imputer: Imputer
    form_expert: FormExpert | None

    async def query(
        self,
        closed: Sequence[Closed],
        probes: Sequence[Probes] = (),
        upgrades: Sequence[Closed] = (),
        *,
        by_clock: bool = False,
    ) -> list[Answer]:
        """Query the imputer for holes, probes and upgrades; any number of queries may be pending.

        Args:
            closed: rows of closed steps.
            probes: of these steps.
            upgrades: final rows to fill again.
            by_clock: the wall clock has closed the steps.
        """
        if not closed and not probes and not upgrades:
            return []
        start_s = time.perf_counter()
        models = dict.fromkeys([each.model_index for each in closed] + [each.model_index for each in probes])
        answers = await asyncio.gather(
            *(self._query_model(index, closed, probes, by_clock=by_clock) for index in models),
            *(self._query_model(each.model_index, [each], (), upgrade=True) for each in upgrades),
        )
        metrics.impute_seconds.observe(time.perf_counter() - start_s)
        return list(answers)

    async def _query_model(
        self,
        model_index: int,
        closed: Sequence[Closed],
        probes: Sequence[Probes],
        *,
        upgrade: bool = False,
        by_clock: bool = False,
    ) -> Answer:
        """Send the windows of holes and of probes in one call, so that the imputer can batch them."""
        rows = concatenate([each for each in closed if each.model_index == model_index])
        of_model = [each for each in probes if each.model_index == model_index]
        probed = joined(of_model) if of_model else None
        hole_count = 0 if rows is None else len(rows.window_values)
        probe_count = 0 if probed is None else len(probed)
        metrics.windows.inc(hole_count)
        metrics.side_windows.inc(probe_count)
        model = self.catalogue.models[model_index]
        stacked: list[tuple[np.ndarray, ...]] = []
        if rows is not None and hole_count:
            stacked.append((rows.window_values, rows.window_observed, rows.window_ends_ms(model.step_ms)))
        if probed is not None:
            stacked.append((probed.values, probed.observed, probed.window_ends_ms(model.step_ms)))
        if not stacked:
            return Answer(model_index, rows, None, None, None, by_clock=by_clock)
        values, observed, end_ms = (
            each[0] if len(each) == 1 else np.concatenate(each) for each in zip(*stacked, strict=True)
        )
        table = self.tables[model_index]
        lags = (0, model.revise_after)  # of first estimates and final values, and of probes
        windows = Windows(
            model.name, values, observed, model.revise_after + 1, table.resolution, end_ms, lags, table.directions
        )
        imputed, form = await self._answers(windows)
        ranges = [each.trained_range for each in (imputed, form) if each is not None]
        by_form = next((each for each in (form, imputed) if each is not None and each.kinds is not None), None)
        kinds = with_directions(None if by_form is None else by_form.kinds, table.directions)
        of_form = None if by_form is None else by_form.trained_range
        limits = table.window_limits(ranges, kinds, of_form, values, observed)

        def part(answer: Imputed | None, start: int, count: int) -> Imputed | None:
            return answer.slice(start, start + count) if answer is not None and count else None

        return Answer(
            model_index,
            rows,
            part(imputed, 0, hole_count),
            probed,
            part(imputed, hole_count, probe_count),
            upgrade,
            part(form, 0, hole_count),
            part(form, hole_count, probe_count),
            None if limits is None else limits.slice(0, hole_count),
            None if limits is None else limits.slice(hole_count, len(windows)),
            kinds,
            by_clock,
        )

    async def _answers(self, windows: Windows) -> tuple[Imputed, Imputed | None]:
        """The answers of the imputer and of the closed form, at the same time."""
        if self.form_expert is None:
            return await self.imputer.impute(windows), None
        return await asyncio.gather(self.imputer.impute(windows), self.form_expert.answer(windows))
