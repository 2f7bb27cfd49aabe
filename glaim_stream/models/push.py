"""Copies new versions to another repository. The contract comes last, because it makes a version visible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from glaim_stream.errors import ModelError
from glaim_stream.models.contract import CONTRACT_FILE, Contract
from glaim_stream.models.local import versions
from glaim_stream.models.store import WEIGHTS, Store, copy, open_store


def push(source: Path, target: Store, *, models: Sequence[str] = (), say: Callable[[str], object] = print) -> int:
    """Copy the versions that the target neither has nor has withdrawn.

    Args:
        source: a repository on this machine.
        target: the repository to copy to; created if absent.
        models: only these; all when empty.
        say: takes a line for each version.

    Returns:
        How many versions were put up.

    Raises:
        ModelError: there is no such model, its weights are not those of its contract, or the target has other weights
            under its number.
    """
    here = open_store(str(source))
    there = here.models()
    absent = sorted(set(models) - set(there))
    if absent or not there:
        raise ModelError(f"expected {', '.join(absent) or 'a model'} in {source}, found {', '.join(there) or 'none'}")
    pushed = 0
    for name in models or there:
        gone = target.withdrawn(name)
        for version in versions(source / name):
            contract = here.verify(name, version)
            if target.contract_path(name, version) is not None:
                found = target.contract(name, version).torchscript_sha256
                if found != contract.torchscript_sha256:
                    raise ModelError(
                        f"{target.said} has {name} version {version} with weights of sha256 {found}, found "
                        f"{contract.torchscript_sha256} here: one number stands for two models"
                    )
            elif version in gone:
                _same_as_withdrawn(target, name, version, contract)
                say(f"{name}: version {version} was withdrawn from {target.said} and is not put up again")
            else:
                _put_up(here, target, name, version)
                say(f"{name}: version {version}")
                pushed += 1
    return pushed


def _same_as_withdrawn(target: Store, name: str, version: int, contract: Contract) -> None:
    """Another model under a number that was withdrawn: leaving it out in silence, as the old one, would lose it."""
    found = target.aside.contract(name, version).torchscript_sha256
    if found != contract.torchscript_sha256:
        raise ModelError(
            f"{target.said} has withdrawn {name} version {version} with weights of sha256 {found}, found "
            f"{contract.torchscript_sha256} here: one number stands for two models. Fetch first, then export anew with "
            "export.version = 0"
        )


def _put_up(source: Store, target: Store, name: str, version: int) -> None:
    if not target.has(f"{name}/config.pbtxt"):
        for path in source.files(name):
            top = path.split("/", 1)[0]
            if not top.isdigit() and path != CONTRACT_FILE:
                _copy(source, target, f"{name}/{path}")
    folder = f"{name}/{version}"
    for path in source.files(folder):
        if path != CONTRACT_FILE and "__pycache__" not in path:
            _copy(source, target, f"{folder}/{path}")
    if target.digest(name, version) != source.digest(name, version):
        raise ModelError(f"{target.said}: {folder}/{WEIGHTS} did not arrive as it was sent; try again")
    own = source.contract_path(name, version)
    assert own is not None  # it was verified
    _copy(source, target, own, to=f"{folder}/{CONTRACT_FILE}")
    if version == max(target.versions(name)):
        _copy(source, target, own, to=f"{name}/{CONTRACT_FILE}")


def _copy(source: Store, target: Store, path: str, *, to: str = "") -> None:
    copy(source, f"{source.path}/{path}", target, f"{target.path}/{to or path}")
