"""Checks a version against its manifest and hands out the very bytes that were checked.

A check of files that are read again afterwards proves nothing: they may be exchanged in between. So every file is read
once, hashed, and what is loaded or copied are those bytes.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from glaim_stream.core.contract import CONTRACT_FILE, WEIGHTS, Contract, read_contract
from glaim_stream.core.errors import ContractError, ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.core.validation import problems_text
from glaim_stream.models.folders import DiskFolder, Folder, shared_files, versions_files
from glaim_stream.models.manifest import (
    MANIFEST_FILE,
    MAX_FILE_BYTES,
    MAX_MANIFEST_BYTES,
    SIGNATURE_FILE,
    Manifest,
    manifest_of,
    read_manifest,
)
from glaim_stream.models.torchscript import require_known_operators

log = logging.getLogger(__name__)

_MAX_SIGNATURE_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class Sealed:
    """A version that matches its manifest: its contract, and all its files by their paths below the model's folder."""

    contract: Contract
    contents: Mapping[str, bytes]


def open_sealed(
    folder: Folder, model: str, version: int, trust: Trust, location: str, *, shared: Folder | None = None
) -> Sealed | None:
    """Read a version and check every file of it.

    Args:
        folder: the model's folder.
        model: the model's name.
        version: number of the version.
        trust: checks that the version must pass.
        location: name of the repository in messages.
        shared: the model's folder with the files that all versions share, if it is another one: that of the repository
            that the version is about to join.

    Returns:
        The version; None if it has no manifest and needs none.

    Raises:
        ModelError: the version does not match its manifest or `trust`, in one sentence.
    """
    try:
        found = _manifest(folder, model, version, trust)
        if found is None:
            return None
        manifest, own = found
        contents = _contents(folder, shared or folder, manifest) | own
        return Sealed(_contract(contents, model, version, trust), contents)
    except ModelError as error:
        raise ModelError(f"{location}: {model} version {version} is refused: {error}") from error


def read_sealed_contract(directory: Path, version: str, trust: Trust) -> Contract:
    """Read a contract alone and check it against its version's manifest, where weights are not read: beside a Triton.

    Args:
        directory: the model's folder.
        version: the folder of the version; empty for the contract of the newest one.
        trust: checks that the version must pass.

    Raises:
        ContractError: the contract cannot be read, or does not match.
    """
    contract = read_contract(directory / version)
    folder, path = DiskFolder(directory), f"{contract.version}/{CONTRACT_FILE}"
    try:
        found = _manifest(folder, directory.name, contract.version, trust)
        if found is not None:
            content = (directory / version / CONTRACT_FILE).read_bytes()
            _require_same(found[0], path, content)
            contract = Contract.model_validate_json(content)
    except ModelError as error:
        raise ContractError(
            f"the contract of {directory.name} version {contract.version} is refused: {error}"
        ) from error
    return contract


def require_operators(folder: Folder, model: str, version: int, trust: Trust) -> None:
    """Check the operators of a version's weights, with or without a manifest.

    Raises:
        ModelError: the weights use an operator that is not allowed.
    """
    try:
        require_known_operators(_whole(folder, f"{version}/{WEIGHTS}", MAX_FILE_BYTES), trust.operators)
    except ModelError as error:
        raise ModelError(f"{model} version {version} is refused: {error}") from error


def lacking(folder: Folder, version: int, trust: Trust) -> str:
    """Name of the required file that a version lacks: `manifest`, `signature` or nothing."""
    demanded = {MANIFEST_FILE: trust.require_manifest or trust.key is not None, SIGNATURE_FILE: trust.key is not None}
    for name, needed in demanded.items():
        if needed and folder.read(f"{version}/{name}", MAX_MANIFEST_BYTES) is None:
            return "manifest" if name == MANIFEST_FILE else "signature"
    return ""


def warn_unsealed(model: str, version: int) -> None:
    """Report that a version without a manifest is used."""
    log.warning(
        "%s version %d has no manifest, so its files are not checked except for the weights' digest: "
        "`glaim-stream models seal` writes one", model, version,
    )  # fmt: skip


