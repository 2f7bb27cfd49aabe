"""`groups.yaml`: the groups of sensors, and the model that imputes each.

Thousands of groups can share one model. A group is named by its id or by a pattern; an id takes precedence over every
pattern, then the first matching pattern applies. The file is validated as a whole: a typo, an unknown model or an
inconsistent limit stops the start with an error message.
"""

from __future__ import annotations

import fnmatch
import math
import re
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from glaim_stream.core.angles import are_circles
from glaim_stream.core.contract import Contract
from glaim_stream.core.errors import CatalogueError, ContractError
from glaim_stream.core.validation import problems_text

LEARN = "learn"  # stands for a model's name: the model is learned while the workers run

_DEGREES = ("", "°", "deg", "degree", "degrees")  # units of a direction

MAX_STEP_S = 14 * 24 * 3600  # the offset of a time within its step is stored in 32 bits of milliseconds


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Sensor(_Strict):
    """One sensor of a model: its id, its unit, and the limits outside of which a reading is rejected.

    Limits of 0 and 360, without a unit or with that of degrees, mark a direction, and so do limits of -180 and 180 with
    the unit of degrees: its readings are compared on the circle, and `bucket: mean` gives a step their mean direction.
    """

    id: str = Field(min_length=1)
    unit: str = ""
    min: float | None = None
    max: float | None = None
    resolution: float | None = Field(default=None, gt=0, description="imputed values are rounded to a multiple of it")
    max_interval: float | None = Field(
        default=None, gt=0, description="an imputed value with a wider interval becomes null; in the sensor's unit"
    )
    cadence_s: float | None = Field(
        default=None,
        gt=0,
        description="interval with one due reading, counted from the epoch; a multiple of step_s; default: step_s",
    )
    plausibility: bool = Field(
        default=True,
        description="readings that stand apart from their window are published as uncertain and fill no holes",
    )

    keep_sign: bool = Field(
        default=True,
        description="filled values do not cross 0 where no reading did, neither in the training data nor in the window",
    )

    @model_validator(mode="after")
    def _limits(self) -> Self:
        if self.min is not None and self.max is not None and self.min >= self.max:
            raise ValueError(f"sensor {self.id}: min {self.min} must be below max {self.max}")
        return self

    @property
    def limits(self) -> tuple[float, float]:
        """(low, high), infinite without a limit."""
        return (-math.inf if self.min is None else self.min, math.inf if self.max is None else self.max)

    @property
    def is_direction(self) -> bool:
        """Whether readings are directions in degrees, of which 360 is 0 again."""
        least, most = np.array(self.limits)
        unit = self.unit.lower()
        return unit in _DEGREES and bool(are_circles(least, most)) and (unit != "" or least >= 0.0)


