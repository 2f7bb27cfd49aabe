"""Withdraws the newest versions of a model, so that an older version and its contract are served again.

The model is then held (`hold`): no new version enters until `release`. Nothing is deleted: withdrawn versions are kept
beside the repository, and their numbers are never reused, so that the `model_version` of a row always means the same
weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from glaim_stream.core.contract import CONTRACT_FILE
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.models.folders import folder_of
from glaim_stream.models.hold import hold
from glaim_stream.models.local import move, restore_contract
from glaim_stream.models.local import withdrawn as withdrawn_folder
from glaim_stream.models.sealed import open_sealed
from glaim_stream.models.store import Store, copy, local_path


def rollback(
    store: Store,
    name: str,
    to: int | None = None,
    *,
    dry_run: bool = False,
    trust: Trust | None = None,
    say: Callable[[str], object] = print,
) -> list[int]:
    """Withdraw every version above `to`.

    Args:
        store: the repository.
        name: name of the model.
        to: the version that becomes the newest again; None: the one before the newest.
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
    if not available:
        raise ModelError(
            f"expected the model {name} in {store.location}, found {', '.join(store.models()) or 'no model'}"
        )
    if to is None:
        if len(available) < 2:
            raise ModelError(f"{store.location}: {name} has only version {available[0]}, so there is no earlier one")
        to = available[-2]
    if to not in available:
        raise ModelError(f"{store.location}: expected {name} version {to}, found {', '.join(map(str, available))}")
    withdrawn = [version for version in available if version > to]
    if not withdrawn:
        say(f"{name}: version {to} is already the newest")
        return []
    store.verify(name, to)  # before any change
    open_sealed(folder_of(store, name), name, to, trust or Trust(), store.location)
    directory = local_path(store)
    if not dry_run:
        hold(store, name, withdrawn, to, time.time_ns() // 1_000_000)  # first: a training may be about to end
        if directory is not None:
            _withdraw_on_disk(directory / name, to, withdrawn)
        else:
            _withdraw_in_store(store, name, to, withdrawn)
    for version in withdrawn:
        say(f"{name}: version {version} {'would be' if dry_run else 'is'} withdrawn, to {store.withdrawn_root}/{name}")
    say(f"{name}: version {to} {'would be' if dry_run else 'is'} the newest")
    if not dry_run:
        say(f"{name}: held at version {to}. `glaim-stream models release {store.location} {name}` lets new versions in")
    return withdrawn


def _withdraw_on_disk(directory: Path, to: int, versions: list[int]) -> None:
    restore_contract(directory, to)  # first: it must never name an absent version
    kept = withdrawn_folder(directory)
    kept.mkdir(parents=True, exist_ok=True)
    for version in reversed(versions):
        move(directory / str(version), kept / str(version))


def _withdraw_in_store(store: Store, name: str, to: int, versions: list[int]) -> None:
    """Copy the versions aside, restore the model's contract, then delete the versions, contract first.

    A version without its contract is ignored, so no reader meets an incomplete one.
    """
    for version in versions:
        for path in store.files(f"{name}/{version}"):
            place = f"{name}/{version}/{path}"
            copy(store, f"{store.path}/{place}", store, f"{store.withdrawn_root}/{place}")
    contract = store.contract_path(name, to)
    if contract is not None and contract != f"{name}/{CONTRACT_FILE}":
        copy(store, f"{store.path}/{contract}", store, f"{store.path}/{name}/{CONTRACT_FILE}")
    for version in reversed(versions):
        folder = f"{store.path}/{name}/{version}"
        if store.has(f"{name}/{version}/{CONTRACT_FILE}"):
            store.fs.delete_file(f"{folder}/{CONTRACT_FILE}")
        store.fs.delete_dir(folder)
