"""The configuration of a run: TOML sections [data], [model], [masks], [train], [export] and [tune], all checked."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from glaim_stream.core.validation import problems_text
from training.data import DataSpec, MaskSpec
from training.errors import ConfigError
from training.network import GLAIMConfig

Section = TypeVar("Section")


@dataclass(frozen=True)
class TrainSpec:
    """The settings of the training: a run's [train] section. The defaults are the paper's where it states them.

    `iterations` ends an epoch early (0 = every window once), so that long data is validated often. `balance` weighs a
    window by its hidden cells to the power of -balance: 0 is the paper's loss, with 1 a window that lacks only its
    newest step counts as much as one that lacks a thousand cells. `mae_weight` adds that share of the absolute error to
    the squared one. `ema` averages the weights (0 = off); the averaged weights are validated and exported.

    `precision` bf16 computes the training passes in bfloat16 where that is safe; weights, optimiser, loss and
    validation stay fp32. `compile` uses torch.compile, on cuda with CUDA graphs: minutes at the start, faster
    iterations afterwards. `checkpoint_minutes` is the longest time between two checkpoints within an epoch (0 = only at
    its end). `batch_size` is the size for the whole run: several processes share it.
    """

    epochs: int = 300
    iterations: int = 0
    batch_size: int = 16
    learning_rate: float = 1e-3
    schedule: str = "constant"
    warmup: int = 0
    clip_norm: float = 0.0
    ema: float = 0.0
    mae_weight: float = 0.0
    balance: float = 0.0
    patience: int = 30
    stride: int = 1
    validation_stride: int = 1
    validation_windows: int = 0
    minimum_observed: float = 0.25
    seed: int = 2021
    threads: int = 1
    device: str = "cpu"
    max_minutes: float = 0.0
    checkpoint_minutes: float = 5.0
    precision: str = "fp32"
    compile: bool = False

    def __post_init__(self) -> None:
        if self.schedule not in ("constant", "cosine"):
            raise ValueError(f"schedule must be constant or cosine, found {self.schedule!r}")
        if self.precision not in ("fp32", "bf16"):
            raise ValueError(f"precision must be fp32 or bf16, found {self.precision!r}")
        for name in ("epochs", "batch_size", "patience", "stride", "validation_stride", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, found {getattr(self, name)}")
        if self.learning_rate <= 0 or not 0 <= self.ema < 1:
            raise ValueError("learning_rate must exceed 0 and ema lie in [0, 1)")
        for name in ("iterations", "warmup", "clip_norm", "max_minutes", "checkpoint_minutes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, found {getattr(self, name)}")


@dataclass(frozen=True)
class ExportSpec:
    """The settings of the served model: a run's [export] section.

    `version` 0 takes the number after the highest present one, so that a retrained model goes beside the old one.
    `emitted_steps` is S: the served model returns the S newest steps of a window. `preferred_batches` and
    `queue_delay_us` go into Triton's dynamic batching. `served_versions` is the number of newest versions that Triton
    keeps loaded, each with its memory: the former one answers where the newest is bad; with 1 the next rung does.
    """

    name: str = ""
    version: int = 1
    directory: str = "model_repo"
    emitted_steps: int = 16
    max_batch: int = 256
    preferred_batches: tuple[int, ...] = (8, 64, 256)
    queue_delay_us: int = 2000
    served_versions: int = 2

    def __post_init__(self) -> None:
        if self.served_versions < 1:
            raise ValueError(f"served_versions must be 1 or more, found {self.served_versions}")


@dataclass(frozen=True)
class TuneSpec:
    """The search for better settings: a run's [tune] section, read by `python -m training.fit.tune`.

    `search` maps settings of the run to their candidates: a list of choices, or two bounds like "1e-4..1e-2" (integers
    if both are; on a logarithmic scale if the upper one is ten times the lower or more).
    """

    trials: int = 20
    search: Mapping[str, str | tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise ValueError(f"trials must be 1 or more, found {self.trials}")


@dataclass(frozen=True)
class RunConfig:
    """The configuration of a whole run. `model.num_variables` is taken from the data."""

    name: str = "run"
    data: DataSpec = field(default_factory=DataSpec)
    model: GLAIMConfig = field(default_factory=lambda: GLAIMConfig(1))
    masks: MaskSpec = field(default_factory=MaskSpec)
    train: TrainSpec = field(default_factory=TrainSpec)
    export: ExportSpec = field(default_factory=ExportSpec)
    tune: TuneSpec = field(default_factory=TuneSpec)

    def to_json(self) -> str:
        """The run as text, for checkpoints and results."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    def to_toml(self) -> str:
        """The run with all defaults, as text that `read` turns into the same run."""
        tables = dataclasses.asdict(self)
        if self.model.num_variables == 1:  # not a setting: it follows from the data
            del tables["model"]["num_variables"]
        return _toml_text(tables)


SECTIONS: Mapping[str, type] = {
    "data": DataSpec,
    "model": GLAIMConfig,
    "masks": MaskSpec,
    "train": TrainSpec,
    "export": ExportSpec,
    "tune": TuneSpec,
}

