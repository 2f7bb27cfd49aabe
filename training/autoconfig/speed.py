"""Measures how long a training step takes on this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch

from training.network.build import build_network
from training.network.sizes import GLAIMConfig

STEPS, AT_MOST_S = 6, 4.0


def seconds_per_step(
    model: Mapping[str, Any], sensors: int, batch: int, threads: int, device: str, at_most_s: float = AT_MOST_S
) -> float:
    """Return the median seconds of a forward and a backward pass with an update, on random windows.

    Args:
        model: The settings of [model].
        sensors: C.
        batch: Windows per step.
        threads: Number of CPU threads.
        device: "cpu" or "cuda".
        at_most_s: Of the measurement, beyond which no further step begins.
    """
    config = GLAIMConfig(**{**model, "num_variables": sensors})
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            network = build_network(config).to(device)
            values = torch.randn(batch, sensors, config.window, device=device)
            observed = torch.rand(values.shape, device=device) > 0.3
        optimiser = torch.optim.Adam(network.parameters(), lr=1e-6)
        spent: list[float] = []
        while len(spent) < STEPS and sum(spent) < at_most_s:
            began = time.perf_counter()
            given = values * observed
            if config.own_form:  # a training window is filled by the form of a fold
                with torch.no_grad():
                    given = network.form(given, observed)
            loss = (network(given, observed) - values)[~observed].square().mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            float(loss.detach())  # waits for a GPU
            spent.append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(before)
    later = sorted(spent[1:] or spent)  # the first step also prepares kernels
    return later[len(later) // 2]
