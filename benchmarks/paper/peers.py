"""Other imputers, trained by us: networks of PyPOTS on our splits and our hidden cells, beside our own cells.

    python -m benchmarks.paper --peers --only Illness/block/0.3 --d-model 64 --minutes 10
    python -m benchmarks.paper --peers SAITS,ImputeFormer --only ETTh1

PyPOTS is an extra: pip install 'glaim-stream[peers]'. It provides the network, its loss and its Adam; this project
provides the windows, the standardisation, the hidden cells, the choice of the best epoch on validation windows, and the
score.

The `fit` of PyPOTS would hide a further random 20 % of the cells of every window and train on these alone, never on our
patterns. So its networks get the same input as from its data set class, with our gaps as target cells, drawn for
every batch as for our models. Its loss is unchanged: mean absolute error over the observed cells (ORT) plus over the
hidden ones (MIT), and that of the noise for CSDI, whose answers are draws (`benchmarks/paper/peer_networks.py`).

A peer trains on batches of 16 at the data set's learning rate, constant, at most 300 epochs with patience 30, and no
longer than `--minutes` of processor time, so that other work on the machine takes nothing from it. Epochs are as long
as in our recipe `ours`. A training cannot be resumed; a peer with a line in peers.jsonl is not run again, unless it
gets more minutes than it used.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import torch

from benchmarks.paper import lines
from benchmarks.paper.cells import BUDGETS, OTHER_BUDGET, PaperCell
from benchmarks.paper.datasets import DATASETS, WINDOW
from benchmarks.paper.lines import Line
from benchmarks.paper.peer_networks import PEERS, Peer, library, quiet
from benchmarks.paper.score import HiddenCells, baselines, parts, score, windows_of
from training.data import MaskSpec, WindowSet, draw, fit_scale, fixed_batches, hide
from training.errors import ConfigError, TrainingError
from training.evaluate import BATCH
from training.runtime import machine

FILE = "peers.jsonl"
IDENTITY = ("method", "dataset", "pattern", "train_rate", "test_rate", "seed", "sizes")
BATCH_SIZE, EPOCHS, PATIENCE = 16, 300, 30
Say = Callable[[str], None]


class Budgeted(Protocol):
    """The command line options that a run of peers uses."""

    minutes: float
    again: bool
    plan: bool
    device: str
    results: Path


def named(text: str) -> list[str]:
    """Return the peers that `--peers` names: all, or a list with commas.

    Raises:
        ConfigError: a name is unknown.
    """
    names = list(PEERS) if text == "all" else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise ConfigError(f"expected --peers of {', '.join(PEERS)}, or all; found {', '.join(unknown)}")
    return names


def cells_of(wanted: Iterable[PaperCell]) -> list[PaperCell]:
    """Return the chosen cells on which a peer can be trained, each data set, pattern and rate once."""
    return [cell for cell in dict.fromkeys(wanted) if cell.variant == "full"]


def build(method: str, sensors: int, cell: PaperCell, device: str) -> Any:
    """Build an untrained imputer of PyPOTS; the cell's seed determines its weights."""
    made = library()
    learning_rate = DATASETS[cell.dataset].learning_rate
    with quiet():
        torch.manual_seed(cell.seed)
        return getattr(made, method)(
            n_steps=WINDOW, n_features=sensors, batch_size=BATCH_SIZE, epochs=EPOCHS, device=device,
            optimizer=import_module("pypots.optim").Adam(lr=learning_rate), **PEERS[method].sizes(cell.d_model),
        )  # fmt: skip


@dataclass(frozen=True)
class TrainedPeer:
    """The result of a training; the network holds the weights of its best epoch."""

    epochs: int
    best_epoch: int
    validation: float  # error of its best epoch
    seconds: float  # wall clock, validation included
    processor_s: float  # processor time of this process; less than the wall clock on a busy machine
    ended: str  # the limit that ended it: `patience`, `epochs` or `minutes`


def train(
    peer: Peer, imputer: Any, cell: PaperCell, minutes: float, *, device: str = "cpu", say: Say = print
) -> TrainedPeer:
    """Train an imputer of PyPOTS on a cell's windows and gaps; it ends with the weights of its best epoch.

    Args:
        peer: Kind of network.
        imputer: Imputer whose `model` and `optimizer` are used.
        cell: Data set, pattern, rate and seed.
        minutes: Limit of the processor time, checked after each epoch; 0: none.
        device: Device of the imputer's weights.
        say: Receives one line for each epoch.

    Raises:
        TrainingError: the error on validation windows is no longer a number.
    """
    found = parts(cell.dataset, WINDOW)
    scale = fit_scale(found.train)
    windows = WindowSet(scale.apply(found.train.values), WINDOW)
    held_out = WindowSet(scale.apply(found.validation.values), WINDOW)
    masks = MaskSpec(pattern=cell.pattern, rates=(cell.rate, cell.rate))
    budget = BUDGETS.get(cell.dataset, OTHER_BUDGET)
    key = f"{cell.dataset}|{cell.pattern}|{cell.rate:g}|{WINDOW}"
    validation = fixed_batches(held_out, masks, BATCH, budget.validation_windows, key)
    network, optimiser = imputer.model, imputer.optimizer

    began, spent = time.monotonic(), time.process_time()
    best, best_epoch, weights = float("inf"), 0, copy.deepcopy(network.state_dict())
    epoch, ended = 0, ""
    while not ended:
        torch.manual_seed(cell.seed * 1000 + epoch)
        network.train()
        drawn = draw(windows, masks, BATCH_SIZE, cell.seed, epoch)
        for one in islice(drawn, budget.iterations or None):
            optimiser.zero_grad()
            network(peer.inputs(hide(one.values, one.hidden), device), calc_criterion=True)["loss"].sum().backward()
            optimiser.step()
        epoch += 1
        error = peer.error(network, validation, device)
        if not math.isfinite(error):
            raise TrainingError(
                f"epoch {epoch}: the validation {peer.criterion} is {error}, so the training has diverged"
            )
        if error < best:
            best, best_epoch, weights = error, epoch, copy.deepcopy(network.state_dict())
        seconds, processor_s = time.monotonic() - began, time.process_time() - spent
        say(
            f"epoch {epoch}  validation {peer.criterion} {error:.4f}, best {best:.4f} of epoch {best_epoch}, "
            f"{processor_s:.0f} s"
        )
        if epoch - best_epoch >= PATIENCE:
            ended = "patience"
        elif epoch >= EPOCHS:
            ended = "epochs"
        elif minutes and processor_s >= 60 * minutes:
            ended = "minutes"
    network.load_state_dict(weights)
    return TrainedPeer(epoch, best_epoch, best, seconds, processor_s, ended)


