"""Several processes that train one model, as torchrun starts them; a single process is the same with nothing to do.

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

PATIENCE = timedelta(hours=6)  # the others wait for the first one's validation, which may be long on a CPU


@dataclass(frozen=True)
class World:
    """Which of how many processes this is."""

    rank: int = 0
    size: int = 1
    on_machine: int = 0  # rank on its own machine: the number of its GPU

    @property
    def first(self) -> bool:
        """Whether this one validates, writes and prints."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """The part of `count` windows of a batch that is this one's; all together they are all of it."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def parallel(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model, whose backward pass then averages the gradients of all processes."""
        if self.size == 1:
            return model
        devices = [device.index] if device.type == "cuda" else None
        # static_graph: an ablation may leave a parameter without a gradient, in every iteration the same one.
        return DistributedDataParallel(model, device_ids=devices, broadcast_buffers=False, static_graph=True)

    def any(self, flag: bool) -> bool:
        """Whether any of them says so. All must ask."""
        if self.size == 1:
            return flag
        asked = torch.tensor([int(flag)])
        dist.all_reduce(asked, dist.ReduceOp.MAX)
        return bool(asked.item())

    def total(self, number: float) -> float:
        """The sum over all of them. All must ask."""
        if self.size == 1:
            return number
        asked = torch.tensor([number], dtype=torch.float64)
        dist.all_reduce(asked)
        return float(asked.item())

    def told(self, values: list[Any]) -> list[Any]:
        """What the first one gave. All must ask."""
        if self.size > 1:
            dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values

    def every(self, mine: Tensor) -> list[Tensor]:
        """One tensor of each, equally large, on the host. All must ask."""
        if self.size == 1:
            return [mine]
        found = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(found, mine)
        return found


def world() -> World:
    """Which of the processes that were started together this one is."""
    if not dist.is_initialized():
        return World()
    return World(dist.get_rank(), dist.get_world_size(), int(os.environ.get("LOCAL_RANK", "0")))


@contextmanager
def together(device: str) -> Iterator[World]:
    """Meet the other processes that torchrun started, and part from them at the end.

    Raises:
        ConfigError: the device is none that processes can share work on.
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
