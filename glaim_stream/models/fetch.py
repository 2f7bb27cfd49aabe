"""Copies models from a repository to this machine and checks their digests; can also remove withdrawn versions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from glaim_stream.errors import ModelError
from glaim_stream.models.contract import CONTRACT_FILE
from glaim_stream.models.local import join, move, restore_contract, staging, versions, withdrawn
from glaim_stream.models.store import Store, local_path, open_store

SERVED = 2  # the versions that Triton serves (version_policy in config.pbtxt): the newest, and the one before


def fetch(
    source: Store,
    target: Path,
    *,
    models: Sequence[str] = (),
    keep: int = SERVED,
    missing_only: bool = False,
    mirror: bool = False,
    say: Callable[[str], object] = print,
) -> int:
    """Copy models to a repository on this machine.

    Args:
        source: the repository to copy from.
        target: a repository on this machine; made when absent.
        models: only these; all when empty.
        keep: number of newest versions of each model.
        missing_only: only models that the target does not have; the others stay unchanged.
        mirror: remove versions that the source no longer has, as after a rollback.
        say: takes a line for each change.

    Returns:
        How many changes were made.

    Raises:
        ModelError: the source has no such model, weights are not what their contract names, or a version is here with
            other weights. What was put in place until then is whole.
    """
    there = source.models()
    absent = sorted(set(models) - set(there))
    if absent or not there:
        raise ModelError(
            f"expected {', '.join(absent) or 'a model'} in {source.said}, found {', '.join(there) or 'no model'}"
        )
    changes = 0
    with staging(target) as made:
        for name in models or there:
            if not (target / name).exists():
                changes += _whole(source, target, name, keep, made, say, or_there=missing_only)
            elif not missing_only:
                changes += _newer(source, target, name, keep, made, mirror, say)
            for number in source.withdrawn(name):  # a version trained here must not take a number that was given before
                (withdrawn(target / name) / str(number)).mkdir(parents=True, exist_ok=True)
    return changes


def _whole(
    source: Store, target: Path, name: str, keep: int, made: Path, say: Callable[[str], object], *, or_there: bool
) -> int:
    """A model of which nothing is here: everything, and one rename. `or_there`: several may fill a volume at once."""
    wanted = _wanted(source, name, keep)
    folder = made / name
    for path in source.files(name):
        top = path.split("/", 1)[0]
        if (not top.isdigit() or int(top) in wanted) and "__pycache__" not in path and path != CONTRACT_FILE:
            _copy(source, f"{name}/{path}", folder / path)
    for version in wanted:
        _contracted(source, name, version, folder)
    restore_contract(folder, wanted[-1])
    _verified(made, name, wanted)
    try:
        move(folder, target / name)
    except ModelError:
        if or_there and (target / name).exists():
            return 0
        raise
    say(f"{name}: version{'s' if len(wanted) > 1 else ''} {', '.join(map(str, wanted))}")
    return 1


def _newer(
    source: Store, target: Path, name: str, keep: int, made: Path, mirror: bool, say: Callable[[str], object]
) -> int:
    wanted, here = _wanted(source, name, keep), versions(target / name)
    changes = 0
    for version in wanted:
        if version in here:
            _same(source, target, name, version)
            continue
        folder = made / name
        for path in source.files(f"{name}/{version}"):
            if "__pycache__" not in path:
                _copy(source, f"{name}/{version}/{path}", folder / str(version) / path)
        _contracted(source, name, version, folder)
        restore_contract(folder, version)
        _verified(made, name, [version])
        join(folder, target / name, version)
        say(f"{name}: version {version}")
        changes += 1
    gone = [version for version in here if version not in wanted] if mirror else []
    left = sorted({*here, *wanted} - set(gone))
    if changes or gone:  # the contract first: it must never name a version that is not there
        restore_contract(target / name, left[-1])
    for version in gone:
        move(target / name / str(version), made / f"{name}-{version}")
        say(f"{name}: version {version} is gone from {source.said}, and from here")
    return changes + len(gone)


def _wanted(source: Store, name: str, keep: int) -> list[int]:
    wanted = source.versions(name)[-keep:]
    if not wanted:
        raise ModelError(f"{source.said}: expected a version of {name} with its contract, found none")
    return wanted


def _contracted(source: Store, name: str, version: int, folder: Path) -> None:
    path = source.contract_path(name, version)
    if path is None:
        raise ModelError(f"{source.said}: the contract of {name} version {version} is gone: it is being withdrawn")
    _copy(source, f"{name}/{path.split('/', 1)[1]}", folder / str(version) / CONTRACT_FILE)


def _copy(source: Store, path: str, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    with source.fs.open_input_stream(f"{source.path}/{path}") as file, to.open("wb") as out:
        shutil.copyfileobj(file, out)


def _verified(made: Path, name: str, numbers: Sequence[int]) -> None:
    """Verify the weights of the copied versions, which detects an incomplete copy."""
    arrived = open_store(str(made))
    for number in numbers:
        arrived.verify(name, number)


def _same(source: Store, target: Path, name: str, version: int) -> None:
    there = source.contract(name, version).torchscript_sha256
    here = open_store(str(target)).digest(name, version)
    if here != there:
        raise ModelError(
            f"one number stands for two models: {name} version {version} has weights of sha256 {here} in {target}, and "
            f"{there} in {source.said}. Give one of them another number"
        )


def is_here(source: Store, target: Path) -> bool:
    """Whether a source is the target itself."""
    path = local_path(source)
    return path is not None and path.resolve() == target.resolve()
