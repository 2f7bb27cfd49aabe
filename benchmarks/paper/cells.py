"""The models of the paper's tables: their names and the runs that train them.

A `PaperCell` is one trained model, which can fill several places of the tables (`places`): a model trained on blocks at
0.3 has a place in the block table, a row in the shift table at four rates, and the first column of the ablations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from benchmarks.paper.datasets import DATASETS
from benchmarks.paper.published import ABLATION_RATES, RATES
from training.config import RunConfig, TrainSpec
from training.data import MaskSpec
from training.network import GLAIMConfig

SEED = 2021
PAPER_WIDTH = 128
RECIPES = ("paper", "ours", "residual", "mixed")
UNMARKED_WIDTH = 64  # the hidden dimension whose runs carry no mark in their names
TABLES = ("random", "block", "shift", "ablation", "sensitivity")

ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "no_staglo": {"use_staglo": False},
    "no_sacoref": {"use_sacoref": False},
    "no_prior": {"use_prior": False},
    "no_gate": {"use_gate": False},
}
SIZES: Mapping[str, Mapping[str, Any]] = {
    **{f"layers_{count}": {"layers": count} for count in (1, 3, 4)},
    **{f"kernel_{size}": {"large_kernel": size} for size in (31, 51)},
}
VARIANTS: Mapping[str, Mapping[str, Any]] = {"full": {}, **ABLATIONS, **SIZES}
ABLATED = ("Illness", "ETTh1", "Exchange", "ETTh2", "ETTm1", "ETTm2")
SENSITIVE = ("ETTh1", "Weather")


@dataclass(frozen=True)
class EpochBudget:
    """The length of a training by the recipe `ours`.

    Epochs of so many iterations (0: every window once), each followed by a validation on so many windows (0: all).
    """

    epochs: int
    iterations: int
    validation_windows: int


# Sized so that a cell takes some ten minutes to an hour on one core at a hidden dimension of 64. The cosine ends with
# the last epoch, so a training uses its whole budget.
BUDGETS: Mapping[str, EpochBudget] = {
    "Illness": EpochBudget(70, 0, 0),
    "Exchange": EpochBudget(10, 200, 0),
    "Weather": EpochBudget(10, 200, 400),
}
OTHER_BUDGET = EpochBudget(14, 200, 720)


@dataclass(frozen=True)
class TablePlace:
    """A trained model's place in a table: the rates it is tested at; more than one is averaged into a single line.

    `segments` replaces the default of the block sampler, to measure the effect of that choice.
    """

    table: str
    rates: tuple[float, ...]
    segments: tuple[int, int] | None = None


@dataclass(frozen=True)
class PaperCell:
    """One model to train.

    `recipe` is `paper` (Adam at a constant rate, no averaging), `ours` (twice that rate, warm-up, cosine, averaged
    weights, clipped gradients, a fixed budget of fewer iterations), `residual` (ours, and the network corrects the
    prior instead of replacing it) or `mixed` (residual, and the rate of the masks is drawn anew for every batch, from
    the whole range that the tables test; `rate` is then only the place of the cell). `epochs` shortens the recipe for a
    trial; 0 does not.
    """

    dataset: str
    pattern: str
    rate: float
    variant: str = "full"
    seed: int = SEED
    recipe: str = "paper"
    d_model: int = PAPER_WIDTH
    epochs: int = 0

    @property
    def key(self) -> str:
        """The name for --only, like ETTh1/block/0.3/full."""
        return f"{self.dataset}/{self.pattern}/{self.rate:g}/{self.variant}"

    @property
    def recipe_name(self) -> str:
        """The recipe, marked if a trial shortens it."""
        return f"{self.recipe}-e{self.epochs}" if self.epochs else self.recipe

    @property
    def name(self) -> str:
        """The run's name and its directory's."""
        parts = [self.dataset, self.pattern, f"{self.rate:g}", self.variant, f"s{self.seed}"]
        if self.recipe_name != "paper":
            parts.append(self.recipe_name)
        if self.d_model != UNMARKED_WIDTH:
            parts.append(f"d{self.d_model}")
        return "-".join(parts)

    @property
    def sizes(self) -> GLAIMConfig:
        """The network; the data determines its number of sensors."""
        d_g = DATASETS[self.dataset].d_g
        sizes = GLAIMConfig(1, d_model=self.d_model, d_g=d_g, residual=self.recipe in ("residual", "mixed"))
        return dataclasses.replace(sizes, **VARIANTS[self.variant])

    @property
    def command(self) -> str:
        """Return the command that trains and scores this cell again."""
        parts = [f"python -m benchmarks.paper --only {self.key} --d-model {self.d_model} --recipe {self.recipe}"]
        if self.variant in SIZES:
            parts.append("--tables sensitivity")
        elif self.variant in ABLATIONS:
            parts.append("--tables ablation")
        if self.epochs:
            parts.append(f"--epochs {self.epochs}")
        if self.seed != SEED:
            parts.append(f"--seed {self.seed}")
        return " ".join(parts)


def config(cell: PaperCell) -> RunConfig:
    """Return the run that trains a cell: the paper's protocol with the changes of the recipe."""
    dataset = DATASETS[cell.dataset]
    rates = (RATES[0], RATES[-1]) if cell.recipe == "mixed" else (cell.rate, cell.rate)
    masks = MaskSpec(pattern=cell.pattern, rates=rates)
    train = TrainSpec(epochs=300, batch_size=16, learning_rate=dataset.learning_rate, patience=30, seed=cell.seed)
    if cell.recipe != "paper":
        budget = BUDGETS.get(cell.dataset, OTHER_BUDGET)
        train = dataclasses.replace(
            train, epochs=budget.epochs, iterations=budget.iterations, validation_windows=budget.validation_windows,
            learning_rate=2 * train.learning_rate, schedule="cosine", warmup=100, clip_norm=1.0, ema=0.995,
            patience=300,
        )  # fmt: skip
    if cell.epochs:
        train = dataclasses.replace(train, epochs=cell.epochs)
    return RunConfig(name=cell.name, data=dataset.spec, model=cell.sizes, masks=masks, train=train)


