"""Verifies signatures in minisign's format (https://jedisct1.github.io/minisign/) with Ed25519 of `cryptography`.

A public key is one line of base64: 2 bytes `Ed`, 8 bytes key number, 32 bytes key. A signature file has four lines: an
untrusted comment; base64 of 2 bytes algorithm, 8 bytes key number, 64 bytes signature; a trusted comment; and base64 of
a signature over signature and trusted comment. The algorithm `ED` signs the BLAKE2b-512 of the file, `Ed` the file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Self

from glaim_stream.core.errors import ModelError

_TRUSTED = "trusted comment: "


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key of minisign."""

    number: bytes
    key: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the key from its line of base64, with or without the comment above it.

        Raises:
            ModelError: it is not a public key of minisign.
        """
        lines = text.strip().splitlines()
        raw = _decoded(lines[-1]) if lines else b""
        if len(raw) != 42 or raw[:2] != b"Ed":
            raise ModelError("expected a public key of minisign, one line of base64 that begins with RW, found another")
        return cls(raw[2:10], raw[10:])

    def verify(self, content: bytes, signature: bytes, name: str) -> None:
        """Check the signature of a file.

        Args:
            content: content of the signed file.
            signature: content of its signature file.
            name: name of the file in the message.

        Raises:
            ModelError: the signature is not of this content or not by this key.
        """
        from cryptography.exceptions import InvalidSignature  # late, because most commands need no signature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        lines = signature.decode("utf-8", "replace").splitlines()
        raw, total = (_decoded(lines[1]), _decoded(lines[3])) if len(lines) == 4 else (b"", b"")
        if len(raw) != 74 or raw[:2] not in (b"Ed", b"ED") or len(total) != 64 or not lines[2].startswith(_TRUSTED):
            raise ModelError(f"{name}: expected a signature in minisign's format, found another")
        if raw[2:10] != self.number:
            raise ModelError(
                f"{name}: expected a signature by the key {_shown(self.number)}, found one by {_shown(raw[2:10])}"
            )
        signed = hashlib.blake2b(content).digest() if raw[:2] == b"ED" else content
        key = Ed25519PublicKey.from_public_bytes(self.key)
        try:
            key.verify(raw[10:], signed)
            key.verify(total, raw[10:] + lines[2].removeprefix(_TRUSTED).encode())
        except InvalidSignature as error:
            raise ModelError(f"{name}: expected the content that was signed, found another") from error


def _decoded(line: str) -> bytes:
    try:
        return base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _shown(number: bytes) -> str:
    return number[::-1].hex().upper()  # as minisign prints it


@dataclass(frozen=True, slots=True)
class Trust:
    """Requirements that a model version must meet before it is used.

    Attributes:
        require_manifest: versions without a manifest are refused; otherwise they are used with a warning.
        key: every manifest must be signed by this key.
        operators: operators that TorchScript may use beside the usual ones, such as `aten::lstm`.
    """

    require_manifest: bool = False
    key: PublicKey | None = None
    operators: frozenset[str] = frozenset()