def identified(method: str, cell: PaperCell) -> Line:
    """Return the part of a line that identifies it."""
    return {
        "method": method,
        "dataset": cell.dataset,
        "pattern": cell.pattern,
        "train_rate": cell.rate,
        "test_rate": cell.rate,
        "seed": cell.seed,
        "sizes": PEERS[method].sizes(cell.d_model),
    }


def measure(method: str, cell: PaperCell, minutes: float, *, device: str = "cpu", say: Say = print) -> Line:
    """Train a peer on a cell, score it on the cell's test windows, and return the line.

    Raises:
        ConfigError: PyPOTS is absent.
        DataError: the data set is absent.
    """
    peer, sensors = PEERS[method], DATASETS[cell.dataset].sensors
    imputer = build(method, sensors, cell, device)
    trained = train(peer, imputer, cell, minutes, device=device, say=say)
    every = peer.every(len(windows_of(cell.dataset, WINDOW)))
    cells = HiddenCells(cell.dataset, cell.pattern, cell.rate, every=every)
    say(f"fills {len(cells)} test windows")
    torch.manual_seed(cell.seed)  # some draw their answers
    result, bars = score(peer.fill(imputer.model, device), cells), baselines(cells)
    return {
        **identified(method, cell),
        "mse": result.mse,
        "mae": result.mae,
        "windows": result.windows,
        "parameters": sum(one.numel() for one in imputer.model.parameters()),
        "learning_rate": DATASETS[cell.dataset].learning_rate,
        "epochs": trained.epochs,
        "best_epoch": trained.best_epoch,
        f"validation_{peer.criterion}": trained.validation,
        "seconds": round(trained.seconds, 1),
        "processor_s": round(trained.processor_s, 1),
        "minutes": minutes,
        "ended": trained.ended,
        **{f"{name}_mse": one.mse for name, one in bars.items()},
        **{f"{name}_mae": one.mae for name, one in bars.items()},
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": command(method, cell, minutes),
        "pypots": version("pypots"),
    }


def command(method: str, cell: PaperCell, minutes: float) -> str:
    """Return the command that trains and scores this peer again."""
    only = f"{cell.dataset}/{cell.pattern}/{cell.rate:g}"
    seed = f" --seed {cell.seed}" if cell.seed != PaperCell.seed else ""
    sized = f"--d-model {cell.d_model} --minutes {minutes:g}"
    return f"python -m benchmarks.paper --peers {method} --only {only} {sized}{seed}"


def is_done(line: Line | None, minutes: float) -> bool:
    """Whether there is a line, and more minutes would not change it."""
    if line is None:
        return False
    longer = minutes > line["minutes"] or minutes == 0
    return not (line["ended"] == "minutes" and line["minutes"] and longer)


def run(names: Sequence[str], cells: Sequence[PaperCell], given: Budgeted, until: float, say: Say = print) -> None:
    """Train and score peers one after the other, storing each line at once.

    Args:
        names: Keys of PEERS.
        cells: Data sets, patterns and rates.
        given: Minutes of processor time for each peer, whether to repeat finished ones, device, the file of the lines.
        until: Monotonic seconds after which no further one begins.
        say: Receives lines of progress.

    Raises:
        ConfigError: PyPOTS is absent and something is left to train, or the minutes are negative.
    """
    if given.minutes < 0:
        raise ConfigError(f"expected --minutes of 0 or more, found {given.minutes:g}")
    file = given.results.parent / FILE
    kept = {lines.identity(line, IDENTITY): line for line in lines.read(file)}
    pairs = [(method, cell) for cell in cells_of(cells) for method in names]
    todo = [
        (method, cell)
        for method, cell in pairs
        if given.again or not is_done(kept.get(lines.identity(identified(method, cell), IDENTITY)), given.minutes)
    ]
    say(f"{len(pairs)} peers, {len(pairs) - len(todo)} done before")
    for method, cell in todo:
        if given.plan:
            say(f"{_called(method, cell)}  to train, at most {given.minutes:g} minutes")
        elif time.monotonic() < until:
            line = measure(method, cell, given.minutes, device=given.device, say=_prefixed(say, _called(method, cell)))
            lines.put(file, [line], IDENTITY)
            say(f"{_called(method, cell)}  {line['mse']:.3f} / {line['mae']:.3f} after {line['epochs']} epochs")


def _called(method: str, cell: PaperCell) -> str:
    return f"{cell.dataset}/{cell.pattern}/{cell.rate:g}  {method}"


def _prefixed(say: Say, begin: str) -> Say:
    return lambda text: say(f"{begin}  {text}")
