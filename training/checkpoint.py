"""Checkpoints of a run: weights, optimiser, progress and configuration, written atomically."""

from __future__ import annotations

import os
import pickle
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training.errors import ConfigError

FORMAT = 2


@dataclass
class Checkpoint:
    """State to resume or export a run: only tensors and plain values, so that loading runs no code."""

    config: str  # RunConfig.to_json()
    sensors: list[str]
    units: list[str]
    scale: dict[str, list[float]]  # mean, std, minimum, maximum, in sensor units
    step_s: float
    source: str
    source_sha256: str
    rows: int
    epoch: int  # epochs finished and validated
    weights: dict[str, Tensor]
    averaged: dict[str, Tensor]  # the EMA of the weights; equal to `weights` without one
    optimiser: dict[str, Any]
    best_score: float
    best_epoch: int
    history: list[dict[str, float]]
    seconds: float
    git_commit: str
    # Position within the epoch after `epoch`; empty at the start of an epoch, which (seed, epoch) determines.
    batch: int = 0  # finished batches; if all are, validation is next
    loss_sum: float = 0.0  # sum of the losses of these batches
    numpy_state: dict[str, Any] = field(default_factory=dict)  # state of the generator of the order and the gaps
    torch_states: list[Tensor] = field(default_factory=list)  # states of dropout, one a process
    cuda_states: list[Tensor] = field(default_factory=list)


def save(checkpoint: Checkpoint, path: Path) -> None:
    """Write beside the target and rename, so that a crash keeps the previous file."""
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        torch.save({"format": FORMAT, **vars(checkpoint)}, file)
        file.flush()
        os.fsync(file.fileno())  # otherwise a power loss may keep the new name without its content
    partial.replace(path)


def load(path: Path) -> Checkpoint:
    """Read a checkpoint, or the best one of a run's directory, without running any code in it.

    Raises:
        ConfigError: the file is absent, damaged, carries code, or is of another format.
    """
    if path.is_dir():
        path = path / "best.pt"
    if not path.is_file():
        raise ConfigError(f"expected a checkpoint at {path}, found none")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        raise ConfigError(f"expected a checkpoint at {path}, found a file that cannot be read: {error}") from error
    found = content.pop("format", None) if isinstance(content, dict) else None
    if found != FORMAT:
        raise ConfigError(f"expected a checkpoint of format {FORMAT} at {path}, found {found}")
    return Checkpoint(**content)


def git_commit() -> str:
    """Return the commit of this code, or "unknown" outside a checkout."""
    here = Path(__file__).resolve().parent
    try:
        found = subprocess.run(  # git is looked up on PATH on purpose
            ["git", "rev-parse", "HEAD"],  # noqa: S607
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip()