class Model(_Strict):
    """One model and the window rules of its groups."""

    name: str = Field(min_length=1)
    sensors: list[Sensor] = Field(min_length=1)
    step_s: float = Field(gt=0, le=MAX_STEP_S, description="length of a step, seconds")
    window: int = Field(default=96, ge=2, le=4096)
    bucket: Literal["last", "mean"] = Field(
        default="last", description="how several readings of one sensor in one step become its value"
    )
    lateness_s: float = Field(
        default=0,
        ge=0,
        le=30 * 24 * 3600,
        description="a step closes this long after its end in event time; longer delays rows, shorter revises more",
    )
    revise_after: int = Field(
        default=8, ge=0, description="steps after a hole until its final value is published; 0: at once"
    )
    max_gap: int = Field(
        default=48,
        ge=1,
        description="a sensor without an observation for more steps than this gets null",
    )
    idle_timeout_s: float = Field(
        default=30, gt=0, description="after this long without any reading the open steps close provisionally"
    )

    learn: bool = Field(
        default=False,
        description="the worker fits this model's closed form to the input topic while it runs; no contract is needed",
    )
    experts: list[str] = Field(
        default=[],
        description="registered experts that take part in the blend of this model's values; it needs score_share",
    )

    @field_validator("name")
    @classmethod
    def _not_reserved(cls, name: str) -> str:
        if name == LEARN:
            raise ValueError(f"a model cannot have the name {LEARN!r}: set `learn: true`, and groups may name it so")
        return name

    @field_validator("sensors")
    @classmethod
    def _unique(cls, sensors: list[Sensor]) -> list[Sensor]:
        ids = [sensor.id for sensor in sensors]
        twice = sorted({id_ for id_ in ids if ids.count(id_) > 1})
        if twice:
            raise ValueError(f"sensor ids must be unique, found twice: {twice}")
        return sensors

    @model_validator(mode="after")
    def _spans(self) -> Self:
        if abs(self.step_s * 1000 - self.step_ms) > 1e-6 or self.step_ms < 1:  # 1.005 * 1000 is not exactly 1005
            raise ValueError(f"model {self.name}: step_s must be whole milliseconds, found {self.step_s}")
        # A final value sees the window less revise_after; there a longer gap looks like a sensor that is absent.
        if self.max_gap + self.revise_after >= self.window:
            raise ValueError(
                f"model {self.name}: max_gap and revise_after together must be below the window of {self.window} "
                f"steps, found {self.max_gap} and {self.revise_after}"
            )
        for sensor, steps in zip(self.sensors, self.cadences, strict=True):
            # From the first step of one interval to the last step of the next one, where its hole is.
            if steps > 1 and 2 * steps - 1 > self.max_gap:
                raise ValueError(
                    f"model {self.name}: sensor {sensor.id} may be silent for {2 * steps - 1} steps by its cadence_s, "
                    f"so max_gap must be at least that, found {self.max_gap}"
                )
        return self

    @property
    def cadences(self) -> list[int]:
        """Steps per cadence of each sensor; 1: a reading is due at every step."""
        return [self._cadence(sensor) for sensor in self.sensors]

    def _cadence(self, sensor: Sensor) -> int:
        cadence_ms = self.step_ms if sensor.cadence_s is None else sensor.cadence_s * 1000
        steps = round(cadence_ms / self.step_ms)
        if steps < 1 or abs(cadence_ms - steps * self.step_ms) > 1e-6:
            raise ValueError(
                f"model {self.name}: cadence_s of sensor {sensor.id} must be a multiple of step_s {self.step_s}, "
                f"found {sensor.cadence_s}"
            )
        return steps

    @property
    def directions(self) -> NDArray[np.bool_] | None:
        """Whether each sensor's readings are directions in degrees, bool [C]; None: no sensor's are."""
        found = np.array([sensor.is_direction for sensor in self.sensors])
        return found if found.any() else None

    @property
    def step_ms(self) -> int:
        """Length of a step, milliseconds."""
        return round(self.step_s * 1000)

    @property
    def lateness_ms(self) -> int:
        """Allowed lateness, milliseconds."""
        return round(self.lateness_s * 1000)

    @property
    def sensor_ids(self) -> list[str]:
        """The sensors in the order of the model's rows."""
        return [sensor.id for sensor in self.sensors]

    def require_contract(self, contract: Contract) -> None:
        """Compare this entry with the model's contract.

        Raises:
            ContractError: sensors, window, step_s or revise_after do not match.
        """
        contract.require_sensors(self.sensor_ids)
        for what, expected, found in (
            ("window", contract.window, self.window),
            ("step_s", contract.step_s, self.step_s),
        ):
            if expected != found:
                raise ContractError(f"model {self.name}: the contract has {what} {expected}, the catalogue {found}")
        if self.revise_after >= contract.emitted_steps:
            raise ContractError(
                f"model {self.name} imputes the newest {contract.emitted_steps} steps, so revise_after must be "
                f"at most {contract.emitted_steps - 1}, found {self.revise_after}"
            )


class GroupRule(_Strict):
    """The groups of a model, by explicit ids or by a shell-style pattern such as `pump-*`."""

    model: str = Field(description="name of a model, or `learn` for the only one with `learn: true`")
    ids: list[str] = Field(default_factory=list)
    pattern: str | None = None

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.ids and self.pattern is None:
            raise ValueError(f"a group entry of model {self.model} needs ids or a pattern, found neither")
        return self


