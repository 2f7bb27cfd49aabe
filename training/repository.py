"""A model's place in the repository that Triton serves: which version a new one becomes, and how it gets there.

model_repo/<name>/contract.json     what the newest version promises
config.pbtxt      one configuration for all versions, hence one shape of windows
1/ 2/ ...         the versions; Triton serves the two highest
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glaim_stream.contract import CONTRACT_FILE, read_contract
from training.config import ExportSpec
from training.errors import ExportError


def versions(directory: Path) -> list[int]:
    """The versions of a model that are there, ascending."""
    if not directory.is_dir():
        return []
    return sorted(int(entry.name) for entry in directory.iterdir() if entry.is_dir() and entry.name.isdigit())


def placed(spec: ExportSpec, window: int, sensors: Sequence[str], step_s: float) -> ExportSpec:
    """The spec with its version settled: 0 becomes the number after the highest that is there.

    Cheap, so that a training can ask before it begins.

    Raises:
        ExportError: the versions that are there take other windows, or a higher one is there, which Triton would go
            on serving beside a contract that speaks of the lower.
    """
    target = Path(spec.directory) / spec.name
    present = versions(target)
    version = spec.version or max(present, default=0) + 1
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
    return dataclasses.replace(spec, version=version)


def put(staging: Path, target: Path, version: int) -> None:
    """Move a finished model directory into the repository; other versions that are there are kept.

    Args:
        staging: The whole directory of the model with the one new version, on the same file system.
        target: model_repo/<name>.
        version: The new version.
    """
    present = versions(target)
    if present and version not in present:
        _join(staging, target, version)
        return
    for other in present:
        if other != version:
            shutil.copytree(target / str(other), staging / str(other))
    _swap(staging, target)


def _join(staging: Path, target: Path, version: int) -> None:
    """Put a new version beside those that are there, never leaving a reader with half of it.

    Each step is one rename. The contract comes last: until then it names the version before, whose weights stay where
    they are. Triton, which looks at folders, may answer with the new version a moment earlier; the tensors are the
    same, and each answer says which version made it. The configuration and the warm-up window are left as they are:
    `placed` saw to it that they fit, and an operator may have changed the instance count.
    """
    (staging / str(version)).rename(target / str(version))
    try:
        (staging / CONTRACT_FILE).rename(target / CONTRACT_FILE)
    except OSError:
        shutil.rmtree(target / str(version))
        raise


def _swap(staging: Path, target: Path) -> None:
    """Put the new directory in the place of the old one; the old one is gone only when the new one stands."""
    if not target.exists():
        staging.rename(target)
        return
    old = target.with_name(f".{target.name}-{os.getpid()}.old")
    target.rename(old)
    try:
        staging.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old)
