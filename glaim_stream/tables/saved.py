"""The file of a fitted imputer: an npz of arrays and one JSON text, without pickles."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from glaim_stream.core.errors import ModelError
from glaim_stream.form import ClosedForm, Limits, artefact
from glaim_stream.tables.fitted import SensorFits
from glaim_stream.tables.frame import TableError
from glaim_stream.tables.long_gaps import LongGaps

_ARRAYS = (
    "by_form", "spread", "form_width", "line_width", "form_error", "line_errors", "cells",
    "common_units", "nearest", "near_form", "near_line", "moving_width",
)  # fmt: skip
_LONG = tuple(each.name for each in fields(LongGaps))
_LOWEST, _HIGHEST, _FORM = "lowest", "highest", "form"
_KIND = "imputer of tables"


def write(path: Path, fitted: SensorFits, state: Mapping[str, Any]) -> None:
    """Write a file, atomically.

    Raises:
        TableError: the state holds anything but text, numbers and lists of them.
    """
    try:
        content = artefact.to_bytes(arrays_of(fitted, state))
    except TypeError as error:
        raise TableError(f"only names of text and whole numbers can be saved: {error}") from error
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        partial.chmod(0o644)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def arrays_of(fitted: SensorFits, state: Mapping[str, Any]) -> artefact.Arrays:
    """All that a fit holds, as arrays."""
    arrays: artefact.Arrays = {name: getattr(fitted, name) for name in _ARRAYS}
    arrays |= {_LOWEST: fitted.limits.lowest, _HIGHEST: fitted.limits.highest}
    arrays |= {f"long_{name}": getattr(fitted.long_gaps, name) for name in _LONG}
    forms = [each for each in fitted.forms if isinstance(each, ClosedForm)]
    arrays |= {f"{_FORM}{place}": np.frombuffer(form.to_bytes(), np.uint8) for place, form in enumerate(forms)}
    fit = [list(fitted.sensors), fitted.step_ms, fitted.refused]
    text = {"kind": _KIND, "fit": fit, "forms": len(forms), "state": dict(state)}
    text["by_line"] = sorted(fitted.by_line)
    return artefact.with_text(arrays, text)


def read(path: Path) -> tuple[SensorFits, dict[str, Any]]:
    """Read a file that `write` wrote.

    Raises:
        ModelError: the file is absent, damaged or of another kind.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"expected a saved imputer at {path}: {error.strerror}") from error
    arrays = artefact.from_bytes(content, str(path))
    text = artefact.text_of(arrays)
    if text.get("kind") != _KIND:
        raise ModelError(f"{path} is not a saved imputer")
    if not {*_ARRAYS, *(f"long_{name}" for name in _LONG)} <= arrays.keys() or "by_line" not in text:
        raise ModelError(f"{path} was saved by an earlier version: fit the imputer and save it again")
    sensors, step_ms, refused = text["fit"]
    long = LongGaps(**{name: arrays[f"long_{name}"] for name in _LONG})
    names = [f"{_FORM}{place}" for place in range(text["forms"])]
    fitted = SensorFits(
        sensors=tuple(sensors),
        step_ms=step_ms,
        forms=tuple(ClosedForm.from_bytes(arrays[name].tobytes(), str(path)) for name in names),
        report=None,
        refused=refused,
        limits=Limits(arrays[_LOWEST], arrays[_HIGHEST]),
        trained=np.zeros(len(sensors), np.bool_),
        long_gaps=long,
        by_line=frozenset((group, sensor) for group, sensor in text["by_line"]),
        **{name: arrays[name] for name in _ARRAYS},
    )
    return fitted, text["state"]
