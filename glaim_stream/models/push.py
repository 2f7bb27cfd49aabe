"""Copies new versions and closed forms to another repository. A version's contract comes last and makes it visible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from glaim_stream.core.contract import CONTRACT_FILE, WEIGHTS, Contract
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.models.folders import folder_of
from glaim_stream.models.form_manifest import FORM_FILES
from glaim_stream.models.forms import copy_form
from glaim_stream.models.hold import held, require_released
from glaim_stream.models.local import version_numbers
from glaim_stream.models.sealed import open_sealed, require_operators, warn_unsealed
from glaim_stream.models.store import Store, copy, open_store


def push(
    source: Path,
    target: Store,
    *,
    models: Sequence[str] = (),
    trust: Trust | None = None,
    say: Callable[[str], object] = print,
) -> int:
    """Copy the versions that the target neither has nor has withdrawn, and newer closed forms; return their number.

    Args:
        source: a repository on this machine.
        target: the repository to copy to; created if absent.
        models: names of the models to push; all if empty.
        trust: checks that a version must pass.
        say: receives one line per version.

    Raises:
        ModelError: there is no such model, its weights do not match its contract or its files its manifest, or the
            target has other weights under its number, or the model is held after a rollback.
    """
    trust = trust or Trust()
    local = open_store(str(source))
    forms = local.forms()
    available = sorted({*local.models(), *forms})
    absent = sorted(set(models) - set(available))
    if absent or not available:
        raise ModelError(
            f"expected {', '.join(absent) or 'a model'} in {source}, found {', '.join(available) or 'none'}"
        )
    pushed = 0
    for name in models or available:
        withdrawn = target.withdrawn(name)
        for version in version_numbers(source / name):
            contract = local.verify(name, version)
            if target.contract_path(name, version) is not None:
                found = target.contract(name, version).torchscript_sha256
                if found != contract.torchscript_sha256:
                    raise ModelError(
                        f"{target.location} has {name} version {version} with weights of sha256 {found}, found "
                        f"{contract.torchscript_sha256} here: two models have the same number"
                    )
            elif version in withdrawn:
                _require_same_as_withdrawn(target, name, version, contract)
                say(f"{name}: version {version} was withdrawn from {target.location} and is not pushed again")
            else:
                require_released(target, name)
                _upload(local, target, name, version, trust)
                say(f"{name}: version {version}")
                pushed += 1
        if name in forms and held(target, name) is not None:
            say(f"{name}: the closed form is not pushed: {held(target, name)}")
        elif name in forms:
            pushed += copy_form(local, target, name, trust, say=say)
    return pushed


def _require_same_as_withdrawn(target: Store, name: str, version: int, contract: Contract) -> None:
    """Raise ModelError if a withdrawn number now has other weights; skipping them silently would lose the new model."""
    found = target.aside.contract(name, version).torchscript_sha256
    if found != contract.torchscript_sha256:
        raise ModelError(
            f"{target.location} has withdrawn {name} version {version} with weights of sha256 {found}, found "
            f"{contract.torchscript_sha256} here: two models have the same number. Fetch first, then export again "
            "with export.version = 0"
        )


def _upload(source: Store, target: Store, name: str, version: int, trust: Trust) -> None:
    is_new = not target.has(f"{name}/config.pbtxt")
    # A version joins the configuration that is already there, so that has to be the one of its manifest.
    shared = None if is_new else folder_of(target, name)
    checked = open_sealed(folder_of(source, name), name, version, trust, source.location, shared=shared)
    if checked is None:
        warn_unsealed(name, version)
        require_operators(folder_of(source, name), name, version, trust)
    if is_new:
        for path in source.files(name):
            top = path.split("/", 1)[0]
            if not top.isdigit() and path != CONTRACT_FILE and path not in FORM_FILES:
                _copy(source, target, f"{name}/{path}")
    folder = f"{name}/{version}"
    for path in source.files(folder):
        if path != CONTRACT_FILE and "__pycache__" not in path:
            _copy(source, target, f"{folder}/{path}")
    if target.digest(name, version) != source.digest(name, version):
        raise ModelError(f"{target.location}: {folder}/{WEIGHTS} was corrupted in transfer; try again")
    contract = source.contract_path(name, version)
    assert contract is not None  # it was verified
    _copy(source, target, contract, to=f"{folder}/{CONTRACT_FILE}")
    if version == max(target.versions(name)):
        _copy(source, target, contract, to=f"{name}/{CONTRACT_FILE}")


def _copy(source: Store, target: Store, path: str, *, to: str = "") -> None:
    copy(source, f"{source.path}/{path}", target, f"{target.path}/{to or path}")
