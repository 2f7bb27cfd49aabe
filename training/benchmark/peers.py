"""Other imputers, trained by us: networks of PyPOTS on our splits and our hidden cells, beside our own cells.

    python -m training.benchmark --peers --only Illness/block/0.3 --d-model 64 --minutes 10
    python -m training.benchmark --peers SAITS,ImputeFormer --only ETTh1

PyPOTS is an extra: pip install 'glaim-stream[peers]'. From it come the network, its loss and its Adam; from here the
windows, the standardisation, the hidden cells, the choice of the best epoch by the validation MSE, and the score.

Its own `fit` would hide a further 20 % of the single cells of every window, at random, and ask the network for these
alone; a pattern of ours in its input would never be asked for. So we hand its networks what its data set class makes,
with our gaps as the cells that are asked for, drawn anew for every batch as for our own cells. Its loss stays as it is:
mean absolute error, over the observed cells (ORT) plus over the hidden ones (MIT).

A peer trains on batches of 16 at the data set's learning rate, constant, at most 300 epochs with patience 30, and no
longer than `--minutes`. Epochs are as long as in our recipe `ours`. It is not resumed within a training; what has its
line in training/results/peers.jsonl is not run again, unless it is given more minutes than it needed.
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
from training.benchmark.score import baselines, parts, score
from training.data.batches import draw
from training.data.masks import SEGMENTS, MaskSpec
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
    """Two layers of four heads, their feed-forward part twice as wide: the sizes of our own cells' blocks."""
    head = width // 4
    return {"n_layers": 2, "d_model": width, "n_heads": 4, "d_k": head, "d_v": head, "d_ffn": 2 * width, "dropout": 0.1}


# Width (--d-model) -> sizes, small enough for a CPU and the same for every data set. At 64, PatchTST and iTransformer
# have as many parameters as the paper's efficiency table gives them. The published ImputeFormer is larger: three layers
# of 24 + 80 dimensions.
PEERS: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "SAITS": _transformer,
    "ImputeFormer": lambda width: {
        "n_layers": 2, "d_input_embed": width // 2, "d_learnable_embed": width // 2, "d_proj": 8, "d_ffn": 2 * width,
        "n_temporal_heads": 4, "dropout": 0.1,
    },
    "PatchTST": lambda width: {**_transformer(width), "attn_dropout": 0.0, "patch_size": 16, "patch_stride": 8},
    "iTransformer": lambda width: {**_transformer(width), "attn_dropout": 0.0},
}  # fmt: skip


class Budgeted(Protocol):
    """What of the command line a run of peers goes by."""

    minutes: float
    again: bool
    plan: bool
    device: str
    results: Path


def named(text: str) -> list[str]:
    """The peers that `--peers` names: all of them, or a list with commas.

    Raises:
        ConfigError: one that is not known.
    """
    names = list(PEERS) if text == "all" else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise ConfigError(f"expected --peers of {', '.join(PEERS)}, or all; found {', '.join(unknown)}")
    return names


