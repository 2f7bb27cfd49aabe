"""The model that is measured: the checkpoint of a training run, or a served model of a repository."""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.edge.answers import Fill
from benchmarks.edge.cases import LAGS
from benchmarks.paper.datasets import DATASETS, WINDOW, read, without_sentinels
from glaim_stream.core.contract import FORM_FILE, Contract, read_contract, require_weights
from glaim_stream.core.errors import GlaimError
from glaim_stream.form import ClosedForm
from glaim_stream.models import require_known_operators
from training import checkpoint as checkpoints
from training import closed_form
from training import config as configs
from training.closed_form import TimedFill
from training.config import RunConfig, data_path
from training.data import Bools, Floats, Scale, WindowSet, fit_scale, load, split
from training.errors import ConfigError, DataError
from training.evaluate import restore
from training.network import GLAIM


@dataclass(frozen=True)
class ScoredPart:
    """The scored part of a data set: values [G, C, R], standardised, NaN where unknown, and all windows in it.

    `closed` is the closed form of the served model, else one fitted from the training part; None where that has too few
    rows. It returns the newest steps, as many as the table needs.
    """

    groups: tuple[str, ...]
    values: Floats
    windows: WindowSet
    times_ms: NDArray[np.int64]
    closed: TimedFill | None


@dataclass(frozen=True)
class EdgeSource:
    """A model, and the part of its data that it is scored on; `fill` takes and returns standardised values.

    Without a network `fill` is None: the closed form of the part is what is measured.
    """

    run: str
    dataset: str
    part: ScoredPart
    fill: Fill | None
    d_model: int
    masks: str
    epochs: int
    command: str  # the arguments that name it on the command line


def from_run(path: Path, *, data: Path | None = None, dataset: str = "", part: str = "test") -> EdgeSource:
    """Read a run's directory, or one of its checkpoints: the averaged weights of the best epoch.

    Raises:
        ConfigError: there is no readable checkpoint.
        DataError: its data is absent or too short.
    """
    state = checkpoints.load(path)
    config, model, scale = restore(state)
    name = dataset or dataset_name(config)
    directory = path if path.is_dir() else path.parent
    return EdgeSource(
        directory.name, name, _part(config, scale, data, part), newest_steps(model), config.model.d_model,
        _masks(config), state.best_epoch,
        str(Path(*path.parts[-3:])),
    )  # fmt: skip


def from_served(
    path: Path, config_file: Path, *, data: Path | None = None, dataset: str = "", part: str = "test"
) -> EdgeSource:
    """Read a model of a repository and run it as Triton does: TorchScript in sensor units, the newest steps only.

    Args:
        path: model_repo/<model>.
        config_file: The run's TOML, for the location and the split of the data.
        data: The data file, when it is not where the configuration expects it.
        dataset: Name of the data set in the table; by default the paper's, else the run's.
        part: train, validation or test.

    Raises:
        ConfigError: the weights differ from those of the contract, or the model emits too few steps.
    """
    contract, config = read_contract(path), configs.read(config_file)
    weights = path / str(contract.version) / "model.pt"
    try:
        content = weights.read_bytes()
        require_weights(contract, content)
        require_known_operators(content)
    except (OSError, GlaimError) as error:
        raise ConfigError(
            f"expected at {weights} the weights that {path / 'contract.json'} names, found others or none: {error}"
        ) from error
    if contract.emitted_steps <= max(LAGS):
        raise ConfigError(
            f"expected a model that emits {max(LAGS) + 1} steps or more, found {contract.emitted_steps} for {path.name}"
        )
    try:
        form = ClosedForm.load(path) if (path / FORM_FILE).is_file() else None
    except GlaimError as error:
        raise ConfigError(f"expected a closed form beside {path / 'contract.json'}: {error}") from error
    model = torch.jit.load(io.BytesIO(content), map_location="cpu").eval()
    scale = scale_of(contract)

    @torch.inference_mode()
    def fill(values: Floats, observed: Bools) -> Floats:
        units = (values * scale.std[:, None] + scale.mean[:, None]).astype(np.float32)
        filled = model(torch.from_numpy(np.where(observed, units, np.float32(0))), torch.from_numpy(observed))
        return scale.apply(filled.numpy())

    name = dataset or dataset_name(config)
    return EdgeSource(
        f"{contract.name} {contract.version}, as served", name, _part(config, scale, data, part, form), fill,
        config.model.d_model, _masks(config), 0, f"--served {Path(*path.parts[-2:])}",
    )  # fmt: skip


def scale_of(contract: Contract) -> Scale:
    """Return the scale that a contract states."""
    numbers = ([getattr(sensor, name) for sensor in contract.sensors] for name in ("mean", "std", "minimum", "maximum"))
    return Scale(*map(np.array, numbers))


def from_form(dataset: str, part: str = "test") -> EdgeSource:
    """Fit the closed form of one of the paper's data sets; there is no network, as with `model: learn` in a catalogue.

    Values that stand for none are missing, and directions are filled on the circle, as a worker does it.

    Raises:
        ConfigError: there is no such data set.
        DataError: its file is absent, or it has too few rows.
    """
    if dataset not in DATASETS:
        raise ConfigError(f"expected one of {', '.join(DATASETS)}, found {dataset!r}")
    known = DATASETS[dataset]
    series = without_sentinels(known, read(known))
    parts = split(series, known.spec, WINDOW)
    scored, scale = getattr(parts, part), fit_scale(parts.train)
    values = scale.apply(scored.values)
    closed = closed_form.fill_of(closed_form.fit(parts.train, WINDOW, parts.validation).form, scale, max(LAGS) + 1)
    found = ScoredPart(series.groups, values, WindowSet(values, WINDOW), scored.times_ms, closed)
    return EdgeSource("closed form", dataset, found, None, 0, "", 0, f"--form {dataset}")


def newest_steps(model: GLAIM) -> Fill:
    """Wrap the network as a function of arrays that computes only the steps of the table: a third less work."""

    @torch.inference_mode()
    def fill(values: Floats, observed: Bools) -> Floats:
        filled: Floats = model(torch.from_numpy(values), torch.from_numpy(observed), max(LAGS) + 1).numpy()
        return filled

    typed: Fill = fill
    return typed


def dataset_name(config: RunConfig) -> str:
    """Return the paper's name of the data set, else the run's name."""
    file = Path(config.data.file).name
    return next((known.name for known in DATASETS.values() if known.file == file), config.name)


def _masks(config: RunConfig) -> str:
    low, high = config.masks.rate_bounds
    rates = f"{low:g}" if low == high else f"{low:g}-{high:g}"
    return config.masks.pattern if config.masks.pattern == "deployment" else f"{config.masks.pattern} {rates}"


def _part(config: RunConfig, scale: Scale, data: Path | None, part: str, form: ClosedForm | None = None) -> ScoredPart:
    series = load(config.data, data or data_path(config.data.file))
    parts = split(series, config.data, config.model.window)
    scored = getattr(parts, part)
    values = scale.apply(scored.values)
    windows = WindowSet(values, config.model.window, 1, config.train.minimum_observed)
    if form is None:
        with suppress(DataError):  # too few rows
            form = closed_form.fit(parts.train, config.model.window).form
    closed = None if form is None else closed_form.fill_of(form, scale, max(LAGS) + 1)
    return ScoredPart(series.groups, values, windows, scored.times_ms, closed)