class Catalogue(_Strict):
    """The contents of `groups.yaml`."""

    models: list[Model] = Field(min_length=1)
    groups: list[GroupRule] = Field(min_length=1)
    max_ahead_s: float = Field(
        default=300,
        ge=0,
        description="a reading is rejected if its time is further ahead of its record's time than this, or than one "
        "window of its model. The windows reserve 16 bytes per sensor and step for readings ahead: with step_s 1 and "
        "96 steps 3.1 kB per sensor instead of 1.6 kB, with step_s 60 5 steps more",
    )

    @model_validator(mode="after")
    def _references(self) -> Self:
        names = [model.name for model in self.models]
        if len(set(names)) != len(names):
            raise ValueError(f"model names must be unique, found {names}")
        learned = [model.name for model in self.models if model.learn]
        for rule in self.groups:
            if rule.model == LEARN:
                if len(learned) != 1:
                    raise ValueError(f"groups have the model {LEARN}: expected one with `learn: true`, found {learned}")
            elif rule.model not in names:
                raise ValueError(f"groups name model {rule.model!r}, the catalogue has {names}")
        ids = [id_ for rule in self.groups for id_ in rule.ids]
        twice = sorted({id_ for id_ in ids if ids.count(id_) > 1})
        if twice:
            raise ValueError(f"a group belongs to one model, found twice: {twice}")
        return self

    def max_ahead_ms(self, model: Model) -> int:
        """Greatest lead of a reading of `model` over its record's time, milliseconds."""
        return min(round(self.max_ahead_s * 1000), model.window * model.step_ms)

    def model_of(self, group: str) -> int | None:
        """Index in `models` of the model of `group`; None if no entry names the group."""
        index = self._model_of_id.get(group)
        if index is None:
            found = self._patterns.match(group)
            index = None if found is None else self._model_of_pattern[found.lastindex or 0]
        return index

    @cached_property
    def _model_of_id(self) -> dict[str, int]:
        return {id_: self._model_index[rule.model] for rule in self.groups for id_ in rule.ids}

    @cached_property
    def _patterns(self) -> re.Pattern[str]:
        """All patterns in their order, a capturing group each.

        One after the other, 300 patterns would hold the loop for 2.8 s at a poll of 20,000 unknown names.
        """
        patterns = (fnmatch.translate(rule.pattern) for rule in self.groups if rule.pattern is not None)
        return re.compile("|".join(f"({each})" for each in patterns) or r"(?!)")

    @cached_property
    def _model_of_pattern(self) -> list[int]:
        return [-1, *(self._model_index[rule.model] for rule in self.groups if rule.pattern is not None)]

    @cached_property
    def _model_index(self) -> dict[str, int]:
        index = {model.name: index for index, model in enumerate(self.models)}
        learned = [model.name for model in self.models if model.learn]
        return index | ({LEARN: index[learned[0]]} if len(learned) == 1 else {})


def read_catalogue(path: Path) -> Catalogue:
    """Read and validate `groups.yaml`.

    Raises:
        CatalogueError: the file is absent, is not YAML, or breaks a rule; the message names the place.
    """
    try:
        document: Any = yaml.safe_load(path.read_text())
    except OSError as error:
        raise CatalogueError(f"expected a catalogue at {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    return parse_catalogue(document, source=str(path))


def parse_catalogue(document: Any, *, source: str) -> Catalogue:
    """Validate a parsed catalogue.

    Args:
        document: the parsed YAML.
        source: name of the catalogue for error messages.

    Raises:
        CatalogueError: the document breaks a rule.
    """
    if not isinstance(document, dict):
        raise CatalogueError(f"{source} must map `models` and `groups`, found {type(document).__name__}")
    try:
        return Catalogue.model_validate(document)
    except ValidationError as error:
        raise CatalogueError(f"{source}: {problems_text(error)}") from error
