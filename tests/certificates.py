"""Certificates of the tests: authorities, and pairs that they sign, as PEM files."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        """The certificate in PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self, password: bytes | None = None) -> bytes:
        """The key in PEM, encrypted where a password is given."""
        encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

    def write(self, directory: Path, name: str = "tls", password: bytes | None = None) -> tuple[Path, Path]:
        """Write `name`.crt and `name`.key; returns their paths."""
        certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
        certificate.write_bytes(self.certificate_pem)
        key.write_bytes(self.key_pem(password))
        return certificate, key


def signed(name: str, by: Pair | None = None, *, hosts: Sequence[str] = ("127.0.0.1",), days: float = 1.0) -> Pair:
    """A certificate with this common name for these hosts; an authority's, signed by itself, if no signer is given.

    Args:
        name: the common name.
        by: the signer.
        hosts: addresses and names.
        days: until it expires; negative: it has expired.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=3))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    return Pair(builder.sign(by.key if by else key, hashes.SHA256()), key)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


class MountedSecret:
    """A folder of files as the kubelet mounts a Secret: links through `..data`, which it replaces in one step."""

    def __init__(self, folder: Path, files: dict[str, bytes]) -> None:
        self.folder = folder
        self._versions = 0
        folder.mkdir()
        self.replace(files)

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def replace(self, files: dict[str, bytes]) -> None:
        """Replace all files at once."""
        self._versions += 1
        version = self.folder / f"..{self._versions}"
        version.mkdir()
        for name, content in files.items():
            (version / name).write_bytes(content)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(Path("..data") / name)
        link = self.folder / "..new"
        link.symlink_to(version.name)
        link.replace(self.folder / "..data")
