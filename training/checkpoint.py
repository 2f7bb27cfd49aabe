"""Checkpoints of a run: weights, optimiser, progress and the run's own description, written whole or not at all."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training.errors import ConfigError

FORMAT = 1


@dataclass
class Checkpoint:
    """Everything needed to go on, or to export: only tensors and plain values, so that loading runs no code."""

    config: str  # RunConfig.to_json()
    sensors: list[str]
    units: list[str]
    scale: dict[str, list[float]]  # mean, std, minimum, maximum, in sensor units
    step_s: float
    source: str
    source_sha256: str
    rows: int
    epoch: int  # epochs finished
    weights: dict[str, Tensor]
    averaged: dict[str, Tensor]  # the EMA of the weights; equal to `weights` when there is none
    optimiser: dict[str, Any]
    best_score: float
    best_epoch: int
    history: list[dict[str, float]]
    seconds: float
    git_commit: str


def save(checkpoint: Checkpoint, path: Path) -> None:
    """Write beside the target and rename, so that a crash leaves the previous file."""
    partial = path.with_suffix(".partial")
    torch.save({"format": FORMAT, **vars(checkpoint)}, partial)
    partial.replace(path)


def load(path: Path) -> Checkpoint:
    """Read a checkpoint without running any code of it.

    Raises:
        ConfigError: the file is absent or of another format.
    """
    if not path.is_file():
        raise ConfigError(f"expected a checkpoint at {path}, found none")
    content = torch.load(path, map_location="cpu", weights_only=True)
    if content.pop("format", None) != FORMAT:
        raise ConfigError(f"{path} is not a checkpoint of format {FORMAT}")
    return Checkpoint(**content)


def git_commit() -> str:
    """The commit this code runs from, or "unknown" outside a checkout."""
    here = Path(__file__).resolve().parent
    try:
        found = subprocess.run(  # the git on PATH is the one meant
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
