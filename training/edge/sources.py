"""Where a model under test comes from: a training run's checkpoint, or a model as it is served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from glaim_stream.models.contract import file_digest, read_contract
from training import checkpoint as checkpoints
from training import config as configs
from training.benchmark.datasets import DATASETS
from training.config import RunConfig, data_path
from training.data.masks import Bools
from training.data.series import Floats, Scale, split
from training.data.tables import load
from training.data.windows import WindowSet
from training.edge.answers import Fill
from training.edge.cases import LAGS
from training.errors import ConfigError
from training.evaluate import restore
from training.network.model import GLAIM


@dataclass(frozen=True)
class Source:
    """A model with the windows it is scored on; `fill` takes and gives standardised values."""

    run: str
    dataset: str
    windows: WindowSet
    fill: Fill
    d_model: int
    masks: str
    epochs: int
    command: str  # the words that name it on the command line


def from_run(path: Path, *, data: Path | None = None, dataset: str = "", part: str = "test") -> Source:
    """A run's directory, or one of its checkpoints: the averaged weights of the best epoch.

    Raises:
        ConfigError: there is no readable checkpoint.
        DataError: its data is not here, or too short.
    """
    state = checkpoints.load(path)
    config, model, scale = restore(state)
    name = dataset or dataset_name(config)
    windows = _windows(config, scale, data, part)
    directory = path if path.is_dir() else path.parent
    return Source(
        directory.name, name, windows, newest_steps(model), config.model.d_model, _masks(config), state.best_epoch,
        str(Path(*path.parts[-3:])),
    )  # fmt: skip


def from_served(
    path: Path, config_file: Path, *, data: Path | None = None, dataset: str = "", part: str = "test"
) -> Source:
    """A model of a repository, run as Triton runs it: TorchScript in sensor units, the newest steps only.

    Args:
        path: model_repo/<model>.
        config_file: The run's TOML; it says where the data is and how it is cut.
        data: The data file, when it is not where the configuration says.
        dataset: Its name in the table, when the file's will not do.
        part: Of the data: train, validation or test.

    Raises:
        ConfigError: the weights are not those of the contract, or too few steps are emitted.
    """
    contract, config = read_contract(path), configs.read(config_file)
    weights = path / str(contract.version) / "model.pt"
    if not weights.is_file() or file_digest(weights) != contract.torchscript_sha256:
        raise ConfigError(
            f"expected at {weights} the weights that {path / 'contract.json'} names, found others or none"
        )
    if contract.emitted_steps <= max(LAGS):
        raise ConfigError(f"{path.name} emits {contract.emitted_steps} steps; the table asks for {max(LAGS) + 1}")
    model = torch.jit.load(str(weights), map_location="cpu").eval()
    mean, std, low, high = (
        np.array([getattr(sensor, name) for sensor in contract.sensors])
        for name in ("mean", "std", "minimum", "maximum")
    )
    scale = Scale(mean, std, low, high)

    @torch.inference_mode()
    def fill(values: Floats, observed: Bools) -> Floats:
        units = (values * std[:, None] + mean[:, None]).astype(np.float32)
        filled = model(torch.from_numpy(np.where(observed, units, np.float32(0))), torch.from_numpy(observed))
        return scale.apply(filled.numpy())

    name = dataset or dataset_name(config)
    return Source(
        f"{contract.name} {contract.version}, as served", name, _windows(config, scale, data, part), fill,
        config.model.d_model, _masks(config), 0, f"--served {Path(*path.parts[-2:])}",
    )  # fmt: skip


def newest_steps(model: GLAIM) -> Fill:
    """The network as a function of arrays that answers for the steps that the table asks for: a third less work."""

    @torch.inference_mode()
    def fill(values: Floats, observed: Bools) -> Floats:
        filled: Floats = model(torch.from_numpy(values), torch.from_numpy(observed), max(LAGS) + 1).numpy()
        return filled

    return fill


def dataset_name(config: RunConfig) -> str:
    """What the paper calls the data, else the run's name."""
    file = Path(config.data.file).name
    return next((known.name for known in DATASETS.values() if known.file == file), config.name)


def _masks(config: RunConfig) -> str:
    low, high = config.masks.rate_bounds
    rates = f"{low:g}" if low == high else f"{low:g}-{high:g}"
    return config.masks.pattern if config.masks.pattern == "deployment" else f"{config.masks.pattern} {rates}"


def _windows(config: RunConfig, scale: Scale, data: Path | None, part: str) -> WindowSet:
    series = load(config.data, data or data_path(config.data.file))
    rows = getattr(split(series, config.data, config.model.window), part).values
    return WindowSet(scale.apply(rows), config.model.window, 1, config.train.minimum_observed)
