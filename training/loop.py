"""The training loop, read top to bottom: epochs of windows with holes, a fixed validation, the best weights kept.

Each epoch draws its order, its gaps and its dropout from (seed, epoch) alone. So a run that was interrupted and
resumed sees exactly what it would have seen, without a random state in the checkpoint.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from training import checkpoint as checkpoints
from training.checkpoint import Checkpoint
from training.config import RunConfig, TrainSpec
from training.data import Scale, Series, Split, fit_scale
from training.errors import ConfigError
from training.masks import MaskSpec
from training.model import GLAIM
from training.runtime import keep_memory
from training.windows import Batch, WindowSet, fixed_batches, training_batches

Say = Callable[[str], None]


def tensors(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """values, observed, truth, hidden on the device, each [B, C, T]."""
    parts = (batch.values, batch.observed, batch.truth, batch.hidden)
    values, observed, truth, hidden = (torch.from_numpy(part).to(device, non_blocking=True) for part in parts)
    return values, observed, truth, hidden


def hidden_loss(filled: Tensor, truth: Tensor, hidden: Tensor, mae_weight: float = 0.0, balance: float = 0.0) -> Tensor:
    """Error over hidden cells only, all arguments [B, C, T].

    With the defaults this is the paper's loss: the mean of squared errors over all hidden cells of the batch.
    """
    error = torch.where(hidden, filled - truth, torch.zeros_like(truth))
    cost = error.square() + mae_weight * error.abs() if mae_weight else error.square()
    per_window = cost.sum(dim=(1, 2))
    count = hidden.sum(dim=(1, 2)).to(cost.dtype)
    weight = torch.where(count > 0, count.clamp(min=1.0).pow(-balance), torch.zeros_like(count))
    return (weight * per_window).sum() / (weight * count).sum().clamp(min=1e-9)


def learning_rate(spec: TrainSpec, iteration: int, total: int) -> float:
    """Linear warm-up, then constant, or half a cosine down to a hundredth."""
    if iteration < spec.warmup:
        return spec.learning_rate * (iteration + 1) / spec.warmup
    if spec.schedule == "constant":
        return spec.learning_rate
    progress = min(1.0, (iteration - spec.warmup) / max(1, total - spec.warmup))
    return spec.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))


@torch.inference_mode()
def validate(model: nn.Module, batches: Sequence[Batch], device: torch.device) -> tuple[float, float]:
    """MSE and MAE over all hidden cells of the batches, standardised."""
    model.eval()
    squared = absolute = count = 0.0
    for batch in batches:
        values, observed, truth, hidden = tensors(batch, device)
        error = (model(values, observed) - truth)[hidden].double()
        squared += float(error.square().sum())
        absolute += float(error.abs().sum())
        count += error.numel()
    return squared / max(count, 1), absolute / max(count, 1)


class Average:
    """Exponential moving average of a model's weights, corrected for its start."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval()

    @torch.no_grad()
    def update(self, model: nn.Module, iteration: int) -> None:
        """Blend the new weights in; early on the average follows fast."""
        decay = min(self.decay, (1 + iteration) / (10 + iteration)) if self.decay else 0.0
        for mean, new in zip(self.model.parameters(), model.parameters(), strict=True):
            mean.lerp_(new, 1.0 - decay)


