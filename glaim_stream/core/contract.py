"""The contract between a model and the worker that uses it: `model_repo/<model>/contract.json`.

Training writes it; the worker, the demo and the tests read it. A contract that does not match its use is rejected
with a message that states what was expected and what was found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from glaim_stream.core.errors import ContractError
from glaim_stream.core.validation import problems_text

CONTRACT_FILE = "contract.json"
WEIGHTS = "model.pt"
FORM_FILE = "gaussian.npz"  # the closed form, beside the contract
SCHEMA_VERSION: Final = 1

VALUES = "VALUES"  # float32 [C, window], sensor units, 0 where missing
OBSERVED = "OBSERVED"  # bool [C, window], True where a reading arrived
IMPUTED = "IMPUTED"  # float32 [C, emitted_steps], sensor units, observed cells passed through


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SensorContract(_Frozen):
    """One sensor of a model; its statistics describe the observed training values, in its unit."""

    id: str
    unit: str = ""
    mean: float
    std: float = Field(gt=0)
    minimum: float
    maximum: float
    resolution: float = Field(gt=0, description="imputed values are rounded to it; training writes std / 10 000")


class ResidualQuantiles(_Frozen):
    """Quantiles of truth minus imputed value, measured on validation data; intervals are computed from them.

    `newest_*` apply to the newest step of the window, `interior_*` to steps with right context. Each is [C][A]: one row
    per sensor, one column per entry of `gap_ages` (steps since the sensor's last observation), in the sensor's unit.
    """

    levels: tuple[float, float] = (0.05, 0.95)
    gap_ages: list[int] = Field(min_length=1)
    newest_lower: list[list[float]]
    newest_upper: list[list[float]]
    interior_lower: list[list[float]]
    interior_upper: list[list[float]]

    @model_validator(mode="after")
    def _ages_ascend(self) -> Self:
        if any(b <= a for a, b in zip(self.gap_ages, self.gap_ages[1:], strict=False)) or self.gap_ages[0] < 1:
            raise ValueError(f"gap_ages must start at 1 or later and ascend, found {self.gap_ages}")
        return self

    def table(self, *, newest: bool) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Lower and upper residual quantiles, each float32 [C, A]."""
        lower, upper = (self.newest_lower, self.newest_upper) if newest else (self.interior_lower, self.interior_upper)
        return np.asarray(lower, np.float32), np.asarray(upper, np.float32)


class DataFingerprint(_Frozen):
    """The training data: name of the file without its path, number of rows, and digest."""

    source: str
    rows: int = Field(ge=1)
    sha256: str


class Contract(_Frozen):
    """The contract of a served model. Shapes: VALUES and OBSERVED [C, window], IMPUTED [C, emitted_steps]."""

    schema_version: Literal[1] = SCHEMA_VERSION
    # A name that Triton and Kubernetes accept; it is part of paths and must not leave the repository.
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    version: int = Field(ge=1)
    window: int = Field(ge=2)
    emitted_steps: int = Field(ge=1, description="number of newest steps that the model imputes")
    step_s: float = Field(gt=0, description="sampling interval of the training data, seconds")
    sensors: list[SensorContract] = Field(min_length=1)
    sensors_sha256: str
    masks: list[str]
    metrics: dict[str, Any]
    residual_quantiles: ResidualQuantiles | None = None
    data: DataFingerprint
    torchscript_sha256: str
    git_commit: str
    torch_version: str
    created: str

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.emitted_steps > self.window:
            raise ValueError(f"emitted_steps {self.emitted_steps} exceeds the window of {self.window} steps")
        expected = sensors_digest(self.sensor_ids)
        if self.sensors_sha256 != expected:
            raise ValueError(f"sensors_sha256 is {self.sensors_sha256}, the sensors listed give {expected}")
        quantiles = self.residual_quantiles
        if quantiles is not None:
            shape = (len(self.sensors), len(quantiles.gap_ages))
            for newest in (True, False):
                for side in quantiles.table(newest=newest):
                    if side.shape != shape:
                        raise ValueError(f"residual quantiles must be [sensor][gap age] {shape}, found {side.shape}")
        return self

    @property
    def sensor_ids(self) -> list[str]:
        """The sensors in the order of the model's rows."""
        return [sensor.id for sensor in self.sensors]

    def require_sensors(self, sensor_ids: Sequence[str]) -> None:
        """Raise ContractError unless `sensor_ids` are the model's sensors in the model's order."""
        if list(sensor_ids) != self.sensor_ids:
            raise ContractError(
                f"model {self.name} version {self.version} was trained on sensors {self.sensor_ids} in this order, "
                f"found {list(sensor_ids)}"
            )


def sensors_digest(sensor_ids: Sequence[str]) -> str:
    """SHA-256 of the sensor ids in order; models with the same digest have the same rows."""
    return hashlib.sha256(json.dumps(list(sensor_ids)).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_contract(path: Path) -> Contract:
    """Read a contract from its file or from the model's directory.

    Raises:
        ContractError: the file is absent, is not JSON, or breaks a rule of `Contract`.
    """
    file = path / CONTRACT_FILE if path.is_dir() else path
    try:
        text = file.read_text()
    except OSError as error:
        raise ContractError(f"expected a model contract at {file}, found none: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ContractError(f"{file} is not text: {error}") from error
    try:
        return Contract.model_validate_json(text)
    except ValidationError as error:
        raise ContractError(
            f"{file} is not a contract of schema version {SCHEMA_VERSION}: {problems_text(error)}"
        ) from error


def write_contract(contract: Contract, model_directory: Path) -> Path:
    """Write `contract.json` into the model's directory atomically and return its path."""
    target = model_directory / CONTRACT_FILE
    partial = target.with_suffix(".json.partial")
    partial.write_text(contract.model_dump_json(indent=2) + "\n")
    partial.replace(target)
    return target


def require_weights(contract: Contract, weights: bytes) -> None:
    """Raise ContractError unless these bytes are the weights the contract was written for."""
    found = hashlib.sha256(weights).hexdigest()
    if found != contract.torchscript_sha256:
        raise ContractError(
            f"{WEIGHTS} of model {contract.name} version {contract.version}: contract expects "
            f"sha256 {contract.torchscript_sha256}, found {found}"
        )
