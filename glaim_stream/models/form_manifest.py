"""The manifest of a closed form: `<model>/gaussian.manifest.json`, with the digest of the file.

It is a file of its own, because a form is fitted anew between two versions and belongs to none. It lists the form and
the one before: it is written first, so whichever of them a reader finds is listed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.core.validation import problems_text
from glaim_stream.models.manifest import MAX_FILE_BYTES, MAX_MANIFEST_BYTES

FORM_MANIFEST: Final = "gaussian.manifest.json"
FORM_SIGNATURE: Final = f"{FORM_MANIFEST}.minisig"
FORM_FILES = (FORM_FILE, FORM_MANIFEST, FORM_SIGNATURE)
_MAX_SIGNATURE_BYTES = 10_000
_PARTIAL = f".{FORM_FILE}."  # prefix of a partial file; letters follow
_ABANDONED_S = 600.0  # age of a partial file that no process writes any more


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FormManifest(_Frozen):
    """The closed forms that a model may have: SHA-256 of the files, the newest first."""

    schema_version: Literal[1] = 1
    model: str
    forms: list[str] = Field(min_length=1, max_length=2)


def read_sealed_form(folder: Path, trust: Trust) -> bytes | None:
    """Read the closed form in a model's folder and check it; return the very bytes that were checked.

    Args:
        folder: the model's folder, named like the model.
        trust: checks that a closed form must pass.

    Returns:
        Content of the file; None if there is none.

    Raises:
        ModelError: the form does not match its manifest or `trust`.
    """
    content = _bytes(folder / FORM_FILE, MAX_FILE_BYTES)
    if content is None:
        return None
    manifest = _bytes(folder / FORM_MANIFEST, MAX_MANIFEST_BYTES)
    require_sealed(folder.name, content, manifest, _bytes(folder / FORM_SIGNATURE, _MAX_SIGNATURE_BYTES), trust)
    return content


def require_sealed(model: str, form: bytes, manifest: bytes | None, signature: bytes | None, trust: Trust) -> None:
    """Check a closed form against its manifest; without one, only that none is required.

    Raises:
        ModelError: the form does not match its manifest or `trust`.
    """
    if manifest is None:
        if trust.require_manifest or trust.key is not None:
            raise ModelError(f"the settings require a manifest, and there is no {FORM_MANIFEST}")
        return
    if trust.key is not None:
        if signature is None:
            raise ModelError(f"{FORM_MANIFEST} is not signed")
        trust.key.verify(manifest, signature, FORM_MANIFEST)
    try:
        found = FormManifest.model_validate_json(manifest)
    except ValidationError as error:
        raise ModelError(f"{FORM_MANIFEST} cannot be used: {problems_text(error)}") from error
    if found.model != model:
        raise ModelError(f"{FORM_MANIFEST} is that of {found.model!r}")
    digest = hashlib.sha256(form).hexdigest()
    if digest not in found.forms:
        raise ModelError(f"{FORM_FILE} has sha256 {digest}, {FORM_MANIFEST} expects {found.forms[0]}")


def place_form(folder: Path, form: bytes, *, manifest: bytes | None = None, signature: bytes | None = None) -> None:
    """Put a closed form into a model's folder, atomically, with its manifest.

    Args:
        folder: the model's folder, named like the model; created if it is absent.
        form: content of the file.
        manifest: manifest with which the form was copied; by default one is made.
        signature: signature of `manifest`. The signature of an older manifest is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder)
    old = _bytes(folder / FORM_FILE, MAX_FILE_BYTES)
    (folder / FORM_SIGNATURE).unlink(missing_ok=True)
    _write(folder / FORM_MANIFEST, manifest or manifest_of_form(folder.name, form, old))
    if signature is not None:
        _write(folder / FORM_SIGNATURE, signature)
    _write(folder / FORM_FILE, form)
    if manifest is None:
        _list_what_is_there(folder)


def _list_what_is_there(folder: Path) -> None:
    """Write the manifest again if another process replaced it in between, on a disk without locks."""
    placed, found = (_bytes(folder / name, MAX_FILE_BYTES) for name in (FORM_FILE, FORM_MANIFEST))
    if placed is not None and hashlib.sha256(placed).hexdigest().encode() not in (found or b""):
        _write(folder / FORM_MANIFEST, manifest_of_form(folder.name, placed))


def _remove_abandoned(folder: Path) -> None:
    """Remove the partial files of processes that were killed."""
    for partial in folder.glob(f"{_PARTIAL}*"):
        with suppress(FileNotFoundError):  # the process lives, and has renamed the file
            if time.time() - partial.stat().st_mtime > _ABANDONED_S:
                partial.unlink()


def manifest_of_form(model: str, form: bytes, old: bytes | None = None) -> bytes:
    """Make the content of a manifest."""
    digests = dict.fromkeys(hashlib.sha256(each).hexdigest() for each in (form, old) if each is not None)
    return (FormManifest(model=model, forms=list(digests)).model_dump_json(indent=2) + "\n").encode()


def seal_form(folder: Path) -> bool:
    """Write the manifest of the closed form in a model's folder; False if there is none."""
    content = _bytes(folder / FORM_FILE, MAX_FILE_BYTES)
    if content is None:
        return False
    (folder / FORM_SIGNATURE).unlink(missing_ok=True)
    _write(folder / FORM_MANIFEST, manifest_of_form(folder.name, content))
    return True


def _bytes(path: Path, limit: int) -> bytes | None:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise ModelError(f"{path} has more than {limit} bytes")
            return file.read(size)  # not the limit, which would be allocated first
    except FileNotFoundError:
        return None


def _write(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=_PARTIAL)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.chmod(0o644)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
