"""Several processes that train one model, as torchrun starts them; a single process is a special case.

    torchrun --nproc-per-node 2 -m training.fit training/configs/beijing-air.toml --device cuda

Every process draws the same batch and takes its share of it, so the recipe does not change with their number. The
gradients are summed by DistributedDataParallel. The first process validates, writes and prints.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from training.errors import ConfigError

PATIENCE = timedelta(hours=6)  # the others wait for the first one's validation, which can be long on a CPU


@dataclass(frozen=True)
class World:
    """The place of a process among those that train one model."""

    rank: int = 0
    size: int = 1
    on_machine: int = 0  # rank on its own machine: the number of its GPU

    @property
    def first(self) -> bool:
        """Whether this one validates, writes and prints."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Return this process's part of the `count` windows of a batch; the parts of all processes cover it."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def parallel(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Wrap the model so that its backward pass averages the gradients of all processes."""
        if self.size == 1:
            return model
        devices = [device.index] if device.type == "cuda" else None
        # static_graph: an ablation may leave a parameter without a gradient, in every iteration the same one.
        return DistributedDataParallel(model, device_ids=devices, broadcast_buffers=False, static_graph=True)

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process. All processes must call."""
        if self.size == 1:
            return flag
        result = torch.tensor([int(flag)])
        dist.all_reduce(result, dist.ReduceOp.MAX)
        return bool(result.item())

    def total(self, number: float) -> float:
        """Return the sum over all processes. All must call."""
        if self.size == 1:
            return number
        result = torch.tensor([number], dtype=torch.float64)
        dist.all_reduce(result)
        return float(result.item())

    def broadcast(self, values: list[Any]) -> list[Any]:
        """Return the values of the first process. All must call."""
        if self.size > 1:
            dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values

    def gather(self, mine: Tensor) -> list[Tensor]:
        """Return one tensor of each process, of equal size, on the host. All must call."""
        if self.size == 1:
            return [mine]
        found = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(found, mine)
        return found


def world() -> World:
    """Return this process's place among those that were started together."""
    if not dist.is_initialized():
        return World()
    return World(dist.get_rank(), dist.get_world_size(), int(os.environ.get("LOCAL_RANK", "0")))


@contextmanager
def together(device: str) -> Iterator[World]:
    """Join the other processes that torchrun started, and leave them at the end.

    Raises:
        ConfigError: processes cannot share work on the device.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield world()
        return
    kind = torch.device(device).type
    if kind not in ("cpu", "cuda"):
        raise ConfigError(f"expected train.device cpu or cuda for several processes, found {device}")
    # Host tensors go by gloo even among GPUs: what the processes agree on must not wait for a device.
    dist.init_process_group("gloo" if kind == "cpu" else "cpu:gloo,cuda:nccl", timeout=PATIENCE)
    try:
        yield world()
    finally:
        dist.destroy_process_group()


def say(text: str) -> None:
    """Print a line without buffering, from the first of several processes."""
    if os.environ.get("RANK", "0") == "0":
        print(text, flush=True)
