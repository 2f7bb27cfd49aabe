"""Keys and signatures as minisign writes them, made with `cryptography`."""

import base64
import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class Signer:
    """A key of minisign."""

    def __init__(self, number: bytes = b"12345678") -> None:
        self._number, self._key = number, Ed25519PrivateKey.generate()

    @property
    def public(self) -> str:
        """The line of base64 in minisign.pub."""
        return base64.b64encode(b"Ed" + self._number + self._key.public_key().public_bytes_raw()).decode()

    def sign(self, content: bytes, *, comment: str = "timestamp:1\tfile:manifest.json\thashed") -> bytes:
        """The content of a signature file."""
        signature = self._key.sign(hashlib.blake2b(content).digest())
        first = base64.b64encode(b"ED" + self._number + signature).decode()
        second = base64.b64encode(self._key.sign(signature + comment.encode())).decode()
        return f"untrusted comment: by a test\n{first}\ntrusted comment: {comment}\n{second}\n".encode()