def places(cell: PaperCell) -> list[TablePlace]:
    """Return the places in the tables that a trained cell fills."""
    if cell.variant in SIZES:
        return [TablePlace("sensitivity", (cell.rate,))]
    if cell.variant in ABLATIONS:
        return [TablePlace("ablation", ABLATION_RATES)]
    found = [TablePlace(cell.pattern, (cell.rate,))]
    if cell.rate == 0.3:
        found += [TablePlace("shift", (rate,)) for rate in RATES]
        if cell.pattern == "block" and cell.dataset in ABLATED:
            found.append(TablePlace("ablation", ABLATION_RATES))
    return found


def cells(datasets: Sequence[str], tables: Sequence[str]) -> Iterator[PaperCell]:
    """Yield the models that the tables need of these data sets, without width or recipe, the main ones first."""
    wanted = set(tables)
    main = [("block", 0.3), ("random", 0.3)]
    main += [(pattern, rate) for pattern in ("block", "random") for rate in RATES if rate != 0.3]
    for pattern, rate in main:
        uses = (
            {pattern} | ({"shift"} if rate == 0.3 else set()) | ({"ablation"} if (pattern, rate) == main[0] else set())
        )
        for dataset in datasets:
            stable = "stability" in wanted and (dataset, pattern) in STABLE
            sized = "sensitivity" in wanted and dataset in SENSITIVE and pattern == "random"
            if wanted & uses or stable or sized or "draws" in wanted:
                yield PaperCell(dataset, pattern, rate)
    if "ablation" in wanted:
        for variant in ABLATIONS:
            yield from (PaperCell(dataset, "block", 0.3, variant) for dataset in datasets if dataset in ABLATED)
    if "sensitivity" in wanted:
        for variant in SIZES:
            for rate in RATES:
                yield from (PaperCell(dataset, "random", rate, variant) for dataset in datasets if dataset in SENSITIVE)


# The trained families whose dependency matrices the paper compares.
STABLE = (("ETTh1", "random"), ("ETTh1", "block"), ("Illness", "random"))


def matches(cell: PaperCell, patterns: Sequence[str]) -> bool:
    """Whether any pattern names the cell, part by part: `ETTh1`, `*/block`, `Illness/block/0.3/no_*`.

    A pattern may stop early; the missing parts match anything.
    """
    parts = cell.key.split("/")
    for pattern in patterns:
        asked = pattern.split("/")
        if len(asked) <= len(parts) and all(map(fnmatchcase, parts, asked)):
            return True
    return not patterns
