"""Other imputers, trained by us: networks of PyPOTS on our splits and our hidden cells, beside our own cells.

    python -m training.benchmark --peers --only Illness/block/0.3 --d-model 64 --minutes 10
    python -m training.benchmark --peers SAITS,ImputeFormer --only ETTh1

PyPOTS is an extra: pip install 'glaim-stream[peers]'. It provides the network, its loss and its Adam; this project
provides the windows, the standardisation, the hidden cells, the choice of the best epoch by validation MSE, and the
score.

The `fit` of PyPOTS would hide a further random 20 % of the cells of every window and train on these alone, never on our
patterns. So its networks get the same input as from its data set class, with our gaps as target cells, drawn for
every batch as for our models. Its loss is unchanged: mean absolute error over the observed cells (ORT) plus over the
hidden ones (MIT).

A peer trains on batches of 16 at the data set's learning rate, constant, at most 300 epochs with patience 30, and no
longer than `--minutes` of processor time, so that other work on the machine takes nothing from it. Epochs are as long
as in our recipe `ours`. A training cannot be resumed; a peer with a line in peers.jsonl is not run again, unless it
gets more minutes than it used.

CSDI is not among them. It draws an answer in 50 steps of a diffusion, which takes 0.3 s a window of seven sensors with
two layers of 32 channels (one core of an AMD EPYC, 2026-11-25), so 15 minutes for an ETTh1 cell. Its authors average
100 such draws.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from training.benchmark import lines
from training.benchmark.cells import BUDGETS, OTHER_BUDGET, Cell
from training.benchmark.datasets import DATASETS, WINDOW
from training.benchmark.lines import Line
from training.benchmark.score import HiddenCells, baselines, parts, score
from training.data.batches import draw
from training.data.masks import MaskSpec
from training.data.outages import Bools
from training.data.series import Floats, fit_scale
from training.data.windows import Batch, WindowSet, fixed_batches, hide
from training.errors import ConfigError, TrainingError
from training.evaluate import BATCH, Fill, Tally
from training.runtime import machine

FILE = "peers.jsonl"
IDENTITY = ("method", "dataset", "pattern", "train_rate", "test_rate", "seed", "sizes")
BATCH_SIZE, EPOCHS, PATIENCE = 16, 300, 30
INSTALL = "pip install 'glaim-stream[peers]'"
Say = Callable[[str], None]


def _transformer(width: int) -> dict[str, Any]:
    """Return two layers of four heads with a feed-forward part of twice the width: the sizes of our own blocks."""
    head = width // 4
    return {"n_layers": 2, "d_model": width, "n_heads": 4, "d_k": head, "d_v": head, "d_ffn": 2 * width, "dropout": 0.1}


# Width (--d-model) -> sizes, small enough for a CPU and the same for every data set. At 64, PatchTST and iTransformer
# have as many parameters as in the paper's efficiency table. The published ImputeFormer is larger: three layers
# of 24 + 80 dimensions.
PEERS: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "SAITS": _transformer,
    "ImputeFormer": lambda width: {
        "n_layers": 2, "d_input_embed": width // 2, "d_learnable_embed": width // 2, "d_proj": 8, "d_ffn": 2 * width,
        "n_temporal_heads": 4, "dropout": 0.1,
    },
    "PatchTST": lambda width: {**_transformer(width), "attn_dropout": 0.0, "patch_size": 16, "patch_stride": 8},
    "TimesNet": lambda width: {
        "n_layers": 2, "top_k": 3, "d_model": width, "d_ffn": width, "n_kernels": 2, "dropout": 0.1,
    },
    "iTransformer": lambda width: {**_transformer(width), "attn_dropout": 0.0},
}  # fmt: skip


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


def library() -> Any:
    """Import pypots.imputation without its banner.

    Raises:
        ConfigError: it is not installed, or cannot be imported.
    """
    if find_spec("pypots") is None:
        raise ConfigError(f"--peers needs PyPOTS, which is not installed: {INSTALL}")
    try:
        with _quiet():
            found = import_module("pypots.imputation")
    except ImportError as error:
        raise ConfigError(f"PyPOTS is installed but cannot be imported ({error}): {INSTALL}") from error
    logging.getLogger("PyPOTS running log").setLevel(logging.ERROR)  # PyPOTS warns that it saves nothing
    return found


def _quiet() -> contextlib.redirect_stdout[io.TextIOWrapper]:
    """A replacement of stdout that drops a banner; the banner reads the encoding, which StringIO lacks."""
    return contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))


def cells_of(wanted: Iterable[Cell]) -> list[Cell]:
    """Return the chosen cells on which a peer can be trained, each data set, pattern and rate once."""
    return [cell for cell in dict.fromkeys(wanted) if cell.variant == "full"]


def inputs(batch: Batch, device: str = "cpu") -> dict[str, Tensor]:
    """Convert a batch to the input of PyPOTS's networks, float tensors [B, T, C].

    `X` is 0 where missing or hidden, `missing_mask` is 1 where observed (despite PyPOTS's name), `X_ori` is the truth,
    `indicating_mask` is 1 at the hidden cells: the same as its own data sets make from arrays with NaN.
    """
    arrays: dict[str, Floats | Bools] = {
        "X": batch.values, "missing_mask": batch.observed, "X_ori": batch.truth, "indicating_mask": batch.hidden,
    }  # fmt: skip
    return {
        name: torch.from_numpy(array).to(device, torch.float32).transpose(1, 2).contiguous()
        for name, array in arrays.items()
    }


def build(method: str, sensors: int, cell: Cell, device: str) -> Any:
    """Build an untrained imputer of PyPOTS; the cell's seed determines its weights."""
    made = library()
    learning_rate = DATASETS[cell.dataset].learning_rate
    with _quiet():
        torch.manual_seed(cell.seed)
        return getattr(made, method)(
            n_steps=WINDOW, n_features=sensors, batch_size=BATCH_SIZE, epochs=EPOCHS, device=device,
            optimizer=import_module("pypots.optim").Adam(lr=learning_rate), **PEERS[method](cell.d_model),
        )  # fmt: skip


def fill_of(network: torch.nn.Module, device: str = "cpu") -> Fill:
    """Wrap the network as a function of arrays, values and observed [B, C, T] -> filled [B, C, T]."""

    def fill(values: Floats, observed: Bools) -> Floats:
        network.eval()
        seen = inputs(Batch(values, observed, values, ~observed), device)
        with torch.inference_mode():
            answer = network({name: seen[name] for name in ("X", "missing_mask")})["imputation"]
        filled: Floats = answer.transpose(1, 2).cpu().numpy()
        return filled

    return fill


def _validate(fill: Fill, batches: Sequence[Batch], sensors: int) -> float:
    """Return the MSE over all hidden cells of the batches, standardised."""
    tally = Tally(sensors)
    for batch in batches:
        tally.add(fill(batch.values, batch.observed), batch.truth, batch.hidden)
    return float(tally.squared.sum() / max(int(tally.count.sum()), 1))


@dataclass(frozen=True)
class Trained:
    """The result of a training; the network holds the weights of its best epoch."""

    epochs: int
    best_epoch: int
    validation_mse: float
    seconds: float  # wall clock, validation included
    processor_s: float  # of this process; less than the wall clock on a busy machine
    ended: str  # by `patience`, `epochs` or `minutes`


def train(imputer: Any, cell: Cell, minutes: float, *, device: str = "cpu", say: Say = print) -> Trained:
    """Train an imputer of PyPOTS on a cell's windows and gaps; it ends with the weights of its best epoch.

    Args:
        imputer: Its `model` and `optimizer` are used.
        cell: Data set, pattern, rate and seed.
        minutes: Limit of the processor time, checked after each epoch; 0: none.
        device: Device of the imputer's weights.
        say: Receives one line for each epoch.

    Raises:
        TrainingError: the validation MSE is no longer a number.
    """
    found = parts(cell.dataset, WINDOW)
    scale = fit_scale(found.train)
    windows = WindowSet(scale.apply(found.train.values), WINDOW)
    held_out = WindowSet(scale.apply(found.validation.values), WINDOW)
    masks = MaskSpec(pattern=cell.pattern, rates=(cell.rate, cell.rate))
    budget = BUDGETS.get(cell.dataset, OTHER_BUDGET)
    key = f"{cell.dataset}|{cell.pattern}|{cell.rate:g}|{WINDOW}"
    validation = fixed_batches(held_out, masks, BATCH, budget.validation_windows, key)
    sensors = DATASETS[cell.dataset].sensors
    network, optimiser = imputer.model, imputer.optimizer
    fill = fill_of(network, device)

    began, spent = time.monotonic(), time.process_time()
    best, best_epoch, weights = float("inf"), 0, copy.deepcopy(network.state_dict())
    epoch, ended = 0, ""
    while not ended:
        torch.manual_seed(cell.seed * 1000 + epoch)
        network.train()
        drawn = draw(windows, masks, BATCH_SIZE, cell.seed, epoch)
        for one in islice(drawn, budget.iterations or None):
            optimiser.zero_grad()
            network(inputs(hide(one.values, one.hidden), device), calc_criterion=True)["loss"].sum().backward()
            optimiser.step()
        epoch += 1
        mse = _validate(fill, validation, sensors)
        if not math.isfinite(mse):
            raise TrainingError(f"the validation MSE of epoch {epoch} is {mse}: the training has diverged")
        if mse < best:
            best, best_epoch, weights = mse, epoch, copy.deepcopy(network.state_dict())
        seconds, processor_s = time.monotonic() - began, time.process_time() - spent
        say(f"epoch {epoch}  validation MSE {mse:.4f}, best {best:.4f} of epoch {best_epoch}, {processor_s:.0f} s")
        if epoch - best_epoch >= PATIENCE:
            ended = "patience"
        elif epoch >= EPOCHS:
            ended = "epochs"
        elif minutes and processor_s >= 60 * minutes:
            ended = "minutes"
    network.load_state_dict(weights)
    return Trained(epoch, best_epoch, best, seconds, processor_s, ended)


def identified(method: str, cell: Cell) -> Line:
    """Return the part of a line that identifies it."""
    return {
        "method": method,
        "dataset": cell.dataset,
        "pattern": cell.pattern,
        "train_rate": cell.rate,
        "test_rate": cell.rate,
        "seed": cell.seed,
        "sizes": PEERS[method](cell.d_model),
    }


def measure(method: str, cell: Cell, minutes: float, *, device: str = "cpu", say: Say = print) -> Line:
    """Train a peer on a cell, score it on the cell's test windows, and return the line.

    Raises:
        ConfigError: PyPOTS is absent.
        DataError: the data set is absent.
    """
    sensors = DATASETS[cell.dataset].sensors
    imputer = build(method, sensors, cell, device)
    trained = train(imputer, cell, minutes, device=device, say=say)
    cells = HiddenCells(cell.dataset, cell.pattern, cell.rate)
    result, bars = score(fill_of(imputer.model, device), cells), baselines(cells)
    return {
        **identified(method, cell),
        "mse": result.mse,
        "mae": result.mae,
        "windows": result.windows,
        "parameters": sum(one.numel() for one in imputer.model.parameters()),
        "learning_rate": DATASETS[cell.dataset].learning_rate,
        "epochs": trained.epochs,
        "best_epoch": trained.best_epoch,
        "validation_mse": trained.validation_mse,
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


def command(method: str, cell: Cell, minutes: float) -> str:
    """Return the command that trains and scores this peer again."""
    only = f"{cell.dataset}/{cell.pattern}/{cell.rate:g}"
    seed = f" --seed {cell.seed}" if cell.seed != Cell.seed else ""
    sized = f"--d-model {cell.d_model} --minutes {minutes:g}"
    return f"python -m training.benchmark --peers {method} --only {only} {sized}{seed}"


def is_done(line: Line | None, minutes: float) -> bool:
    """Whether there is a line, and more minutes would not change it."""
    if line is None:
        return False
    longer = minutes > line["minutes"] or minutes == 0
    return not (line["ended"] == "minutes" and line["minutes"] and longer)


def run(names: Sequence[str], cells: Sequence[Cell], given: Budgeted, until: float, say: Say = print) -> None:
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


def _called(method: str, cell: Cell) -> str:
    return f"{cell.dataset}/{cell.pattern}/{cell.rate:g}  {method}"


def _prefixed(say: Say, begin: str) -> Say:
    return lambda text: say(f"{begin}  {text}")
