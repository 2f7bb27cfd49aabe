"""A partition whose live accuracy is summed up: its rows, its records, and a worker that was killed in between."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from glaim_stream.imputers import BlendedRung, Imputed, WindowImputer, Windows
from glaim_stream.output.quality.records import Record
from glaim_stream.output.records import Rows
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import newest_steps
from tests.pipeline.form_streams import NOW_MS, QUANTILES, RULES, Form
from tests.support import Neighbours, contract
from tests.support import Record as Input

Document = dict[str, Any]
# Residuals of about the errors' size: the intervals' factors are then between their limits, and follow every error.
WIDE = {name: rows if name == "gap_ages" else [[8 * each[0]] for each in rows] for name, rows in QUANTILES.items()}


def pipeline_of(
    imputer: WindowImputer, form: Form | None = None, *, quality: bool = True, share: float = 0.5
) -> Pipeline:
    contracts = {"m": contract(4, window=12, residual_quantiles=WIDE)}
    expert = None if form is None else BlendedRung(form)
    return Pipeline(RULES, contracts, imputer, form_expert=expert, score_share=share, quality=quality)


class Drifting(Neighbours):
    """A model that is good and bad in turn, so that weights and intervals never settle."""

    async def impute(self, windows: Windows) -> Imputed:
        found = await super().impute(windows)
        assert windows.end_ms is not None
        offset = 90.0 * np.sin(windows.end_ms / 23_000.0)
        return replace(found, values=found.values + offset[:, None, None])


class Partition:
    """Windows and scores of one partition, fed batch by batch."""

    def __init__(self, pipeline: Pipeline, now_ms: int = NOW_MS) -> None:
        self.pipeline, self.now_ms = pipeline, now_ms
        self.windows, self.scores = pipeline.windows(), pipeline.scores()
        self.rows: list[Rows] = []
        self.records: list[Record] = []

    async def feed(self, topic: list[Input], batch: int = 31) -> Partition:
        for start in range(0, len(topic), batch):
            applied = self.pipeline.apply(self.windows, topic[start : start + batch], now_ms=self.now_ms)
            answers = await self.pipeline.query(applied.closed, applied.probes)
            self.rows += [rows for _, rows in self.pipeline.settle(self.scores, answers)]
            if self.scores.quality is not None:
                self.records += self.scores.quality.take()
        return self

    def every_row(self) -> Rows:
        """All rows so far, in the order in which they were published."""
        return Rows(*(np.concatenate([getattr(part, name) for part in self.rows]) for name in Rows.__slots__))

    async def rebuilt(self, topic: list[Input]) -> Partition:
        """A successor that has read these records again and published nothing."""
        other = Partition(self.pipeline)
        other.windows.rebuilding = True
        probes = []
        for start in range(0, len(topic), 17):
            probes += self.pipeline.apply(other.windows, topic[start : start + 17], now_ms=self.now_ms).probes
        other.windows.rebuilding = False
        newest = newest_steps(probes, self.pipeline.error_steps)
        self.pipeline.settle(other.scores, await self.pipeline.query([], newest), again=True)
        return other


def documents(records: list[Record], source: str = "hidden") -> dict[bytes, Document]:
    """By key, the newest document of each."""
    found = {each.key: json.loads(each.value) for each in records if each.value is not None}
    return {key: each for key, each in found.items() if each["source"] == source}
