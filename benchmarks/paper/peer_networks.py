"""Networks of PyPOTS as peers: their sizes, their input and output, and the error that chooses an epoch.

All but CSDI answer a window with one filled window. CSDI (Tashiro et al., NeurIPS 2021) is a diffusion: it starts from
noise and takes it away in 50 steps, so an answer is a draw, and costs 50 forward passes. The value with the least
squared error is the mean of many draws, of which its authors take 100. Here are `DRAWS`: a window of seven sensors
takes 0.5 s a draw on one core.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from training.data import Bools, Floats, WindowBatch
from training.errors import ConfigError
from training.evaluate import ErrorTally, Fill

INSTALL = "pip install 'glaim-stream[peers]'"
DRAWS = 5
_MOST_DRAWN = 200  # test windows that are drawn; the others are left out evenly


@dataclass(frozen=True)
class Peer:
    """One kind of network.

    sizes: Arguments of its class by width (`--d-model`).
    inputs: Of a batch and a device: what the network is given.
    fill: Of a network and a device: the network as a function of arrays.
    error: Of a network, batches and a device: the error by which the best epoch is chosen.
    criterion: Name of that error.
    most_windows: Scores at most so many test windows, evenly spaced; 0: all.
    """

    sizes: Callable[[int], dict[str, Any]]
    inputs: Callable[[WindowBatch, str], dict[str, Tensor]]
    fill: Callable[[torch.nn.Module, str], Fill]
    error: Callable[[torch.nn.Module, Sequence[WindowBatch], str], float]
    criterion: str = "mse"
    most_windows: int = 0

    def every(self, windows: int) -> int:
        """Return the interval between scored windows, given the number of test windows."""
        return -(-windows // self.most_windows) if self.most_windows else 1


def library() -> Any:
    """Import pypots.imputation without its banner.

    Raises:
        ConfigError: it is not installed, or cannot be imported.
    """
    if find_spec("pypots") is None:
        raise ConfigError(f"--peers needs PyPOTS, which is not installed: {INSTALL}")
    try:
        with quiet():
            found = import_module("pypots.imputation")
    except ImportError as error:
        raise ConfigError(f"PyPOTS is installed but cannot be imported ({error}): {INSTALL}") from error
    logging.getLogger("PyPOTS running log").setLevel(logging.ERROR)  # PyPOTS warns that it saves nothing
    return found


def quiet() -> contextlib.redirect_stdout[io.TextIOWrapper]:
    """A replacement of stdout that drops a banner; the banner reads the encoding, which StringIO lacks."""
    return contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))


def inputs(batch: WindowBatch, device: str = "cpu") -> dict[str, Tensor]:
    """Convert a batch to the input of PyPOTS's networks, float tensors [B, T, C].

    `X` is 0 where missing or hidden, `missing_mask` is 1 where observed (despite PyPOTS's name), `X_ori` is the truth,
    `indicating_mask` is 1 at the hidden cells: the same as its own data sets make from arrays with NaN.
    """
    made = _tensors(batch, "missing_mask", device)
    return {name: tensor.transpose(1, 2).contiguous() for name, tensor in made.items()}


def diffusion_inputs(batch: WindowBatch, device: str = "cpu") -> dict[str, Tensor]:
    """Convert a batch to the input of CSDI, float tensors [B, C, T] and the steps' numbers [B, T].

    `cond_mask` is 1 at the observed cells, on which the draws are conditioned, `indicating_mask` at the hidden ones.
    """
    steps = torch.arange(batch.values.shape[2], dtype=torch.float32, device=device)
    return {**_tensors(batch, "cond_mask", device), "observed_tp": steps.expand(len(batch.values), -1)}


def _tensors(batch: WindowBatch, observed: str, device: str) -> dict[str, Tensor]:
    """The arrays of a batch as float tensors [B, C, T]; `observed` is the name of the mask of observed cells."""
    arrays: dict[str, Floats | Bools] = {
        "X": batch.values, observed: batch.observed, "X_ori": batch.truth, "indicating_mask": batch.hidden,
    }  # fmt: skip
    return {name: torch.from_numpy(array).to(device, torch.float32) for name, array in arrays.items()}


def fill_of(network: torch.nn.Module, device: str = "cpu") -> Fill:
    """Wrap the network as a function of arrays, values and observed [B, C, T] -> filled [B, C, T]."""

    def fill(values: Floats, observed: Bools) -> Floats:
        network.eval()
        seen = inputs(WindowBatch(values, observed, values, ~observed), device)
        with torch.inference_mode():
            answer = network({name: seen[name] for name in ("X", "missing_mask")})["imputation"]
        filled: Floats = answer.transpose(1, 2).cpu().numpy()
        return filled

    return fill


def diffusion_fill_of(network: torch.nn.Module, device: str = "cpu") -> Fill:
    """Wrap CSDI as a function of arrays, values and observed [B, C, T] -> the mean of `DRAWS` draws [B, C, T]."""

    def fill(values: Floats, observed: Bools) -> Floats:
        network.eval()
        seen = diffusion_inputs(WindowBatch(values, observed, values, ~observed), device)
        with torch.inference_mode():
            drawn = network(seen, n_sampling_times=DRAWS)["imputation"]  # [B, draws, T, C]
        filled: Floats = drawn.mean(dim=1).transpose(1, 2).cpu().numpy()
        return filled

    return fill


def fill_error(network: torch.nn.Module, batches: Sequence[WindowBatch], device: str = "cpu") -> float:
    """Return the MSE over all hidden cells of the batches, standardised."""
    fill = fill_of(network, device)
    tally = ErrorTally(batches[0].truth.shape[1])
    for batch in batches:
        tally.add(fill(batch.values, batch.observed), batch.truth, batch.hidden)
    return float(tally.squared.sum() / max(int(tally.count.sum()), 1))


def noise_error(network: torch.nn.Module, batches: Sequence[WindowBatch], device: str = "cpu") -> float:
    """Return the mean training loss of CSDI, with the same noise in every epoch: draws would cost 50 times as much."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        network.train()  # the other mode returns the loss of all 50 steps
        losses = [float(network(diffusion_inputs(batch, device), calc_criterion=True)["loss"]) for batch in batches]
    return sum(losses) / len(losses)


def _transformer(width: int) -> dict[str, Any]:
    """Return two layers of four heads with a feed-forward part of twice the width: the sizes of our own blocks."""
    head = width // 4
    return {"n_layers": 2, "d_model": width, "n_heads": 4, "d_k": head, "d_v": head, "d_ffn": 2 * width, "dropout": 0.1}


def _imputing(sizes: Callable[[int], dict[str, Any]]) -> Peer:
    return Peer(sizes, inputs, fill_of, fill_error)


# Width (--d-model) -> sizes, small enough for a CPU and the same for every data set. At 64, PatchTST and iTransformer
# have as many parameters as in the paper's efficiency table. The published ImputeFormer is larger: three layers
# of 24 + 80 dimensions; so is CSDI, with four layers of eight heads.
PEERS: Mapping[str, Peer] = {
    "SAITS": _imputing(_transformer),
    "ImputeFormer": _imputing(
        lambda width: {
            "n_layers": 2, "d_input_embed": width // 2, "d_learnable_embed": width // 2, "d_proj": 8,
            "d_ffn": 2 * width, "n_temporal_heads": 4, "dropout": 0.1,
        }
    ),
    "PatchTST": _imputing(
        lambda width: {**_transformer(width), "attn_dropout": 0.0, "patch_size": 16, "patch_stride": 8}
    ),
    "TimesNet": _imputing(
        lambda width: {"n_layers": 2, "top_k": 3, "d_model": width, "d_ffn": width, "n_kernels": 2, "dropout": 0.1}
    ),
    "iTransformer": _imputing(lambda width: {**_transformer(width), "attn_dropout": 0.0}),
    "CSDI": Peer(
        lambda width: {
            "n_layers": 2, "n_heads": 4, "n_channels": width, "d_time_embedding": width, "d_feature_embedding": 16,
            "d_diffusion_embedding": width,
        },
        diffusion_inputs, diffusion_fill_of, noise_error, criterion="loss", most_windows=_MOST_DRAWN,
    ),
}  # fmt: skip
