"""The training loop, top to bottom: epochs of windows with gaps, a fixed validation, the best weights kept.

The order, gaps and dropout of an epoch depend on (seed, epoch) alone, and a checkpoint within an epoch holds the random
states. So a run that was interrupted anywhere and resumed ends, on a CPU, in the same weights to the bit as one that
was not.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from training import checkpoint as checkpoints
from training import config as configs
from training.checkpoint import Checkpoint
from training.config import RunConfig, TrainSpec
from training.data import (
    DeviceWindows,
    Drawn,
    GroupSeries,
    HostWindows,
    Scale,
    Split,
    Tensors,
    WindowBatch,
    WindowSet,
    ahead,
    draw,
    fit_scale,
    fixed_batches,
    tensors,
    windows_on,
)
from training.errors import ConfigError, TrainingError
from training.evaluate import restore
from training.fit import distributed, fold_windows
from training.fit.checkpointing import ADVICE, CheckpointWriter
from training.fit.learner import Learner, on_host
from training.fit.logs import Row, RunLog, nothing
from training.fit.shares import choose_shares
from training.runtime import ProgressLine, StopRequest, describe, device, keep_memory

Say = Callable[[str], None]


class Feed(Protocol):
    """Batches made elsewhere, such as windows that the closed form has filled."""

    iterations: int  # number of iterations of an epoch
    validation: Sequence[WindowBatch]

    def draw(self, epoch: int, skip: int) -> Iterator[Drawn]:
        """Yield an epoch's batches after the first `skip`, always the same ones."""

    def tensors(self, drawn: Drawn, rows: slice) -> Tensors:
        """Return the windows `rows` of a batch."""


def hidden_loss(
    filled: Tensor, truth: Tensor, hidden: Tensor, mae_weight: float = 0.0, balance: float = 0.0, total: float = 0.0
) -> Tensor:
    """Return the error over hidden cells only, tensors [B, C, T].

    With the defaults this is the paper's loss: the mean of squared errors over all hidden cells of the batch. If the
    windows are one process's share of a larger batch, `total` is the weight of that batch's hidden cells: the losses of
    all shares then add up to the loss of the batch.
    """
    error = torch.where(hidden, filled - truth, torch.zeros_like(truth))
    cost = error.square() + mae_weight * error.abs() if mae_weight else error.square()
    per_window = cost.sum(dim=(1, 2))
    count = hidden.sum(dim=(1, 2)).to(cost.dtype)
    weight = torch.where(count > 0, count.clamp(min=1.0).pow(-balance), torch.zeros_like(count))
    if total:
        return (weight * per_window).sum() / total
    return (weight * per_window).sum() / (weight * count).sum().clamp(min=1e-9)


def hidden_weight(drawn: Drawn, balance: float) -> float:
    """Return the divisor of `hidden_loss` for a whole batch, computed without the device."""
    count = drawn.hidden.sum(axis=(1, 2))
    return float(np.power(count[count > 0], 1.0 - balance, dtype=np.float64).sum()) or 1e-9


def learning_rate(spec: TrainSpec, iteration: int, total: int) -> float:
    """Return the rate: linear warm-up, then constant, or half a cosine down to a hundredth."""
    if iteration < spec.warmup:
        return spec.learning_rate * (iteration + 1) / spec.warmup
    if spec.schedule == "constant":
        return spec.learning_rate
    progress = min(1.0, (iteration - spec.warmup) / max(1, total - spec.warmup))
    return spec.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))


@torch.inference_mode()
def validate(model: nn.Module, batches: Iterable[WindowBatch], device: torch.device) -> tuple[float, float]:
    """Return MSE and MAE over all hidden cells of the batches, standardised; in fp32, like the served model."""
    model.eval()
    squared = absolute = count = 0.0
    for batch in batches:
        values, observed, truth, hidden = tensors(batch, device)
        error = (model(values, observed) - truth)[hidden].double()
        squared += float(error.square().sum())
        absolute += float(error.abs().sum())
        count += error.numel()
    return squared / max(count, 1), absolute / max(count, 1)