def library() -> Any:
    """pypots.imputation, imported without its banner.

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
    logging.getLogger("PyPOTS running log").setLevel(logging.ERROR)  # it warns that it saves nothing
    return found


def _quiet() -> contextlib.redirect_stdout[io.TextIOWrapper]:
    """Keeps a banner off stdout; it asks for the encoding, which StringIO has not."""
    return contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))


def cells_of(wanted: Iterable[Cell]) -> list[Cell]:
    """Of the chosen cells those whose data, pattern and rate a peer can be trained on, each once."""
    return [cell for cell in dict.fromkeys(wanted) if cell.variant == "full"]


def inputs(batch: Batch, device: str = "cpu") -> dict[str, Tensor]:
    """A batch as PyPOTS's networks take it, float tensors [B, T, C].

    `X` holds 0 where the network may not see, `missing_mask` is 1 where it may (PyPOTS's name notwithstanding),
    `X_ori` is the truth, `indicating_mask` 1 where it is asked for: what its own data sets make of NaN-marked arrays.
    """
    arrays: dict[str, Floats | Bools] = {
        "X": batch.values, "missing_mask": batch.observed, "X_ori": batch.truth, "indicating_mask": batch.hidden,
    }  # fmt: skip
    return {
        name: torch.from_numpy(array).to(device, torch.float32).transpose(1, 2).contiguous()
        for name, array in arrays.items()
    }


def build(method: str, sensors: int, cell: Cell, device: str) -> Any:
    """An untrained imputer of PyPOTS; its weights follow from the cell's seed."""
    made = library()
    learning_rate = DATASETS[cell.dataset].learning_rate
    with _quiet():
        torch.manual_seed(cell.seed)
        return getattr(made, method)(
            n_steps=WINDOW, n_features=sensors, batch_size=BATCH_SIZE, epochs=EPOCHS, device=device,
            optimizer=import_module("pypots.optim").Adam(lr=learning_rate), **PEERS[method](cell.d_model),
        )  # fmt: skip


def fill_of(network: torch.nn.Module, device: str = "cpu") -> Fill:
    """The network as a plain function of arrays, values and observed [B, C, T] -> filled [B, C, T]."""

    def fill(values: Floats, observed: Bools) -> Floats:
        network.eval()
        seen = inputs(Batch(values, observed, values, ~observed), device)
        with torch.inference_mode():
            answer = network({name: seen[name] for name in ("X", "missing_mask")})["imputation"]
        filled: Floats = answer.transpose(1, 2).cpu().numpy()
        return filled

    return fill


def _validate(fill: Fill, batches: Sequence[Batch], sensors: int) -> float:
    """MSE over all hidden cells of the batches, standardised."""
    tally = Tally(sensors)
    for batch in batches:
        tally.add(fill(batch.values, batch.observed), batch.truth, batch.hidden)
    return float(tally.squared.sum() / max(int(tally.count.sum()), 1))


@dataclass(frozen=True)
class Trained:
    """How a training went; the network holds the weights of its best epoch."""

    epochs: int
    best_epoch: int
    validation_mse: float
    seconds: float  # wall clock, validation included
    processor_s: float  # of this process: less than the wall clock where the machine has other work
    ended: str  # by `patience`, `epochs` or `minutes`


def train(imputer: Any, cell: Cell, minutes: float, *, device: str = "cpu", say: Say = print) -> Trained:
    """Train an imputer of PyPOTS on a cell's windows and gaps; it is left with the weights of its best epoch.

    Args:
        imputer: Its `model` and `optimizer` are used.
        cell: Data set, pattern, rate and seed.
        minutes: At most so many, looked at after each epoch; 0 for no limit.
        device: Where the imputer's weights lie.
        say: Takes one line an epoch.

    Raises:
        TrainingError: the validation MSE is not a number any more.
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
        seconds = time.monotonic() - began
        say(f"epoch {epoch}  validation MSE {mse:.4f}, best {best:.4f} of epoch {best_epoch}, {seconds:.0f} s")
        if epoch - best_epoch >= PATIENCE:
            ended = "patience"
        elif epoch >= EPOCHS:
            ended = "epochs"
        elif minutes and seconds >= 60 * minutes:
            ended = "minutes"
    network.load_state_dict(weights)
    return Trained(epoch, best_epoch, best, seconds, time.process_time() - spent, ended)


def identified(method: str, cell: Cell) -> Line:
    """The part of a line that says which one it is."""
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
    """Train a peer on a cell, score it on the cell's test windows, and put it into a line.

    Raises:
        ConfigError: PyPOTS is not there.
        DataError: the data set is not.
    """
    sensors = DATASETS[cell.dataset].sensors
    imputer = build(method, sensors, cell, device)
    trained = train(imputer, cell, minutes, device=device, say=say)
    place = (cell.dataset, cell.pattern, cell.rate, WINDOW, SEGMENTS)
    result, bars = score(fill_of(imputer.model, device), *place), baselines(*place)
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
    """What trains and scores this peer again."""
    only = f"{cell.dataset}/{cell.pattern}/{cell.rate:g}"
    seed = f" --seed {cell.seed}" if cell.seed != Cell.seed else ""
    sized = f"--d-model {cell.d_model} --minutes {minutes:g}"
    return f"python -m training.benchmark --peers {method} --only {only} {sized}{seed}"


def is_done(line: Line | None, minutes: float) -> bool:
    """Whether a line stands, and more minutes would not have changed it."""
    if line is None:
        return False
    longer = minutes > line["minutes"] or minutes == 0
    return not (line["ended"] == "minutes" and line["minutes"] and longer)


def run(names: Sequence[str], cells: Sequence[Cell], given: Budgeted, until: float, say: Say = print) -> None:
    """Train and score peers one after the other, keeping each line as it comes.

    Args:
        names: Of PEERS.
        cells: Data sets, patterns and rates.
        given: Minutes a peer, whether to run again what has its line, device, and where the lines lie.
        until: Monotonic seconds after which none is begun any more.
        say: Takes lines of progress.

    Raises:
        ConfigError: PyPOTS is not there, and something is left to train; or less than no minutes are given.
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