def seal(model_folder: Path, version: int, *, shared: Path | None = None) -> Manifest:
    """Write the manifest of a version, in place of an older one and its signature.

    Args:
        model_folder: the folder of the model, which has the model's name.
        version: number of the version.
        shared: the model's folder with the shared files, as in `open_sealed`.

    Raises:
        ModelError: a file is missing, is a link or has a name that a manifest must not have.
    """
    folder = DiskFolder(model_folder)
    common = DiskFolder(shared) if shared is not None else folder
    contents = {}
    for source, paths in ((folder, versions_files(folder, version)), (common, shared_files(common, version))):
        for path in paths:
            if path not in _own_files(version):
                contents[path] = _whole(source, path, MAX_FILE_BYTES)
    manifest = manifest_of(model_folder.name, version, contents)
    target = model_folder / str(version) / MANIFEST_FILE
    (target.parent / SIGNATURE_FILE).unlink(missing_ok=True)
    partial = target.with_suffix(".json.partial")
    partial.write_bytes(manifest.to_bytes())
    partial.replace(target)
    return manifest


def is_sealed(model_folder: Path, version: int) -> bool:
    """Whether a version on a disk has a manifest."""
    return (model_folder / str(version) / MANIFEST_FILE).is_file()


def _own_files(version: int) -> set[str]:
    return {f"{version}/{name}" for name in (MANIFEST_FILE, f"{MANIFEST_FILE}.partial", SIGNATURE_FILE)}


def _manifest(folder: Folder, model: str, version: int, trust: Trust) -> tuple[Manifest, dict[str, bytes]] | None:
    """The manifest, and the content of its file and its signature's."""
    content = folder.read(f"{version}/{MANIFEST_FILE}", MAX_MANIFEST_BYTES)
    if content is None:
        if trust.require_manifest or trust.key is not None:
            raise ModelError("it has no manifest")
        return None
    if len(content) > MAX_MANIFEST_BYTES:
        raise ModelError(f"its manifest has more than {MAX_MANIFEST_BYTES} bytes")
    own = {f"{version}/{MANIFEST_FILE}": content}
    signature = folder.read(f"{version}/{SIGNATURE_FILE}", _MAX_SIGNATURE_BYTES)
    if signature is not None:
        own[f"{version}/{SIGNATURE_FILE}"] = signature
    if trust.key is not None:
        if signature is None:
            raise ModelError("its manifest is not signed")
        trust.key.verify(content, signature, MANIFEST_FILE)
    return read_manifest(content, model, version), own


def _contents(folder: Folder, shared: Folder, manifest: Manifest) -> dict[str, bytes]:
    version = manifest.version
    found = {*versions_files(folder, version), *shared_files(shared, version)} - _own_files(version)
    listed = {file.path for file in manifest.files}
    if extra := sorted(found - listed):
        raise ModelError(f"its manifest does not list {extra[0]!r}")
    if missing := sorted(listed - found):
        raise ModelError(f"its manifest lists {missing[0]!r}, which is missing")
    contents = {}
    for file in manifest.files:
        source = folder if file.path.startswith(f"{version}/") else shared
        contents[file.path] = _whole(source, file.path, file.size_bytes)
        _require_same(manifest, file.path, contents[file.path])
    return contents


def _whole(folder: Folder, path: str, limit: int) -> bytes:
    content = folder.read(path, limit)
    if content is None:
        raise ModelError(f"{path!r} is missing")
    if len(content) > limit:
        raise ModelError(f"{path!r} has more than the {limit} bytes that are expected")
    return content


def _require_same(manifest: Manifest, path: str, content: bytes) -> None:
    expected = next((file.sha256 for file in manifest.files if file.path == path), "none")
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise ModelError(f"{path} has sha256 {found}, its manifest expects {expected}")


def _contract(contents: Mapping[str, bytes], model: str, version: int, trust: Trust) -> Contract:
    try:
        contract = Contract.model_validate_json(contents[f"{version}/{CONTRACT_FILE}"])
    except ValidationError as error:
        raise ModelError(f"its contract cannot be read: {problems_text(error)}") from error
    if (contract.name, contract.version) != (model, version):
        raise ModelError(f"its contract is that of {contract.name} version {contract.version}")
    weights = contents[f"{version}/{WEIGHTS}"]
    found = hashlib.sha256(weights).hexdigest()
    if found != contract.torchscript_sha256:
        raise ModelError(f"{WEIGHTS} has sha256 {found}, its contract expects {contract.torchscript_sha256}")
    require_known_operators(weights, trust.operators)
    return contract
