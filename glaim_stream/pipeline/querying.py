"""Queries the imputer and the closed form: one call for all holes and probes of a model, so that it can be batched."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from glaim_stream.core import metrics
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.form import Kind, Limits, with_directions
from glaim_stream.imputers import BlendedRung, Imputed, WindowImputer, Windows, no_values
from glaim_stream.output import SensorTables
from glaim_stream.windows import Closed, Probes, concatenate, joined

T = TypeVar("T", Imputed, Limits)


@dataclass(frozen=True, slots=True)
class Answer:
    """A query to one model, and the answers of the imputer and of the model's closed form."""

    model_index: int
    closed: Closed | None  # rows, some of which are holes
    imputed: Imputed | None  # answer for the holes; None when there are none
    probes: Probes | None
    probe_imputed: Imputed | None
    upgrade: bool = False  # these rows were published before, filled by a lower rung
    form: Imputed | None = None  # answer for the holes; None where the model has no closed form
    probe_form: Imputed | None = None
    limits: Limits | None = None  # limits of the windows of holes, [n, C]; None: unknown
    probe_limits: Limits | None = None  # limits of the windows of probes
    kinds: Sequence[Kind] | None = None  # sensors' kinds by closed form and catalogue; None: all are numbers
    by_clock: bool = False  # the wall clock has closed these steps, so event time has not come to them
    added: Sequence[Imputed] = ()  # answers of the registered experts for the holes, in the order of their numbers
    probe_added: Sequence[Imputed] = ()


@dataclass(frozen=True, slots=True)
class Querying:
    """The imputer and the closed forms, which answer the queries of all partitions."""

    catalogue: Catalogue
    tables: SensorTables
    imputer: WindowImputer
    form_expert: BlendedRung | None
    experts: Mapping[str, Sequence[BlendedRung]]  # registered ones by model, in the order of their numbers

    async def query(
        self,
        model_index: int,
        closed: Sequence[Closed],
        probes: Sequence[Probes],
        *,
        upgrade: bool = False,
        by_clock: bool = False,
    ) -> Answer:
        """Query one model for the windows of holes and of probes, in one call, so that the imputer can batch them.

        Args:
            model_index: index of the model.
            closed: rows of closed steps, of any model.
            probes: probes of these steps.
            upgrade: whether the rows were published before, filled by a lower rung.
            by_clock: whether the wall clock has closed the steps.
        """
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
        lags = (0, model.revise_after)  # lags of first estimates and final values, and of probes
        windows = Windows(
            model.name, values, observed, model.revise_after + 1, table.resolution, end_ms, lags, table.directions
        )
        imputed, form, added = await self._ask(windows)
        ranges = [each.trained_range for each in (imputed, form) if each is not None]
        by_form = next((each for each in (form, imputed) if each is not None and each.kinds is not None), None)
        kinds = with_directions(None if by_form is None else by_form.kinds, table.directions)
        of_form = None if by_form is None else by_form.trained_range
        limits = table.window_limits(ranges, kinds, of_form, values, observed)
        cut = hole_count, len(windows)
        hole_imputed, probe_imputed = _split(imputed, *cut)
        hole_form, probe_form = _split(form, *cut)
        split_added = [_split(each, *cut) for each in added]
        hole_limits, probe_limits = _split(limits, *cut)
        return Answer(
            model_index,
            rows,
            hole_imputed,
            probed,
            probe_imputed,
            upgrade,
            hole_form,
            probe_form,
            hole_limits,
            probe_limits,
            kinds,
            by_clock,
            [each for each, _ in split_added if each is not None],
            [each for _, each in split_added if each is not None],
        )

    async def _ask(self, windows: Windows) -> tuple[Imputed, Imputed | None, Sequence[Imputed]]:
        """Ask the imputer, the closed form and the registered experts at the same time."""
        beside = [*([self.form_expert] if self.form_expert else []), *self.experts.get(windows.model, ())]
        answers = asyncio.gather(*(each.answer(windows) for each in beside))
        imputed, found = await asyncio.gather(self.imputer.impute(windows), answers)
        form = found.pop(0) if self.form_expert else None
        return imputed, form, [each or no_values(windows) for each in found]


def _split(of_windows: T | None, holes: int, count: int) -> tuple[T | None, T | None]:
    """Split entries of windows into those of holes, which come first, and of probes; None where there are none."""
    if of_windows is None:
        return None, None
    return of_windows.slice(0, holes) if holes else None, of_windows.slice(holes, count) if count > holes else None
