"""The live accuracy of one partition's models: cells in, stretches that are over out.

Errors on hidden readings are a function of the input topic: a worker that rebuilds its windows asks the probes of the
open stretch again, with the errors before it that decided their values. A stretch is over when a probe beyond it is
scored, so its record is published with the rows of that step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Model
from glaim_stream.form import Kind
from glaim_stream.output.quality.cells import JudgedCells, TruthSource
from glaim_stream.output.quality.late import LateReadings
from glaim_stream.output.quality.records import Head, Record, records_of
from glaim_stream.output.quality.stretches import Stretch, Stretches
from glaim_stream.output.records import Rows


class ModelQuality:
    """The live accuracy of one model in one partition."""

    def __init__(self, model: Model) -> None:
        """Start without cells."""
        self._hidden = Stretches()
        self._late = LateReadings(model.window, model.step_ms, len(model.sensors))

    def add_probes(self, cells: JudgedCells) -> None:
        """Take the hidden readings of the newest steps."""
        self._hidden.add(cells)

    def take_until(self, reached: int) -> list[tuple[TruthSource, Stretch]]:
        """Return the stretches that are over, and forget them.

        Args:
            reached: newest step whose probes, and the rows before it, have been given.
        """
        over = [(TruthSource.HIDDEN, each) for each in self._hidden.take_until(reached)]
        return over + [(TruthSource.LATE, each) for each in self._late.take_until(reached)]

    def add_rows(self, rows: Rows, kinds: Sequence[Kind] | None = None) -> None:
        """Take published rows, in the order in which they are published.

        Args:
            rows: rows of the model.
            kinds: kinds of the sensors, as the closed form recognised them; None: all are numbers.
        """
        self._late.add(rows, kinds)

    def group_codes(self) -> list[NDArray[np.int32]]:
        """Codes of the groups that are held."""
        return [*self._hidden.group_codes(), *self._late.group_codes()]


class PartitionQuality:
    """The live accuracy of one partition."""

    def __init__(self, models: Sequence[Model], group_names: Sequence[str]) -> None:
        """Start without cells.

        Args:
            models: models of the catalogue.
            group_names: names by group code; may grow.
        """
        self.models = [ModelQuality(model) for model in models]
        self._heads = [Head(model.name, model.sensor_ids, model.step_ms, group_names) for model in models]
        self._over: list[tuple[int, TruthSource, Stretch]] = []

    def note_over(self, model_index: int, over: Sequence[tuple[TruthSource, Stretch]]) -> None:
        """Keep stretches that are over until `take`."""
        self._over += [(model_index, source, stretch) for source, stretch in over]

    def take(self) -> Iterator[Record]:
        """Yield the records of the stretches that are over since the last call."""
        over, self._over = self._over, []
        for model_index, source, stretch in over:
            yield from records_of(stretch, source, self._heads[model_index])

    def group_codes(self) -> list[NDArray[np.int32]]:
        """Codes of the groups that are held."""
        codes = [codes for model in self.models for codes in model.group_codes()]
        return codes + [stretch.cells.group for _, _, stretch in self._over]