def ended(state: Checkpoint, spec: TrainSpec) -> str:
    """Return the reason why there is no further epoch; empty if there is one."""
    if state.epoch >= spec.epochs:
        return f"all {spec.epochs} epochs are done"
    if state.epoch - state.best_epoch >= spec.patience:
        return f"stopped: no improvement for {spec.patience} epochs"
    if spec.max_minutes and state.seconds > 60 * spec.max_minutes:
        return f"stopped: {spec.max_minutes:g} minutes are over"
    return ""


def train_network(
    config: RunConfig, series: GroupSeries, parts: Split, directory: Path, *, resume: bool = False, say: Say = print,
    command: str = "", on_epoch: Callable[[Row], None] = nothing, feed: Feed | None = None,
    until_s: float | None = None,
) -> Checkpoint:  # fmt: skip
    """Fit a model; return the best checkpoint, which is also in `directory`/best.pt.

    Args:
        config: The run; its number of sensors is taken from the series.
        series: All of the data.
        parts: The series, cut in time order.
        directory: Receives last.pt, best.pt, curves.csv and log.jsonl after every epoch, last.pt also within one. The
            checkpoints of a former run are removed, unless this one resumes it.
        resume: Continue from last.pt; only the settings in `config.MAY_CHANGE` may differ from its run.
        say: Receives one line for each epoch and, without a terminal, one every half minute within it.
        command: The command for the log; empty: the command line of this process.
        on_epoch: Receives the numbers of each epoch once they are written; may raise to end the run.
        feed: Batches to take instead of windows of the series.
        until_s: Moment of `time.monotonic` at which training ends, forms of folds included; None: the settings decide.

    Raises:
        ConfigError: `resume` without a checkpoint, or with one of another run or other data; `model.cascade` without a
            feed or a form of its own.
        DataError: no window has enough observed cells.
        NetworkTooSlow: the forms of two folds do not fit in the time.
        TrainingError: the loss is no longer a number; the files are from before.
        Interrupted: a stop was requested by SIGTERM or Ctrl-C; last.pt holds the position after the current iteration.
    """
    spec, world = config.train, distributed.world()
    if config.model.cascade and not config.model.own_form and feed is None:
        raise ConfigError(
            "model.cascade needs model.own_form, or windows that are filled, as `python -m benchmarks.paper cascade` "
            "makes them"
        )
    keep_memory()
    torch.set_num_threads(spec.threads)
    place = device(spec.device, world.on_machine)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, num_variables=len(series.sensors)))
    window = config.model.window
    scale = fit_scale(parts.train)
    values = scale.apply(parts.train.values)
    windows = WindowSet(values, window, spec.stride, spec.minimum_observed)
    held_out = WindowSet(scale.apply(parts.validation.values), window, spec.validation_stride, spec.minimum_observed)
    masks = config.masks.fitted(np.isfinite(values), window)
    key = f"{series.source}|{config.masks.pattern}|{config.masks.rate_bounds}|{window}"
    validation: Sequence[WindowBatch] = []
    if world.first:
        validation = feed.validation if feed else fixed_batches(held_out, masks, 64, spec.validation_windows, key)
    per_epoch = max(1, len(windows) // spec.batch_size)
    if spec.iterations:
        per_epoch = min(per_epoch, spec.iterations)
    if feed:
        per_epoch = feed.iterations
    if min(spec.batch_size, len(windows)) < world.size:
        raise ConfigError(f"expected batches of {world.size} windows or more, one a process, found {spec.batch_size}")

    learner = Learner(config.model, spec, place, world)
    if config.model.own_form:
        folder = directory / "forms"
        if world.first:
            fold_windows.fit_forms(parts.train, window, folder, say, until_s=until_s, kept=resume)
        world.any(False)  # the others read what the first one has written
        forms = fold_windows.fit_forms(parts.train, window, folder, say, kept=True)
        learner.set_form(fold_windows.own_form(forms.whole, scale))
        feed = fold_windows.FoldWindows(
            forms, windows, values, scale, masks, spec, place, iterations=per_epoch, validation=validation
        )
    if until_s is not None:
        spec = dataclasses.replace(spec, max_minutes=max(until_s - time.monotonic(), 1.0) / 60)
    state = _fresh(config, series, scale, learner)
    if resume:
        state = _resumed(directory / "last.pt", config, series)
        learner.restore(state)
    elif world.first:
        for name in ("last.pt", "best.pt"):  # files of a former run, which must not be taken for files of this one
            (directory / name).unlink(missing_ok=True)
    log = RunLog(directory, state, command)
    say = say if world.first else (lambda _: None)
    say(
        f"{len(series.groups)} groups of {len(series.sensors)} sensors, {series.rows} rows; windows: "
        f"{len(windows)} to train, {len(held_out)} to validate; {sum(p.numel() for p in learner.model.parameters()):,} "
        f"parameters; {per_epoch} iterations of {spec.batch_size} an epoch"
        f"{f', shared by {world.size} processes' if world.size > 1 else ''}"
    )
    if state.batch and len(state.torch_states) != world.size:
        say(f"dropout restarts within epoch {state.epoch + 1}: {len(state.torch_states)} processes wrote its state")
    progress = ProgressLine(say, hidden=not world.first)
    source = feed or windows_on(place, values, windows)
    with StopRequest() as stop:
        writer = CheckpointWriter(directory / "last.pt", state, learner, stop, spec.checkpoint_minutes)
        while not (why := ended(state, spec)):
            batches = (
                feed.draw(state.epoch, state.batch)
                if feed
                else draw(
                    windows, masks, spec.batch_size, spec.seed, state.epoch, state.numpy_state or None, state.batch
                )
            )
            _epoch(learner, batches, source, spec, per_epoch, writer, progress)
            mse, mae = _validated(learner, validation, writer, progress)
            rate = learning_rate(spec, state.epoch * per_epoch, per_epoch * spec.epochs)
            better = _book(state, state.loss_sum / max(1, state.batch), mse, mae, rate, writer.seconds)
            learner.capture(state)
            if world.first and better:  # before last.pt: after a crash in between this epoch is repeated
                checkpoints.save(state, directory / "best.pt")
            writer.save()
            row = state.history[-1]
            left = state.seconds / state.epoch * (spec.epochs - state.epoch)
            say(
                f"epoch {state.epoch}/{spec.epochs}  loss {row['loss']:.4f}  validation mse {mse:.4f} mae {mae:.4f}"
                f"{' *' if better else ''}  {describe(state.seconds)}, at most {describe(left)} left"
            )
            if world.first:
                log.write(state)
                on_epoch(row)
    say(why)
    world.any(False)  # the others wait until the first one has written best.pt
    best = checkpoints.load(directory / "best.pt")
    if config.model.own_form and world.first:
        _keep_shares(best, validation, say)
        checkpoints.save(best, directory / "best.pt")
    return best


def _keep_shares(best: Checkpoint, validation: Sequence[WindowBatch], say: Say) -> None:
    """Store the kept share of the correction in the averaged weights, by sensor and distance from an observation."""
    _, network, _ = restore(best)
    shares = choose_shares(network, validation)
    best.averaged["share"] = shares
    kept = zip(best.sensors, shares.mean(dim=1).tolist(), strict=True)
    say(f"share of the correction that validation keeps: {', '.join(f'{name} {share:.2f}' for name, share in kept)}")


def _epoch(
    learner: Learner, batches: Iterator[Drawn], source: HostWindows | DeviceWindows | Feed, spec: TrainSpec,
    per_epoch: int, writer: CheckpointWriter, progress: ProgressLine,
) -> None:  # fmt: skip
    """Train the rest of the current epoch.

    Nothing here waits for a GPU: losses are added up on it, and read at the end and when a checkpoint is written.
    """
    state, world, on = writer.state, learner.world, learner.device
    learner.seed(spec.seed * 100_003 + state.epoch)
    learner.restore_random(state)
    losses = torch.full((), state.loss_sum if world.first else 0.0, device=on)
    if on.type == "cuda":
        batches = ahead(batches, 8)
    progress.begin(f"epoch {state.epoch + 1}/{spec.epochs}", per_epoch, state.batch)
    learner.model.train()
    for batch, drawn in zip(range(state.batch, per_epoch), batches, strict=False):
        iteration = state.epoch * per_epoch + batch
        values, observed, truth, hidden = source.tensors(drawn, world.share(len(drawn.windows)))
        with torch.autocast(on.type, torch.bfloat16, enabled=spec.precision == "bf16"):
            filled = learner.fill(values, observed)
        total = hidden_weight(drawn, spec.balance) if world.size > 1 else 0.0
        loss = hidden_loss(filled.float(), truth, hidden, spec.mae_weight, spec.balance, total)
        learner.step(loss, iteration, learning_rate(spec, iteration, per_epoch * spec.epochs), spec.clip_norm)
        losses += loss.detach()
        writer.note(batch + 1, losses, drawn.after)
        progress.step(writer.so_far)
        if writer.due(batch + 1):
            writer.write()
        if spec.max_minutes and world.size == 1 and writer.seconds > 60 * spec.max_minutes:
            break
    progress.end()
    writer.settle()


def _validated(
    learner: Learner, batches: Sequence[WindowBatch], writer: CheckpointWriter, progress: ProgressLine
) -> tuple[float, float]:
    """Return MSE and MAE of the averaged weights, computed by the first process; a stop request ends the run here.

    Raises:
        Interrupted: a stop was requested; the resumed run begins with this validation.
        TrainingError: the score is not a number.
    """
    world, state = learner.world, writer.state

    def until_stopped() -> Iterator[WindowBatch]:
        progress.begin(f"epoch {state.epoch + 1}, validation", len(batches))
        for batch in batches:
            if writer.stop.requested:
                break
            yield batch
            progress.step()
        progress.end()

    model = learner.averaged()
    scores = validate(model, until_stopped(), learner.device) if world.first else (0.0, 0.0)
    if world.any(writer.stop.requested):
        writer.write()
    mse, mae = world.broadcast(list(scores))
    if not math.isfinite(mse):
        raise TrainingError(f"epoch {state.epoch + 1}: the validation MSE is {mse}; {ADVICE}")
    return mse, mae


def _book(state: Checkpoint, loss: float, mse: float, mae: float, rate: float, seconds: float) -> bool:
    """Record the finished epoch; return whether it is the best so far."""
    state.epoch += 1
    state.seconds = seconds
    state.batch, state.loss_sum, state.numpy_state, state.torch_states, state.cuda_states = 0, 0.0, {}, [], []
    state.history.append(
        {"epoch": state.epoch, "loss": loss, "validation_mse": mse, "validation_mae": mae, "learning_rate": rate,
         "seconds": round(seconds, 1)}
    )  # fmt: skip
    if mse >= state.best_score:
        return False
    state.best_score, state.best_epoch = mse, state.epoch
    return True


def _resumed(path: Path, config: RunConfig, series: GroupSeries) -> Checkpoint:
    """Read the checkpoint to resume, and check that it belongs to this run."""
    state = checkpoints.load(path)
    found = configs.changes(configs.build(json.loads(state.config)), config)
    if found:
        raise ConfigError(f"{path} was written by another configuration ({'; '.join(found)}); give a new --out")
    if (state.source_sha256, state.sensors) != (series.sha256, list(series.sensors)):
        raise ConfigError(f"{path} was written by a run on other data: {series.source} has changed; give a new --out")
    state.config = config.to_json()
    return state


def _fresh(config: RunConfig, series: GroupSeries, scale: Scale, learner: Learner) -> Checkpoint:
    numbers = {name: [float(x) for x in getattr(scale, name)] for name in ("mean", "std", "minimum", "maximum")}
    weights = on_host(learner.model)
    return Checkpoint(
        config=config.to_json(), sensors=list(series.sensors), units=list(series.units), scale=numbers,
        step_s=series.step_s, source=series.source, source_sha256=series.sha256, rows=series.rows, epoch=0,
        weights=weights, averaged=dict(weights), optimiser={}, best_score=math.inf, best_epoch=0, history=[],
        seconds=0.0, git_commit=checkpoints.git_commit(),
    )  # fmt: skip
