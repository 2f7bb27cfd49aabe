"""Deletes old weights; the contracts stay, and version numbers are never reused.

Without pruning, a repository with a new version every week grows without end. Pruning deletes the weights of versions
older than the newest `keep`, including rolled-back versions of that age. The version at which a rollback holds a model
stays, and the one before it. Each contract is kept with the withdrawn versions, so that the `model_version` of an old
row still leads to the sensors, data and intervals of its model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glaim_stream.core.contract import CONTRACT_FILE
from glaim_stream.core.errors import ModelError
from glaim_stream.models.fetch import SERVED
from glaim_stream.models.hold import held
from glaim_stream.models.local import move
from glaim_stream.models.local import withdrawn as withdrawn_folder
from glaim_stream.models.store import Store, copy, local_path


def prune(
    store: Store,
    *,
    keep: int,
    models: Sequence[str] = (),
    dry_run: bool = False,
    say: Callable[[str], object] = print,
) -> list[tuple[str, int]]:
    """Delete old weights.

    Args:
        store: the repository.
        keep: number of newest versions of each model that stay; at least the number that Triton serves.
        models: names of the models to prune; all if empty.
        dry_run: change nothing.
        say: receives one line per version.

    Returns:
        The models and versions whose weights are deleted.

    Raises:
        ModelError: there is no such model, its hold cannot be read, or `keep` is too small.
    """
    if keep < SERVED:
        raise ModelError(f"expected {SERVED} versions or more to keep, because Triton serves that many, found {keep}")
    available = store.models()
    absent = sorted(set(models) - set(available))
    if absent or not available:
        raise ModelError(
            f"expected {', '.join(absent) or 'a model'} in {store.location}, found {', '.join(available) or 'none'}"
        )
    pruned = []
    for name in models or available:
        for version in _old(store, name, _oldest_kept(store, name, keep)):
            if not dry_run:
                _withdraw(store, name, version)
                for path in _beside_contract(store.aside, name, version):
                    store.fs.delete_file(f"{store.withdrawn_root}/{name}/{version}/{path}")
            say(f"{name}: the weights of version {version} {'would be' if dry_run else 'are'} deleted")
            pruned.append((name, version))
    return pruned


def _oldest_kept(store: Store, name: str, keep: int) -> int:
    """The oldest version that stays: of the newest `keep`, and of the two that a hold needs.

    A rollback holds a model at a version, and the next rollback would go to the one before.
    """
    available = store.versions(name)
    kept = available[-keep:]
    hold = held(store, name)
    newest = None if hold is None else hold.newest
    if newest is not None:
        kept += [version for version in available if version <= newest][-SERVED:]
    return min(kept, default=0)


def _old(store: Store, name: str, oldest: int) -> list[int]:
    """Versions below `oldest` that have more than their contract left, including after an interrupted pruning."""
    here = [version for version in store.folders(name) if _has_contract(store, name, version)]
    aside = [version for version in store.withdrawn(name) if _beside_contract(store.aside, name, version)]
    return sorted(version for version in {*here, *aside} if version < oldest)


def _has_contract(store: Store, name: str, version: int) -> bool:
    return any(each.has(_contract(name, version)) for each in (store, store.aside))


def _withdraw(store: Store, name: str, version: int) -> None:
    """Remove a version from the repository: on a disk with one rename, elsewhere after copying its contract aside."""
    if version not in store.folders(name):
        return
    directory = local_path(store)
    if directory is not None:
        kept = withdrawn_folder(directory / name)
        kept.mkdir(parents=True, exist_ok=True)
        move(directory / name / str(version), kept / str(version))
        return
    contract = _contract(name, version)
    if store.has(contract):
        copy(store, f"{store.path}/{contract}", store, f"{store.withdrawn_root}/{contract}")
        store.fs.delete_file(f"{store.path}/{contract}")  # first: without it the version does not count
    store.fs.delete_dir(f"{store.path}/{name}/{version}")


def _contract(name: str, version: int) -> str:
    return f"{name}/{version}/{CONTRACT_FILE}"


def _beside_contract(aside: Store, name: str, version: int) -> list[str]:
    return [path for path in aside.files(f"{name}/{version}") if path != CONTRACT_FILE]
