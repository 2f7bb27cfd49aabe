"""The plan of a benchmark: finished and begun cells, and an estimate of the remaining time from earlier trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.paper.cells import PaperCell, config, places
from benchmarks.paper.datasets import DATASETS, WINDOW
from benchmarks.paper.lines import Line, identity
from benchmarks.paper.run import CellProgress, identified, progress
from training.runtime import describe


@dataclass(frozen=True)
class Entry:
    """One cell of the plan; `left_s` is None if nothing comparable was trained yet."""

    cell: PaperCell
    state: CellProgress | None
    scored: bool  # has all lines of a finished training
    epochs: int  # most epochs of its recipe
    left_s: float | None

    @property
    def status(self) -> str:
        """State of the cell, in one or two words."""
        if self.scored:
            return "done"
        if self.state is None:
            return "to train"
        return "to score" if self.state.finished else f"epoch {self.state.last.epoch} of {self.epochs}"


def is_scored(cell: PaperCell, kept: Mapping[str, Line], epoch: int | None = None) -> bool:
    """Whether all lines of a cell exist, from a finished training, or from this `epoch` or a later one."""
    lines = [kept.get(identity(identified(cell, place))) for place in places(cell)]
    return all(line is not None and (line["finished"] if epoch is None else line["epochs"] >= epoch) for line in lines)


def cost(cell: PaperCell) -> float:
    """Return the cost of an epoch in an arbitrary unit: windows times sensors, and a factor for the width."""
    dataset = DATASETS[cell.dataset]
    run = config(cell)
    windows = dataset.rows[0] - WINDOW + 1
    if run.train.iterations:
        windows = min(windows, run.train.iterations * run.train.batch_size)
    return float(windows + dataset.rows[1]) * dataset.sensors * (cell.d_model / 64)


def make(cells: Sequence[PaperCell], kept: Mapping[str, Line], root: Path) -> list[Entry]:
    """Make the plan; a checkpoint of another cell raises ConfigError."""
    states = [progress(cell, root) for cell in cells]
    known = [(cell, state) for cell, state in zip(cells, states, strict=True) if state and state.last.epoch]
    pace = sum(state.last.seconds for _, state in known) / max(
        sum(cost(cell) * state.last.epoch for cell, state in known), 1e-9
    )
    entries = []
    for cell, state in zip(cells, states, strict=True):
        scored = is_scored(cell, kept)
        epochs = config(cell).train.epochs
        ended = [s.last.epoch for c, s in known if s.finished and c.recipe == cell.recipe and c.dataset == cell.dataset]
        expected = sum(ended) / len(ended) if ended else epochs
        left: float | None = None
        if scored or (state is not None and state.finished):
            left = 0.0
        elif state is not None and state.last.epoch:
            left = max(0.0, expected - state.last.epoch) * state.last.seconds / state.last.epoch
        elif known:
            left = expected * cost(cell) * pace
        entries.append(Entry(cell, state, scored, epochs, left))
    return entries


def text(entries: Sequence[Entry], jobs: int) -> str:
    """Return the plan as text: every cell, then the sum."""
    width = max((len(entry.cell.key) for entry in entries), default=0)
    lines = []
    for entry in entries:
        about = "" if not entry.left_s else f"  about {describe(entry.left_s)}"
        lines.append(f"{entry.cell.key:<{width}}  {entry.status}{about}")
    done = sum(entry.scored for entry in entries)
    left = [entry.left_s for entry in entries]
    if any(value is None for value in left):
        total = "no estimate: nothing of this recipe and size was trained here yet"
    else:
        total = f"about {describe(sum(value or 0.0 for value in left) / jobs)} of training left with {jobs} at a time"
    return "\n".join([*lines, f"{len(entries)} cells, {done} done; {total}"])
