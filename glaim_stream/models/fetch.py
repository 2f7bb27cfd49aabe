"""Copies models from a repository to this machine and checks them; can also remove withdrawn versions.

A version with a manifest is read once: the bytes that were checked are written here, and nothing that the manifest
does not list. So a server that reads the target, which no other process writes, loads what was checked. The
closed form is in no manifest and carries a digest of its own: it comes with a new model unless a manifest is required,
and one that is already there stays.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from glaim_stream.core.contract import CONTRACT_FILE, FORM_FILE
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.models.folders import DiskFolder, folder_of
from glaim_stream.models.form_manifest import FORM_FILES
from glaim_stream.models.forms import copy_form
from glaim_stream.models.hold import HOLD_FILE
from glaim_stream.models.local import join, move, restore_contract, staging, version_numbers, withdrawn
from glaim_stream.models.sealed import Sealed, lacking, open_sealed, require_operators, warn_unsealed
from glaim_stream.models.store import Store, local_path, open_store

log = logging.getLogger(__name__)

_LOOK_FURTHER = 8  # versions that may wait for a signature at a time
SERVED = 2  # the versions that Triton serves (version_policy in config.pbtxt): the newest, and the one before


def fetch(
    source: Store,
    target: Path,
    *,
    models: Sequence[str] = (),
    keep: int = SERVED,
    missing_only: bool = False,
    mirror: bool = False,
    trust: Trust | None = None,
    say: Callable[[str], object] = print,
) -> int:
    """Copy models to a repository on this machine.

    Args:
        source: the repository to copy from.
        target: a repository on this machine; created if absent.
        models: names of the models to copy; all if empty.
        keep: number of newest versions of each model.
        missing_only: copy only models that the target does not have; the others stay unchanged.
        mirror: remove versions that the source no longer has, as after a rollback.
        trust: checks that a version must pass.
        say: receives one line per change.

    Returns:
        Number of changes.

    Raises:
        ModelError: the source has no such model, weights do not match their contract or a version its manifest, or the
            target has other weights under the same version. Versions copied before the error are complete.
    """
    versioned, forms = source.models(), source.forms()
    available = source.known()
    absent = sorted(set(models) - set(available))
    if absent or not available:
        raise ModelError(
            f"expected {', '.join(absent) or 'a model'} in {source.location}, "
            f"found {', '.join(available) or 'no model'}"
        )
    trust = trust or Trust()
    changes = 0
    with staging(target) as staged:
        for name in models or available:
            if name in forms and name in versioned and _has_only_a_form(target / name):  # both arrive anew
                move(target / name, staged / f"{name}-form")
            if name in versioned and not (target / name).exists():
                changes += _fetch_model(source, target, name, keep, staged, trust, say, exists_ok=missing_only)
            elif name in versioned and not missing_only:
                changes += _fetch_versions(source, target, name, keep, staged, mirror, trust, say)
            elif mirror and source.withdrawn(name):  # all of them
                (target / name / CONTRACT_FILE).unlink(missing_ok=True)
                changes += _remove_versions(source, target, name, version_numbers(target / name), staged, say)
            if (name in forms or mirror) and not (missing_only and (target / name / FORM_FILE).exists()):
                changes += _fetch_form(source, target, name, mirror, trust, say)
            for number in source.withdrawn(name):  # so that training here does not reuse its number
                (withdrawn(target / name) / str(number)).mkdir(parents=True, exist_ok=True)
            _follow_hold(source, target, name, mirror=mirror)
    return changes


def _follow_hold(source: Store, target: Path, name: str, *, mirror: bool) -> None:
    """Copy the hold of a rollback, so that a training here ends before it begins; with `mirror` also its release."""
    there = source.aside
    kept = withdrawn(target / name) / HOLD_FILE
    if there.has(f"{name}/{HOLD_FILE}"):
        kept.parent.mkdir(parents=True, exist_ok=True)
        _copy(there, f"{name}/{HOLD_FILE}", kept)
    elif mirror:
        kept.unlink(missing_ok=True)


def _fetch_model(
    source: Store, target: Path, name: str, keep: int, staged: Path, trust: Trust, say: Callable[[str], object], *,
    exists_ok: bool,
) -> int:  # fmt: skip
    """Copy a model that the target lacks and put it in place with one rename.

    With `exists_ok`, another process that fills the same volume may put the model there first.
    """
    wanted = _wanted_versions(source, name, keep, trust)
    folder = staged / name
    sealed = [open_sealed(folder_of(source, name), name, version, trust, source.location) for version in wanted]
    apart = (CONTRACT_FILE, *FORM_FILES)
    if not any(sealed):  # else the configuration is among the files of the manifests
        for path in source.files(name):
            if not path.split("/", 1)[0].isdigit() and "__pycache__" not in path and path not in apart:
                _copy(source, f"{name}/{path}", folder / path)
    for version, checked in zip(wanted, sealed, strict=True):
        _write_version(source, name, version, checked, folder)
    restore_contract(folder, wanted[-1])
    _verify_weights(staged, name, wanted, trust)
    if any(sealed) and not trust.require_manifest and trust.key is None and FORM_FILE in source.files(name):
        _copy(source, f"{name}/{FORM_FILE}", folder / FORM_FILE)
    try:
        move(folder, target / name)
    except ModelError:
        if exists_ok and (target / name).exists():
            return 0
        raise
    say(f"{name}: version{'s' if len(wanted) > 1 else ''} {', '.join(map(str, wanted))}")
    return 1


def _fetch_versions(
    source: Store, target: Path, name: str, keep: int, staged: Path, mirror: bool, trust: Trust,
    say: Callable[[str], object],
) -> int:  # fmt: skip
    """Copy the versions that the target's model lacks; with `mirror`, remove those that the source lacks."""
    wanted, present = _wanted_versions(source, name, keep, trust), version_numbers(target / name)
    changes = 0
    for version in wanted:
        if version in present:
            _require_same_weights(source, target, name, version)
            continue
        folder = staged / name
        checked = open_sealed(
            folder_of(source, name), name, version, trust, source.location, shared=DiskFolder(target / name)
        )
        _write_version(source, name, version, checked, folder)
        restore_contract(folder, version)
        _verify_weights(staged, name, [version], trust)
        join(folder, target / name, version)
        say(f"{name}: version {version}")
        changes += 1
    removed = [version for version in present if version not in wanted] if mirror else []
    remaining = sorted({*present, *wanted} - set(removed))
    if changes or removed:  # the contract first: it must never name an absent version
        restore_contract(target / name, remaining[-1])
    return changes + _remove_versions(source, target, name, removed, staged, say)


