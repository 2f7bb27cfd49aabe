"""Withdraws the newest versions of a model, so that an older version and its contract are served again.

Nothing is deleted: withdrawn versions are kept beside the repository, and their numbers are never reused, so that the
`model_version` of a row always means the same weights.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from glaim_stream.errors import ModelError
from glaim_stream.models.contract import CONTRACT_FILE
from glaim_stream.models.local import move, restore_contract
from glaim_stream.models.local import withdrawn as withdrawn_folder
from glaim_stream.models.store import Store, copy, local_path


def rollback(
    store: Store, name: str, to: int | None = None, *, dry_run: bool = False, say: Callable[[str], object] = print
) -> list[int]:
    """Withdraw every version above `to`.

    Args:
        store: the repository.
        name: of the model.
        to: the version that becomes the newest again; None: the one before the newest.
        dry_run: change nothing.
        say: takes a line for each version.

    Returns:
        The versions that are withdrawn, ascending.

    Raises:
        ModelError: there is no such model or version, nothing lies before it, or its weights are not its contract's.
    """
    there = store.versions(name)
    if not there:
        raise ModelError(f"expected the model {name} in {store.said}, found {', '.join(store.models()) or 'no model'}")
    if to is None:
        if len(there) < 2:
            raise ModelError(f"{store.said}: {name} has version {there[0]} alone, so there is none to go back to")
        to = there[-2]
    if to not in there:
        raise ModelError(f"{store.said}: expected {name} version {to}, found {', '.join(map(str, there))}")
    going = [version for version in there if version > to]
    if not going:
        say(f"{name}: version {to} is the newest already")
        return []
    store.verify(name, to)  # before anything is taken away
    directory = local_path(store)
    if not dry_run:
        if directory is not None:
            _on_disk(directory / name, to, going)
        else:
            _in_store(store, name, to, going)
    for version in going:
        say(f"{name}: version {version} {'would be' if dry_run else 'is'} withdrawn, to {store.withdrawn_root}/{name}")
    say(f"{name}: version {to} {'would be' if dry_run else 'is'} the newest")
    return going


def _on_disk(directory: Path, to: int, going: list[int]) -> None:
    restore_contract(directory, to)  # first: it must never name a version that is not there
    kept = withdrawn_folder(directory)
    kept.mkdir(parents=True, exist_ok=True)
    for version in reversed(going):
        move(directory / str(version), kept / str(version))


def _in_store(store: Store, name: str, to: int, going: list[int]) -> None:
    """Copies first, then the model's contract, then the versions' own: without it a version does not count."""
    for version in going:
        for path in store.files(f"{name}/{version}"):
            place = f"{name}/{version}/{path}"
            copy(store, f"{store.path}/{place}", store, f"{store.withdrawn_root}/{place}")
    own = store.contract_path(name, to)
    if own is not None and own != f"{name}/{CONTRACT_FILE}":
        copy(store, f"{store.path}/{own}", store, f"{store.path}/{name}/{CONTRACT_FILE}")
    for version in reversed(going):
        folder = f"{store.path}/{name}/{version}"
        if store.has(f"{name}/{version}/{CONTRACT_FILE}"):
            store.fs.delete_file(f"{folder}/{CONTRACT_FILE}")
        store.fs.delete_dir(folder)