# Settings that may change when a run is resumed: the place of its data, the length, place and speed of its training,
# and the steps after it. The data itself is compared by its digest.
MAY_CHANGE: Mapping[str, tuple[str, ...]] = {
    "data": ("file",),
    "train": ("patience", "threads", "device", "max_minutes", "checkpoint_minutes", "compile"),
}


def _section(name: str, kind: type[Section], given: Any) -> Section:
    known = [item.name for item in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if not isinstance(given, Mapping):
        raise ConfigError(f"expected [{name}] to be a table, found {type(given).__name__}")
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigError(f"[{name}] has no setting {', '.join(unknown)}; it has {', '.join(known)}")
    values = {"num_variables": 1, **given} if kind is GLAIMConfig else dict(given)
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        raise ConfigError(f"[{name}] {problems_text(error)}") from error


def build(tables: Mapping[str, Any]) -> RunConfig:
    """Build a run from nested tables, as read from TOML or JSON.

    Raises:
        ConfigError: an unknown section or setting, a wrong type, or a value out of range.
    """
    unknown = sorted(set(tables) - set(SECTIONS) - {"name"})
    if unknown:
        raise ConfigError(f"unknown section {', '.join(unknown)}; a run has name, {', '.join(SECTIONS)}")
    sections: dict[str, Any] = {name: _section(name, kind, tables.get(name, {})) for name, kind in SECTIONS.items()}
    return RunConfig(name=str(tables.get("name", "run")), **sections)


def read(path: Path | None, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a TOML file and apply `section.key=value` overrides, each value written as in TOML."""
    return build(stated(path, overrides))


def stated(path: Path | None, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the settings that a file and overrides state, as nested tables without defaults."""
    tables: dict[str, Any] = {}
    if path is not None:
        try:
            tables = tomllib.loads(path.read_text())
        except OSError as error:
            raise ConfigError(f"expected a run's configuration at {path}: {error.strerror}") from error
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path} is not TOML: {error}") from error
        tables.setdefault("name", path.stem)
    for override in overrides:
        key, separator, text = override.partition("=")
        section, dot, name = key.strip().partition(".")
        if not separator or (not dot and section != "name"):
            raise ConfigError(f"expected an override like train.epochs=20, found {override!r}")
        value = toml_value(text.strip())
        if section == "name":
            tables["name"] = value
        else:
            tables.setdefault(section, {})[name] = value
    return tables


def changes(old: RunConfig, new: RunConfig) -> list[str]:
    """List the settings whose change keeps `new` from resuming `old`; empty if there are none."""
    found = []
    for section in ("data", "model", "masks", "train"):
        before, now = (dataclasses.asdict(getattr(run, section)) for run in (old, new))
        free = MAY_CHANGE.get(section, ())
        if section == "masks":  # compare the values in use, stated or default
            before["rates"], now["rates"] = old.masks.rate_bounds, new.masks.rate_bounds
        if section == "train" and old.train.schedule == new.train.schedule == "constant":
            free = (*free, "epochs")  # a cosine ends with the last epoch, a constant rate does not
        if section == "masks" and "deployment" not in (old.masks.pattern, new.masks.pattern):
            free = ("weights", "background", "background_rate")  # settings of the mixture
        found += [
            f"{section}.{name} was {before[name]!r}, is {now[name]!r}"
            for name in now
            if name not in free and before[name] != now[name]
        ]
    return found


def toml_value(text: str) -> Any:
    """Parse a TOML value; bare words are text, so that a shell needs no nested quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def _toml_text(tables: Mapping[str, Any]) -> str:
    """Return nested mappings of text, numbers, booleans and lists as TOML, without empty tables and None."""
    return "\n".join(_toml_table(tables, "")).strip() + "\n"


def _toml_table(table: Mapping[str, Any], prefix: str) -> list[str]:
    """Write plain values first, as TOML requires, then one section for each mapping."""
    lines = [f"{_key(key)} = {_toml_of(item)}" for key, item in table.items() if not _apart(item)]
    for key, item in table.items():
        if isinstance(item, Mapping) and item:
            name = f"{prefix}{_key(key)}"
            inner = _toml_table(item, f"{name}.")
            plain = not all(isinstance(below, Mapping) for below in item.values())
            lines += ["", f"[{name}]", *inner] if plain else inner
    return lines


def _apart(item: Any) -> bool:
    return item is None or isinstance(item, Mapping)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """Quote text; JSON escapes as TOML does, except for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_of(item: Any) -> str:
    """Return one value as TOML: text, a boolean, a number, or a list of these."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        return _quoted(item)
    if isinstance(item, (int, float)):
        return repr(item)
    if isinstance(item, (list, tuple)):
        return f"[{', '.join(_toml_of(part) for part in item)}]"
    raise TypeError(f"expected text, a number, a boolean or a list for TOML, found {type(item).__name__}")


def data_path(file: str) -> Path:
    """Find a run's data file: as given, or in the folder that GLAIM_DATA names (default ../shared/data)."""
    if not file:
        raise ConfigError("no data file: give --data FILE or data.file in the configuration")
    given = Path(file)
    if given.is_absolute() or given.exists():
        return given
    kept = data_folder() / given
    return kept if kept.exists() else given


def data_folder() -> Path:
    """The folder of the data sets: the one that GLAIM_DATA names (default ../shared/data)."""
    return Path(os.environ.get("GLAIM_DATA", "../shared/data"))
