"""Withdraws the newest versions of a model, so that an older version and its contract are served again, or none.

Without a version the closed form fills, or last value and interpolation. A version that was withdrawn can be put back.
The model is then held (`hold`): no new version enters until `release`. Nothing is deleted: withdrawn versions are kept
beside the repository, and their numbers are never reused, so that the `model_version` of a row always means the same
weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from glaim_stream.core.contract import CONTRACT_FILE, WEIGHTS
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.models.folders import folder_of
from glaim_stream.models.hold import hold
from glaim_stream.models.local import keep_contract, move, restore_contract
from glaim_stream.models.local import withdrawn as withdrawn_folder
from glaim_stream.models.sealed import open_sealed
from glaim_stream.models.store import Store, copy, local_path

NONE = 0  # no version has this number


def rollback(
    store: Store,
    name: str,
    to: int | None = None,
    *,
    dry_run: bool = False,
    trust: Trust | None = None,
    say: Callable[[str], object] = print,
) -> list[int]:
    """Withdraw every version above `to`, and put `to` back if it was withdrawn itself.

    Args:
        store: the repository.
        name: name of the model.
        to: the version that becomes the newest again; 0: none; None: the one before the newest.
        dry_run: change nothing.
        trust: checks that the restored version must pass.
        say: receives one line per version.

    Returns:
        The withdrawn versions, ascending.

    Raises:
        ModelError: there is no such model or version, no earlier version, or its files do not match its contract and
            manifest.
    """
    available = store.versions(name)
    aside = [version for version in store.withdrawn(name) if store.aside.has(f"{name}/{version}/{WEIGHTS}")]
    if not available and not aside:
        raise ModelError(
            f"expected the model {name} in {store.location}, found {', '.join(store.models()) or 'no model'}"
        )
    if to is None:
        if len(available) < 2:
            only = f"has only version {available[0]}" if available else f"has no version; withdrawn are {_list(aside)}"
            raise ModelError(
                f"{store.location}: {name} {only}, so there is no earlier one. --to 0 leaves it without a version, so "
                f"that {_filler(store, name)}; --to N puts a withdrawn one back"
            )
        to = available[-2]
    back = to not in available and to in aside
    if to not in (NONE, *available) and not back:
        raise ModelError(f"{store.location}: expected {name} version {to}, found {_list(available) or 'none'}")
    # Without a contract a version is incomplete, as after an interruption; nothing may stay beside no version.
    withdrawn = [version for version in (available if to else store.folders(name)) if version > to]
    if not withdrawn and not back:
        say(f"{name}: {f'version {to} is already the newest' if to else 'it has no version already'}")
        return []
    if to:  # verified before any change
        place = store.aside if back else store
        place.verify(name, to)
        shared = folder_of(store, name)
        open_sealed(folder_of(place, name), name, to, trust or Trust(), store.location, shared=shared)
    directory = local_path(store)
    if not dry_run:
        hold(store, name, withdrawn, to, time.time_ns() // 1_000_000)  # first: a training may be about to end
        if directory is not None:
            if back:
                move(withdrawn_folder(directory / name) / str(to), directory / name / str(to))
            _withdraw_on_disk(directory / name, to, withdrawn)
        else:
            if back:
                _copy_version(store.aside, store, name, to)
            _withdraw_in_store(store, name, to, withdrawn)
            if back:
                store.fs.delete_dir(f"{store.withdrawn_root}/{name}/{to}")
    would = "would be" if dry_run else "is"
    for version in withdrawn:
        say(f"{name}: version {version} {would} withdrawn, to {store.withdrawn_root}/{name}")
    newest = f"version {to} {would} {'put back as ' if back else ''}the newest"
    say(f"{name}: {newest if to else f'no version {would} left: {_filler(store, name)}'}")
    if not dry_run:
        at = f" at version {to}" if to else ""
        say(f"{name}: held{at}. `glaim-stream models release {store.location} {name}` lets new versions in")
    return withdrawn


def _filler(store: Store, name: str) -> str:
    return "its closed form fills" if name in store.forms() else "last value and interpolation fill: it has no form"


def _list(versions: list[int]) -> str:
    return ", ".join(map(str, versions))


def _withdraw_on_disk(directory: Path, to: int, versions: list[int]) -> None:
    if to:
        restore_contract(directory, to)  # first: it must never name an absent version
    else:
        keep_contract(directory)
        (directory / CONTRACT_FILE).unlink(missing_ok=True)
    kept = withdrawn_folder(directory)
    kept.mkdir(parents=True, exist_ok=True)
    for version in reversed(versions):
        move(directory / str(version), kept / str(version))


def _withdraw_in_store(store: Store, name: str, to: int, versions: list[int]) -> None:
    """Copy the versions aside, restore the model's contract, then delete the versions, contract first.

    A version without its contract is ignored, so no reader meets an incomplete one.
    """
    for version in versions:
        _copy_version(store, store.aside, name, version)
    contract = store.contract_path(name, to)
    if not to and store.has(f"{name}/{CONTRACT_FILE}"):
        store.fs.delete_file(f"{store.path}/{name}/{CONTRACT_FILE}")
    elif contract is not None and contract != f"{name}/{CONTRACT_FILE}":
        copy(store, f"{store.path}/{contract}", store, f"{store.path}/{name}/{CONTRACT_FILE}")
    for version in reversed(versions):
        folder = f"{store.path}/{name}/{version}"
        if store.has(f"{name}/{version}/{CONTRACT_FILE}"):
            store.fs.delete_file(f"{folder}/{CONTRACT_FILE}")
        store.fs.delete_dir(folder)


def _copy_version(source: Store, target: Store, name: str, version: int) -> None:
    """Copy a version within a store, its contract last."""
    own = f"{name}/{version}/{CONTRACT_FILE}"
    for path in source.files(f"{name}/{version}"):
        place = f"{name}/{version}/{path}"
        if place != own:
            copy(source, f"{source.path}/{place}", target, f"{target.path}/{place}")
    contract = source.contract_path(name, version)
    if contract is not None:
        copy(source, f"{source.path}/{contract}", target, f"{target.path}/{own}")
