"""A model's place in the repository that Triton serves: the number of a new version, and the move into place.

model_repo/<name>/contract.json     the contract of the newest version
config.pbtxt      one configuration for all versions, hence one shape of windows
1/ 2/ ...         the versions, each with its own contract and manifest; Triton serves the two highest
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glaim_stream.core.contract import CONTRACT_FILE, read_contract
from glaim_stream.core.trust import Trust
from glaim_stream.models import (
    FORM_FILES,
    DiskFolder,
    highest_ever,
    is_sealed,
    join,
    move,
    open_sealed,
    require_folder_released,
    seal,
    version_numbers,
)
from training.config import ExportSpec
from training.errors import ExportError


def placed(spec: ExportSpec, window: int, sensors: Sequence[str], step_s: float) -> ExportSpec:
    """Return the spec with its final version: 0 becomes the number after the highest present or withdrawn one.

    The call is cheap, so that a training can make it before it begins.

    Raises:
        ExportError: present versions take other windows, or a higher one is present, which Triton would keep serving
            beside the contract of the lower one.
        ModelError: the newest version does not match its manifest (the new manifest would confirm a configuration that
            somebody has changed), or the model is held after a rollback.
    """
    target = Path(spec.directory) / spec.name
    require_folder_released(target)
    present = version_numbers(target)
    version = spec.version or highest_ever(target) + 1
    if version < 0:
        raise ExportError(f"expected export.version 1 or higher, or 0 for the next one, found {spec.version}")
    if present and present[-1] > version:
        raise ExportError(
            f"{target} holds version {present[-1]} and Triton serves the highest, so version {version} would not be "
            f"served: give export.version = {present[-1] + 1}, or 0 for the next one"
        )
    if (target / CONTRACT_FILE).is_file():
        before = read_contract(target)
        wanted: dict[str, Any] = {
            "sensors": list(sensors), "window": window, "step_s": step_s, "emitted_steps": spec.emitted_steps,
        }  # fmt: skip
        there: dict[str, Any] = {
            "sensors": before.sensor_ids, "window": before.window, "step_s": before.step_s,
            "emitted_steps": before.emitted_steps,
        }  # fmt: skip
        differing = [f"{name} {there[name]}, found {wanted[name]}" for name in wanted if wanted[name] != there[name]]
        if differing:
            raise ExportError(
                f"{target} holds version {before.version} with {'; '.join(differing)}: all versions of a model share "
                f"one Triton configuration and one catalogue entry. Give another export.name, or remove {target} first"
            )
    if present and version not in present:
        _require_unchanged(target, present[-1])
    return dataclasses.replace(spec, version=version)


def _require_unchanged(target: Path, version: int) -> None:
    if is_sealed(target, version):
        open_sealed(DiskFolder(target), target.name, version, Trust(), str(target.parent))


def write_manifest(made: Path, target: Path, version: int) -> None:
    """Write the manifest of a finished version; a version that joins others shares their configuration."""
    present = version_numbers(target)
    seal(made, version, shared=target if present and version not in present else None)


def put(made: Path, target: Path, version: int) -> None:
    """Move a finished model directory into the repository; other versions and the closed form are kept.

    Args:
        made: The whole directory of the model with the one new version, below `staging(target.parent)`.
        target: model_repo/<name>.
        version: The new version.
    """
    require_folder_released(target)  # the rollback may have come during the training
    present = version_numbers(target)
    if present and version not in present:
        join(made, target, version)
        return
    for other in present:
        if other != version:
            sealed = is_sealed(target, other)
            _require_unchanged(target, other)
            shutil.copytree(target / str(other), made / str(other))
            if sealed:  # the configuration may have changed
                seal(made, other)
    for name in FORM_FILES:
        if (target / name).is_file():
            shutil.copy2(target / name, made / name)
    _swap(made, target)


def _swap(made: Path, target: Path) -> None:
    """Replace the old directory by the new one; the old one is removed last."""
    if not target.exists():
        move(made, target)
        return
    old = made.with_name(made.name + ".old")
    move(target, old)
    try:
        made.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old)
