"""The manifest of a version: `<model>/<version>/manifest.json`, with the digest of every file that serves the version.

It binds the model's name, the version and the full list of files, the configuration that all versions share among them.
So a file cannot be added, left out or exchanged, and the manifest of another model or version does not fit. Without a
signature it shows accidents and mix-ups; only a signature, `manifest.json.minisig`, shows who admitted the version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from glaim_stream.core.contract import CONTRACT_FILE, WEIGHTS
from glaim_stream.core.errors import ModelError
from glaim_stream.core.validation import problems_of

MANIFEST_FILE: Final = "manifest.json"
SIGNATURE_FILE: Final = "manifest.json.minisig"
MAX_MANIFEST_BYTES = 1_000_000
MAX_FILE_BYTES = 2 * 1024**3  # weights are read into memory

# Names that cannot leave the model's folder: no `..`, no hidden file, no newline or other control character.
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class File(_Frozen):
    """One file: its path below the model's folder, and its content."""

    path: str = Field(pattern=rf"^{_NAME}(/{_NAME})*$", max_length=500)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0, le=MAX_FILE_BYTES)


class Manifest(_Frozen):
    """Every file that serves one version of a model."""

    schema_version: Literal[1] = 1
    model: str
    version: int = Field(ge=1)
    files: list[File]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        paths = [file.path for file in self.files]
        if len(set(paths)) != len(paths):
            raise ValueError("a path is listed twice")
        for needed in (f"{self.version}/{WEIGHTS}", f"{self.version}/{CONTRACT_FILE}"):
            if needed not in paths:
                raise ValueError(f"{needed} is not listed")
        return self

    def to_bytes(self) -> bytes:
        """Content of the file."""
        return (self.model_dump_json(indent=2) + "\n").encode()


def manifest_of(model: str, version: int, contents: Mapping[str, bytes]) -> Manifest:
    """Make the manifest of files, given by their paths below the model's folder.

    Raises:
        ModelError: a file is missing, or has a name that a manifest must not have.
    """
    files = [
        {"path": path, "sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
        for path, content in sorted(contents.items())
    ]
    try:
        return Manifest.model_validate({"model": model, "version": version, "files": files})
    except ValidationError as error:
        raise ModelError(f"{model} version {version} cannot have a manifest: {_first(error)}") from error


def read_manifest(content: bytes, model: str, version: int) -> Manifest:
    """Parse a manifest and check what it belongs to.

    Raises:
        ModelError: the content is not a manifest, or belongs to another model or version.
    """
    try:
        found = Manifest.model_validate_json(content)
    except ValidationError as error:
        raise ModelError(f"its manifest cannot be used: {_first(error)}") from error
    if (found.model, found.version) != (model, version):
        raise ModelError(f"its manifest is that of {found.model!r} version {found.version}")
    return found


def _first(error: ValidationError) -> str:
    place, problem = problems_of(error)[0]
    return f"{place}: {problem}"