def describe(seconds: float) -> str:
    """Seconds as 1h02m or 3m05s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}h{minutes % 60:02d}m" if minutes >= 60 else f"{minutes}m{rest:02d}s"


def run(
    config: RunConfig, series: Series, parts: Split, directory: Path, *, resume: bool = False, say: Say = print
) -> Checkpoint:
    """Fit a model; returns the best checkpoint, which also lies in `directory`/best.pt.

    Args:
        config: The run; its number of sensors is taken from the series.
        series: The whole of the data.
        parts: The series, cut in time order.
        directory: Receives last.pt and best.pt after every epoch.
        resume: Go on from last.pt; the configuration must be the one it was written with.
        say: Takes one line an epoch.

    Raises:
        ConfigError: `resume` without a checkpoint, or with one of another configuration.
        DataError: no window has enough observed cells.
    """
    spec = config.train
    keep_memory()
    torch.set_num_threads(spec.threads)
    device = torch.device(spec.device)
    model_config = dataclasses.replace(config.model, num_variables=len(series.sensors))
    config = dataclasses.replace(config, model=model_config)
    scale = fit_scale(parts.train)
    window = model_config.window
    train_windows = WindowSet(scale.apply(parts.train.values), window, spec.stride, spec.minimum_observed)
    held_out = WindowSet(scale.apply(parts.validation.values), window, spec.validation_stride, spec.minimum_observed)
    validation = fixed_batches(held_out, config.masks, 64, spec.validation_windows, spec.seed)

    torch.manual_seed(spec.seed)
    model = GLAIM(model_config).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=spec.learning_rate)
    average = Average(model, spec.ema)
    state = _fresh(config, series, scale, model)
    if resume:
        state = checkpoints.load(directory / "last.pt")
        if state.config != config.to_json():
            raise ConfigError(
                f"{directory / 'last.pt'} was written by another configuration; give a new --out or none of --resume"
            )
        model.load_state_dict(state.weights)
        average.model.load_state_dict(state.averaged)
        optimiser.load_state_dict(state.optimiser)

    per_epoch = max(1, len(train_windows) // spec.batch_size)
    if spec.iterations:
        per_epoch = min(per_epoch, spec.iterations)
    total = per_epoch * spec.epochs
    say(
        f"{len(series.groups)} groups of {len(series.sensors)} sensors, {series.rows} rows; windows: "
        f"{len(train_windows)} to train, {len(held_out)} to validate; {sum(p.numel() for p in model.parameters()):,} "
        f"parameters; {per_epoch} iterations of {spec.batch_size} an epoch"
    )
    began = time.monotonic() - state.seconds
    for epoch in range(state.epoch, spec.epochs):
        loss = _epoch(model, average, optimiser, train_windows, config, epoch, per_epoch, total, device)
        mse, mae = validate(average.model, validation, device)
        state.epoch = epoch + 1
        state.seconds = time.monotonic() - began
        better = mse < state.best_score
        if better:
            state.best_score, state.best_epoch = mse, state.epoch
        rate = learning_rate(spec, epoch * per_epoch, total)
        state.history.append(
            {"epoch": state.epoch, "loss": loss, "validation_mse": mse, "validation_mae": mae, "learning_rate": rate,
             "seconds": round(state.seconds, 1)}
        )  # fmt: skip
        state.weights, state.averaged = _cpu(model), _cpu(average.model)
        state.optimiser = optimiser.state_dict()
        checkpoints.save(state, directory / "last.pt")
        if better:
            checkpoints.save(state, directory / "best.pt")
        left = state.seconds / state.epoch * (spec.epochs - state.epoch)
        say(
            f"epoch {state.epoch}/{spec.epochs}  loss {loss:.4f}  validation mse {mse:.4f} mae {mae:.4f}"
            f"{' *' if better else ''}  {describe(state.seconds)}, at most {describe(left)} left"
        )
        if state.epoch - state.best_epoch >= spec.patience:
            say(f"no better for {spec.patience} epochs: stopped")
            break
        if spec.max_minutes and state.seconds > 60 * spec.max_minutes:
            say(f"{spec.max_minutes:g} minutes are over: stopped")
            break
    return checkpoints.load(directory / "best.pt")


def _epoch(
    model: nn.Module, average: Average, optimiser: torch.optim.Optimizer, windows: WindowSet, config: RunConfig,
    epoch: int, per_epoch: int, total: int, device: torch.device,
) -> float:  # fmt: skip
    """One pass; returns the mean training loss."""
    spec: TrainSpec = config.train
    masks: MaskSpec = config.masks
    rng = np.random.default_rng([spec.seed, epoch])
    torch.manual_seed(spec.seed * 100_003 + epoch)
    model.train()
    losses = torch.zeros((), device=device)
    batches = zip(range(per_epoch), training_batches(windows, masks, spec.batch_size, rng), strict=False)
    bar = tqdm(batches, total=per_epoch, desc=f"epoch {epoch + 1}", leave=False, disable=None, unit="it")
    for index, batch in bar:
        iteration = epoch * per_epoch + index
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(spec, iteration, total)
        values, observed, truth, hidden = tensors(batch, device)
        loss = hidden_loss(model(values, observed), truth, hidden, spec.mae_weight, spec.balance)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        if spec.clip_norm:
            nn.utils.clip_grad_norm_(model.parameters(), spec.clip_norm)
        optimiser.step()
        average.update(model, iteration)
        losses += loss.detach()
    return float(losses) / per_epoch


def _cpu(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}


def _fresh(config: RunConfig, series: Series, scale: Scale, model: nn.Module) -> Checkpoint:
    numbers = {name: [float(x) for x in getattr(scale, name)] for name in ("mean", "std", "minimum", "maximum")}
    return Checkpoint(
        config=config.to_json(), sensors=list(series.sensors), units=list(series.units), scale=numbers,
        step_s=series.step_s, source=series.source, source_sha256=series.sha256, rows=series.rows, epoch=0,
        weights=_cpu(model), averaged=_cpu(model), optimiser={}, best_score=math.inf, best_epoch=0, history=[],
        seconds=0.0, git_commit=checkpoints.git_commit(),
    )  # fmt: skip
