"""TLS and the token of calls to Triton, and explanations of their errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from glaim_stream.core.secret_files import SecretFile, secret_file
from glaim_stream.core.settings import Settings
from glaim_stream.core.tls import TRITON, Identity, WatchedTls, watched_tls
from glaim_stream.core.tls_probe import speaks_tls

_BEARER = "authorization"  # the header whose value has a scheme before the token

_CLOSED = "Socket closed"
_ONE_HOST = re.compile(r"[\w.-]+:\d+|\[[0-9a-fA-F:]+\]:\d+")  # excludes lists and schemes of gRPC
_REFUSAL = "it refuses the token, or requires one"

# Parts of gRPC's and BoringSSL's messages, and their meaning for the settings.
_MEANINGS = (
    (r"certificate has expired", "its certificate has expired"),
    (r"certificate is not yet valid", "its certificate is not valid yet"),
    (
        r"[Hh]ostname [Vv]erification|Peer name .* is not in peer certificate",
        "its certificate is for another host name",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|self.signed",
        "no authority of GLAIM_TRITON_CA_FILE has signed its certificate",
    ),
    (r"WRONG_VERSION_NUMBER", "it does not use TLS, and GLAIM_TRITON begins with grpcs://"),
    (r"[Pp]rotocol is restricted|UNAUTHENTICATED|PERMISSION_DENIED", _REFUSAL),
)


@dataclass(frozen=True, slots=True)
class TritonAccess:
    """Identity and token of a caller of Triton: by default neither."""

    tls: WatchedTls | None = None
    token: SecretFile | None = None
    header: str = _BEARER

    def identity(self) -> Identity | None:
        """The newest contents of the TLS files; None without TLS."""
        return None if self.tls is None else self.tls.current()

    def headers(self) -> dict[str, str] | None:
        """Headers of a call, with the newest token."""
        if self.token is None:
            return None
        text = self.token.text()
        return {self.header: f"Bearer {text}" if self.header == _BEARER else text}

    def client(
        self, url: str, identity: Identity | None, channel: Sequence[tuple[str, object]]
    ) -> InferenceServerClient:
        """Create a client that connects with an identity."""
        if identity is None:
            return InferenceServerClient(url, channel_args=list(channel))
        credentials = grpc.ssl_channel_credentials(identity.authorities, identity.key, identity.certificate)
        return InferenceServerClient(url, creds=credentials, channel_args=list(channel))

    def explained(self, error: InferenceServerException) -> str:
        """Put the meaning of an error for the settings before its message."""
        meaning = self._meaning(error)
        if meaning is None and _CLOSED in str(error):  # gRPC hides the server's message about a client's certificate
            why = "require TLS" if self.tls is None else "require or refuse a client certificate"
            meaning = f"it closes the connection, it may {why}"
        return str(error) if meaning is None else f"{meaning} ({error})"

    async def examined(self, url: str, error: InferenceServerException) -> str:
        """Explain an error; a handshake shows whether a server that is called without TLS requires it."""
        if self.tls is None and _CLOSED in str(error) and _ONE_HOST.fullmatch(url):
            host, _, port = url.rpartition(":")
            if await asyncio.to_thread(speaks_tls, host.strip("[]"), int(port)):
                return f"it requires TLS, and GLAIM_TRITON does not begin with grpcs:// ({error})"
        return self.explained(error)

    def _meaning(self, error: InferenceServerException) -> str | None:
        meaning = next((meaning for pattern, meaning in _MEANINGS if re.search(pattern, str(error))), None)
        if meaning == _REFUSAL:
            return f"{meaning}, {'GLAIM_TRITON_TOKEN_FILE' if self.token is None else self.token.path}"
        return meaning


def triton_access(settings: Settings) -> TritonAccess:
    """The access that the settings describe.

    Raises:
        SettingsError: one of its files cannot be used.
    """
    files = settings.triton_tls_files
    return TritonAccess(
        None if files is None else watched_tls(TRITON, files),
        None if settings.triton_token_file is None else secret_file(settings.triton_token_file),
        settings.triton_token_header,
    )
