"""The batches of an epoch: order, windows and gaps, all drawn from (seed, epoch) alone.

The host draws them with numpy, so they are the same on every device; with the state of the generator after a batch the
draw continues after that batch. `HostWindows` and `DeviceWindows` turn draws into tensors that are equal to the bit;
the latter keeps the whole series on the device and gathers windows there, so that only indices and gaps are copied.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.data.masks import FittedMasks, MaskSpec
from training.data.outages import Bools
from training.data.series import Floats
from training.data.windows import WindowBatch, WindowSet, hide

Tensors = tuple[Tensor, Tensor, Tensor, Tensor]  # values, observed, truth, hidden: each [B, C, T], as in Batch
Item = TypeVar("Item")


@dataclass(frozen=True)
class Drawn:
    """One drawn batch: `windows` [B] index the window set, `values` [B, C, T] are those windows with NaN gaps."""

    windows: NDArray[np.int64]
    values: Floats
    hidden: Bools  # [B, C, T], never where `values` is NaN
    after: dict[str, Any]  # the generator's state once this batch was drawn


def draw(
    windows: WindowSet, masks: MaskSpec | FittedMasks, batch_size: int, seed: int, epoch: int,
    after: dict[str, Any] | None = None, skip: int = 0,
) -> Iterator[Drawn]:  # fmt: skip
    """Yield one pass over all windows in random order with new gaps; the last incomplete batch is left out.

    Args:
        windows: Windows of the training part.
        masks: Masks to hide by.
        batch_size: B.
        seed: Seed of the run.
        epoch: Counted from 0.
        after: `Drawn.after` of the last used batch, to continue after it.
        skip: Number of batches used so far.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(windows))
    if after is not None:
        rng.bit_generator.state = after
    usable = len(order) - len(order) % batch_size if len(order) >= batch_size else len(order)
    for start in range(skip * batch_size, usable, batch_size):
        chosen = order[start : start + batch_size]
        values = windows.take(chosen)
        known = np.isfinite(values)
        hidden = masks.sample(rng, known) & known
        yield Drawn(chosen, values, hidden, dict(rng.bit_generator.state))


def tensors(batch: WindowBatch, device: torch.device) -> Tensors:
    """Return values, observed, truth and hidden on the device, each [B, C, T]."""
    parts = (batch.values, batch.observed, batch.truth, batch.hidden)
    values, observed, truth, hidden = (_send(part, device) for part in parts)
    return values, observed, truth, hidden


def _send(array: NDArray[Any], device: torch.device) -> Tensor:
    """Copy to the device without waiting for it, which needs pinned memory for a GPU."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class HostWindows:
    """Batches put together on the host."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def tensors(self, drawn: Drawn, rows: slice) -> Tensors:
        """Return the windows `rows` of the batch."""
        return tensors(hide(drawn.values[rows], drawn.hidden[rows]), self.device)


class DeviceWindows:
    """Batches gathered on the device from the standardised series [G, C, R], which lies there once."""

    def __init__(self, values: Floats, windows: WindowSet, device: torch.device) -> None:
        self.device = device
        series = torch.from_numpy(np.ascontiguousarray(values)).to(device)
        self.view = series.unfold(-1, windows.window, 1)  # (G, C, R - T + 1, T), no copy
        self.groups = torch.from_numpy(windows.groups).to(device)
        self.starts = torch.from_numpy(windows.starts).to(device)

    def tensors(self, drawn: Drawn, rows: slice) -> Tensors:
        """Return the windows `rows` of the batch."""
        chosen = _send(drawn.windows[rows], self.device)
        hidden = _send(np.ascontiguousarray(drawn.hidden[rows]), self.device)
        values = self.view[self.groups[chosen], :, self.starts[chosen]]  # (B, C, T)
        known = values.isfinite()
        observed = known & ~hidden
        zero = torch.zeros_like(values)
        return torch.where(observed, values, zero), observed, torch.where(known, values, zero), hidden


def windows_on(device: torch.device, values: Floats, windows: WindowSet) -> HostWindows | DeviceWindows:
    """Keep the series on a GPU with four times its size of free memory; else cut windows on the host."""
    if device.type == "cuda" and 4 * values.nbytes < torch.cuda.mem_get_info(device)[0]:
        return DeviceWindows(values, windows, device)
    return HostWindows(device)


def ahead(items: Iterator[Item], depth: int) -> Iterator[Item]:
    """Yield the same items, up to `depth` of them prepared by a thread, so that a GPU need not wait for gaps."""
    ready: queue.Queue[Callable[[], Item] | None] = queue.Queue(depth)
    ended = threading.Event()

    def put(item: Callable[[], Item] | None) -> None:
        while not ended.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return

    def fill() -> None:
        try:
            for item in items:
                put(lambda item=item: item)  # type: ignore[misc]
                if ended.is_set():
                    return
            put(None)
        except Exception as error:  # raised where the items are used
            put(lambda error=error: _raise(error))  # type: ignore[misc]

    threading.Thread(target=fill, daemon=True, name="batches").start()
    try:
        while (item := ready.get()) is not None:
            yield item()
    finally:
        ended.set()


def _raise(error: Exception) -> Any:
    raise error
