"""TLS files that are read again when they change: authorities, a certificate and its key.

A mounted pair is replaced while a process runs, and for a moment certificate and key may not fit each other. The files
are compared with what was read before whenever a connection is made. Only a pair that is whole and valid replaces the
one in use, so connections never fail because of a replacement that is under way.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.watched_files import WatchedFiles

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

KAFKA, TRITON, METRICS = "kafka", "triton", "metrics"  # uses of TLS files, in log lines and metrics


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Names of PEM files; a certificate has its key.

    Without `authorities`, a client trusts those of the system, and a server requests no certificate of its clients.
    """

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __iter__(self) -> Iterator[Path]:
        """The files that are given."""
        return (file for file in (self.authorities, self.certificate, self.key) if file is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """The contents of TLS files that fit each other."""

    context: ssl.SSLContext
    authorities: bytes | None
    certificate: bytes | None
    key: bytes | None
    expires_s: dict[str, float]  # expiry by kind of file, `certificate` and `authorities`: seconds since the epoch

    @property
    def expired(self) -> str | None:
        """When the certificate has expired; None while it is valid, or if there is none."""
        at_s = self.expires_s.get("certificate")
        return _date(at_s) if at_s is not None and at_s <= time.time() else None


class WatchedTls(WatchedFiles[Identity]):
    """The newest whole contents of TLS files."""

    def __init__(self, use: str, files: TlsFiles) -> None:
        """Read the files.

        Args:
            use: KAFKA, TRITON or METRICS. For METRICS the process is the server, for the others the client.
            files: names of the files.

        Raises:
            SettingsError: the files cannot be used.
        """
        super().__init__(f"{use}: the TLS files", files, partial(read_identity, files, server=use == METRICS))
        self.use, self.files = use, files

    def described(self, contents: Identity) -> str:
        """See WatchedFiles."""
        return "".join(f", {kind} until {_date(at_s)}" for kind, at_s in contents.expires_s.items())


class FollowingContext(ssl.SSLContext):
    """A client's context that makes every connection with the newest files."""

    def __new__(cls, watched: WatchedTls) -> Self:
        """Create a context whose own settings are not used."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, watched: WatchedTls) -> None:
        """Follow these files."""
        self._watched = watched

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """See SSLContext; blocking clients call it."""
        return self._watched.current().context.wrap_socket(*args, **kwargs)

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """See SSLContext; asyncio calls it."""
        return self._watched.current().context.wrap_bio(*args, **kwargs)


@lru_cache(maxsize=64)
def watched_tls(use: str, files: TlsFiles) -> WatchedTls:
    """The process's watch of these files, shared so that every client keeps the same old pair during a replacement.

    Raises:
        SettingsError: the files cannot be used.
    """
    return WatchedTls(use, files)


def _end_s(certificate: Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()


def read_identity(files: TlsFiles, *, server: bool = False) -> Identity:
    """Read TLS files.

    Args:
        files: names of the files.
        server: make the context of a server. With authorities it requests a certificate of its clients, and closes
            connections of those that show one of another authority; a client may show none.

    Raises:
        SettingsError: they cannot be read, do not fit each other, have expired, or changed meanwhile.
    """
    from cryptography.x509 import load_pem_x509_certificates  # late: it takes a tenth of a second, and TLS is optional

    named = ", ".join(map(str, files))
    try:
        before = _contents(files)
        purpose = ssl.Purpose.CLIENT_AUTH if server else ssl.Purpose.SERVER_AUTH
        context = ssl.create_default_context(purpose, cafile=files.authorities)
        if server and files.authorities is not None:
            context.verify_mode = ssl.CERT_OPTIONAL
        if files.certificate is not None:
            # OpenSSL would ask for a key's password at the terminal, and a worker has none: such a key is rejected.
            context.load_cert_chain(files.certificate, files.key, password=_no_password)
        expires_s = {}
        # A chain ends with its first certificate, a list of authorities is of use until its last one has ended.
        if before[1] is not None:
            expires_s["certificate"] = min(_end_s(each) for each in load_pem_x509_certificates(before[1]))
        if before[0] is not None and (authorities := context.get_ca_certs()):
            # As OpenSSL reads them: `cryptography` is about to refuse some that systems trust.
            expires_s["authorities"] = max(ssl.cert_time_to_seconds(str(each["notAfter"])) for each in authorities)
        if _contents(files) != before:
            raise SettingsError(f"expected PEM files for TLS in {named}, found: they are being replaced")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SettingsError(f"expected PEM files for TLS in {named}, found: {error}") from error
    for kind, at_s in expires_s.items():
        if at_s <= time.time():
            file = files.certificate if kind == "certificate" else files.authorities
            raise SettingsError(f"{file}: expected a valid certificate, found one that expired on {_date(at_s)}")
    return Identity(context, *before, expires_s)


def _contents(files: TlsFiles) -> tuple[bytes | None, bytes | None, bytes | None]:
    authorities, certificate, key = (
        None if file is None else file.read_bytes() for file in (files.authorities, files.certificate, files.key)
    )
    return authorities, certificate, key


def _date(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _no_password() -> str:
    raise ValueError("the key is locked by a password")
