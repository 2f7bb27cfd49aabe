"""The check before a model is written: scripted module, plain module and trained network agree on hard windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.data import Floats, Scale
from training.errors import ExportError
from training.serve import triton_config
from training.serve.served import ServedModel

TOLERANCE = 1e-5  # share of a sensor's deviation; scripted and eager use the same kernels and usually agree to the bit
NETWORK_TOLERANCE = 1e-3  # share between served and trained: one standardises in sensor units, in float32


def hard_windows(scale: Scale, window: int, seed: int = 0) -> list[tuple[str, Tensor, Tensor]]:
    """Return named (VALUES, OBSERVED) pairs, [B, C, T] each: usual and difficult batches."""
    rng = np.random.default_rng(seed)
    sensors = len(scale.mean)

    def draw(batch: int) -> tuple[Floats, Any]:
        walk = rng.standard_normal((batch, sensors, window)).cumsum(axis=-1) / np.sqrt(window)
        values = walk * scale.std[:, None] + scale.mean[:, None]
        return values.astype(np.float32), rng.random(values.shape) > rng.uniform(0.05, 0.7, (batch, 1, 1))

    cases: list[tuple[str, Any, Any]] = [(f"batch of {size}", *draw(size)) for size in triton_config.WARM_BATCHES]
    values, observed = draw(4)
    cases.append(("nothing observed", values, np.zeros_like(observed)))
    cases.append(("everything observed", values, np.ones_like(observed)))
    cases.append(("NaN where missing", np.where(observed, values, np.float32(np.nan)), observed))
    cases.append(("NaN marked as observed", np.where(observed, values, np.float32(np.nan)), np.ones_like(observed)))
    cases.append(("constant rows", np.broadcast_to(values[:, :, :1], values.shape).copy(), observed))
    single = np.zeros_like(observed)
    single[:, 0, window // 2] = True
    cases.append(("a single observation", values, single))
    silent = observed.copy()
    silent[:, 0] = False
    cases.append(("a silent sensor", values, silent))
    dark = observed.copy()
    dark[:, :, window // 2 :] = False
    cases.append(("half a window dark", values, dark))
    return [(name, torch.from_numpy(v), torch.from_numpy(o)) for name, v, o in cases]


@torch.inference_mode()
def check_answers(served: ServedModel, scripted: torch.jit.ScriptModule, scale: Scale, window: int) -> float:
    """Return the largest difference between the scripted and the plain module, in deviations.

    Raises:
        ExportError: the answers differ from each other or from the trained network, an output is not finite, or an
            observed cell was changed.
    """
    std = torch.from_numpy(scale.std).float().view(1, -1, 1)
    mean = torch.from_numpy(scale.mean).float().view(1, -1, 1)
    worst, newest = 0.0, slice(window - served.emitted_steps, None)
    for name, values, observed in hard_windows(scale, window):
        plain = served(values, observed)
        known = observed & torch.isfinite(values)
        trained = served.model((torch.where(known, values, mean) - mean) / std, known, served.emitted_steps)
        away = float(torch.where(known[:, :, newest], 0.0, (plain - mean) / std - trained).abs().max())
        if away > NETWORK_TOLERANCE:
            raise ExportError(
                f"{name}: served and trained network differ by {away:.2e} deviations, at most {NETWORK_TOLERANCE} "
                "allowed"
            )
        for _ in range(3):  # the executor of TorchScript changes its plan after the first calls
            answer = scripted(values, observed)
            if answer.shape != plain.shape or not bool(torch.isfinite(answer).all()):
                raise ExportError(f"{name}: expected finite answers of shape {tuple(plain.shape)}, found others")
            worst = max(worst, float(((answer - plain) / std).abs().max()))
        kept = observed[:, :, newest] & torch.isfinite(values[:, :, newest])
        if not torch.equal(answer[kept], values[:, :, newest][kept]):
            raise ExportError(f"{name}: observed cells did not pass through")
        if worst > TOLERANCE:
            raise ExportError(
                f"{name}: scripted and plain differ by {worst:.2e} deviations, at most {TOLERANCE} allowed"
            )
    return worst