def _remove_versions(
    source: Store, target: Path, name: str, versions: Sequence[int], staged: Path, say: Callable[[str], object]
) -> int:
    for version in versions:
        move(target / name / str(version), staged / f"{name}-{version}")
        say(f"{name}: version {version} is no longer in {source.location}: removed here too")
    return len(versions)


def _has_only_a_form(folder: Path) -> bool:
    return folder.is_dir() and all(path.name in FORM_FILES for path in folder.iterdir())


def _fetch_form(
    source: Store, target: Path, name: str, mirror: bool, trust: Trust, say: Callable[[str], object]
) -> bool:
    """Copy a closed form; one that is refused is left out with a warning, because versions do not need it."""
    try:
        return copy_form(source, open_store(str(target)), name, trust, follow=mirror, say=say)
    except ModelError as error:
        log.warning("the closed form of %s in %s is left out: %s", name, source.location, error)
        return False


def _wanted_versions(source: Store, name: str, keep: int, trust: Trust) -> list[int]:
    """The newest versions; those that wait for their manifest or signature are left out with a warning."""
    available = source.versions(name)
    if not available:
        raise ModelError(f"{source.location}: expected a version of {name} with its contract, found none")
    folder = folder_of(source, name)
    missing = {version: lacking(folder, version, trust) for version in available[-keep - _LOOK_FURTHER :]}
    wanted = [version for version, lacks in missing.items() if not lacks][-keep:]
    if not wanted:
        raise ModelError(
            f"{source.location}: {name} version {available[-1]} is refused, and so are the others: "
            f"it has no {missing[available[-1]]}"
        )
    for version in [version for version, lacks in missing.items() if lacks and version > wanted[0]]:
        log.warning("%s version %d in %s is left out: it has no %s", name, version, source.location, missing[version])
    return wanted


def _write_version(source: Store, name: str, version: int, checked: Sealed | None, folder: Path) -> None:
    """Write a version's files: those that were checked, or without a manifest copies, whose weights are checked."""
    if checked is not None:
        for path, content in checked.contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        return
    warn_unsealed(name, version)
    for path in source.files(f"{name}/{version}"):
        if "__pycache__" not in path:
            _copy(source, f"{name}/{version}/{path}", folder / str(version) / path)
    _copy_contract(source, name, version, folder)


def _copy_contract(source: Store, name: str, version: int, folder: Path) -> None:
    path = source.contract_path(name, version)
    if path is None:
        raise ModelError(
            f"{source.location}: the contract of {name} version {version} has disappeared: it is being withdrawn"
        )
    _copy(source, f"{name}/{path.split('/', 1)[1]}", folder / str(version) / CONTRACT_FILE)


def _copy(source: Store, path: str, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    with source.fs.open_input_stream(f"{source.path}/{path}") as file, to.open("wb") as out:
        shutil.copyfileobj(file, out)


def _verify_weights(staged: Path, name: str, numbers: Sequence[int], trust: Trust) -> None:
    """Verify the weights of the copied versions, which detects an incomplete copy."""
    copies = open_store(str(staged))
    for number in numbers:
        copies.verify(name, number)
        require_operators(folder_of(copies, name), name, number, trust)


def _require_same_weights(source: Store, target: Path, name: str, version: int) -> None:
    expected = source.contract(name, version).torchscript_sha256
    found = open_store(str(target)).digest(name, version)
    if found != expected:
        raise ModelError(
            f"two models have the same number: {name} version {version} has weights of sha256 {found} in {target}, and "
            f"{expected} in {source.location}. Renumber one of them"
        )


def is_here(source: Store, target: Path) -> bool:
    """Whether the source and the target are the same folder."""
    path = local_path(source)
    return path is not None and path.resolve() == target.resolve()
