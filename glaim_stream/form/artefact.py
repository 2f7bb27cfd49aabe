"""The file of a closed form: `gaussian.npz`, arrays and one JSON text, without pickles.

The array `digest` has the SHA-256 of all others, so the file is whole or refused. It is written beside its place and
renamed, so that a reader finds the old file or the new one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import ModelError

FILE = "gaussian.npz"
_SCHEMA = 1
_DIGEST, _TEXT = "digest", "text"
_MAX_BYTES = 2 * 1024**3

Arrays = dict[str, NDArray[Any]]


def digest_of(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of arrays by name, type, shape and bytes, in hexadecimal digits."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def with_text(arrays: Arrays, text: Mapping[str, object]) -> Arrays:
    """Return the arrays and, as JSON, the fields that are not arrays."""
    content = json.dumps({"schema": _SCHEMA, **text}, sort_keys=True, allow_nan=False)
    return arrays | {_TEXT: np.frombuffer(content.encode(), np.uint8)}


def text_of(arrays: Arrays) -> dict[str, Any]:
    """Return what `with_text` added.

    Raises:
        ModelError: the JSON has another schema.
    """
    text: dict[str, Any] = json.loads(arrays[_TEXT].tobytes())
    if text.get("schema") != _SCHEMA:
        raise ModelError(f"expected a closed form of schema {_SCHEMA}, found {text.get('schema')!r}")
    return text


def to_bytes(arrays: Arrays) -> bytes:
    """Return the content of `gaussian.npz`."""
    digest = np.frombuffer(bytes.fromhex(digest_of(arrays)), np.uint8)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{_DIGEST: digest}, **arrays)
    return content.getvalue()


def from_bytes(content: bytes, name: str) -> Arrays:
    """Read the content of `gaussian.npz` and check its digest.

    Args:
        content: bytes of the file.
        name: file name, for messages.

    Raises:
        ModelError: the file is damaged, or of another kind.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > _MAX_BYTES:
            raise ModelError(f"{name} has {size:,} bytes of arrays, more than the {_MAX_BYTES:,} of a closed form")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays: Arrays = dict(file)
    except (OSError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise ModelError(f"{name} is not a closed form: {error}") from error
    digest = arrays.pop(_DIGEST, None)
    if digest is None or _TEXT not in arrays:
        raise ModelError(f"{name} is not a closed form: it has no digest or no description")
    if digest.tobytes().hex() != digest_of(arrays):
        raise ModelError(f"{name} is damaged: its content has another digest than it states")
    return arrays


def write(folder: Path, arrays: Arrays) -> None:
    """Write `gaussian.npz`, atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{FILE}.")
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(to_bytes(arrays))
            file.flush()
            os.fsync(file.fileno())
        partial.chmod(0o644)
        partial.replace(folder / FILE)
    finally:
        partial.unlink(missing_ok=True)


def read(folder: Path) -> Arrays:
    """Read `gaussian.npz` and check its digest.

    Raises:
        ModelError: the file is absent, damaged, or of another kind.
    """
    path = folder / FILE
    try:
        return from_bytes(path.read_bytes(), str(path))
    except FileNotFoundError as error:
        raise ModelError(f"expected a closed form at {path}, found none") from error
    except OSError as error:
        raise ModelError(f"{path} is not a closed form: {error}") from error
