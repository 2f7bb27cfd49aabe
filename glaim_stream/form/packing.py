"""A closed form as arrays and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import ModelError
from glaim_stream.form.artefact import Arrays, text_of, with_text
from glaim_stream.form.dark_steps import DarkSteps
from glaim_stream.form.kinds import Kind
from glaim_stream.form.levels import Levels
from glaim_stream.form.phase import Phase
from glaim_stream.form.relations import Relations
from glaim_stream.form.transform import Transform
from glaim_stream.form.variant import Variant

if TYPE_CHECKING:
    from glaim_stream.form.form import ClosedForm

_PER_SENSOR = ("lowest", "highest", "swing", "carried_deviation")
_TRANSFORM = ("logarithm", "low", "high", "scale", "calmest", "wildest")
_LEVELS = ("mean", "covariance", "own", "lowest", "highest")


def pack(form: ClosedForm) -> Arrays:
    """Return the arrays of a closed form, from which `unpack` restores it."""
    arrays: Arrays = {name: getattr(form, name) for name in _PER_SENSOR}
    arrays["relations.coefficients"] = form.relations.coefficients
    arrays["relations.constants"] = form.relations.constants
    for place, variant in enumerate(form.variants):
        arrays[f"{place}.covariance"] = _triangle(variant.covariance)
        arrays[f"{place}.level_variance"] = variant.level_variance
        arrays |= {f"{place}.transform.{name}": getattr(variant.transform, name) for name in _TRANSFORM}
        arrays |= {f"{place}.levels.{name}": getattr(variant.levels, name) for name in _LEVELS}
        if variant.transform.profile is not None:
            arrays[f"{place}.transform.profile"] = variant.transform.profile
    phase = form.phase
    chosen: dict[str, Any] = {}  # absent in files from before the choice existed
    if not form.carried_levels:
        chosen["carried_levels"] = False
    if form.dark_steps is not None:
        chosen["dark_steps"] = asdict(form.dark_steps)
    return with_text(
        arrays,
        {
            "sensors": list(form.sensors),
            "steps": form.steps,
            "step_ms": form.step_ms,
            "span": form.span,
            "variants": [_text(each) for each in form.variants],
            "weights": list(form.weights),
            "kinds": list(form.kinds),
            "phase": phase and {"period_ms": phase.period_ms, "bins": phase.bins, "zone": phase.zone},
            "calibration": form.calibration,
            "until_ms": form.until_ms,
        }
        | chosen,
    )


def unpack(arrays: Arrays) -> dict[str, Any]:
    """Return the parts of a closed form.

    Raises:
        ModelError: arrays are missing, or do not fit one another.
    """
    try:
        text = text_of(arrays)
        cells = len(text["sensors"]) * text["span"]
        variants = tuple(_variant(arrays, place, each, cells) for place, each in enumerate(text["variants"]))
        parts: dict[str, Any] = {name: arrays[name] for name in _PER_SENSOR}
        return parts | {
            "sensors": tuple(text["sensors"]),
            "steps": text["steps"],
            "step_ms": text["step_ms"],
            "span": text["span"],
            "variants": variants,
            "weights": tuple(text["weights"]),
            "kinds": tuple(Kind(kind) for kind in text["kinds"]),
            "relations": Relations(arrays["relations.coefficients"], arrays["relations.constants"]),
            "phase": text["phase"] and Phase(**text["phase"]),
            "calibration": text["calibration"],
            "until_ms": text.get("until_ms"),
            "carried_levels": text.get("carried_levels", True),
            "dark_steps": _dark(text.get("dark_steps")),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"a closed form's arrays do not fit one another: {error!r}") from error


def _dark(chosen: dict[str, list[bool]] | None) -> DarkSteps | None:
    return None if chosen is None else DarkSteps(**{name: tuple(each) for name, each in chosen.items()})


def _text(variant: Variant) -> dict[str, Any]:
    text: dict[str, Any] = {"name": variant.name, "by_window": variant.transform.by_window}
    return text if variant.recent is None else text | {"recent": variant.recent}


def _variant(arrays: Arrays, place: int, text: dict[str, Any], cells: int) -> Variant:
    covariance = _symmetric(arrays[f"{place}.covariance"], cells)
    transform = Transform(
        **{name: arrays[f"{place}.transform.{name}"] for name in _TRANSFORM},
        profile=arrays.get(f"{place}.transform.profile"),
        by_window=text["by_window"],
    )
    levels = Levels(**{name: arrays[f"{place}.levels.{name}"] for name in _LEVELS})
    level_variance = arrays[f"{place}.level_variance"]
    return Variant(text["name"], transform, levels, covariance, level_variance, text.get("recent")).inverted()


def _triangle(covariance: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the upper triangle [D * (D + 1) / 2], a quarter of the bytes; `Moments` rounds to what float32 holds."""
    return covariance[np.triu_indices(len(covariance))].astype(np.float32)


def _symmetric(triangle: NDArray[np.float32], cells: int) -> NDArray[np.float64]:
    expected = (cells * (cells + 1) // 2,)
    if triangle.shape != expected or not np.isfinite(triangle).all():
        raise ValueError(f"expected a finite triangle of shape {expected}, found shape {triangle.shape}")
    out = np.zeros((cells, cells))
    out[np.triu_indices(cells)] = triangle
    out.T[np.triu_indices(cells)] = triangle
    return out
