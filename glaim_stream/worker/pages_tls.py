"""TLS of the metrics port: handshakes with the newest certificate, and admission of scrapers."""

from __future__ import annotations

import logging
import socket
import ssl
import time

from glaim_stream.core.tls import WatchedTls

log = logging.getLogger(__name__)

_QUIET_S = 600.0  # pause between two warnings with the same reason: probes and scrapes repeat every few seconds


class PagesTls:
    """The server's side of TLS. Handshakes run in the threads of their connections."""

    def __init__(self, watched: WatchedTls) -> None:
        """Follow these files. With authorities, scrapers must show a certificate of one of them."""
        self._watched = watched
        self._warned_s: dict[str, float] = {}  # time of each reason's last log line

    def shake_hands(self, plain: socket.socket, client: object) -> ssl.SSLSocket | None:
        """Take over a connection; None if the handshake fails, after which the connection is closed.

        Args:
            plain: the connection, with a timeout.
            client: address of the client, for the log.
        """
        identity = self._watched.current()
        if (date := identity.expired) is not None:
            self._warn(
                "expired",
                f"metrics port: {self._watched.files.certificate} expired on {date}, so scrapers refuse it; replace "
                "it, no restart is needed",
            )
        try:
            return identity.context.wrap_socket(plain, server_side=True)
        except ssl.SSLEOFError:  # a client that only connects, such as a check of the port
            return None
        except ssl.SSLError as error:
            reason = error.reason or str(error)
            self._warn(reason, f"metrics port: the TLS handshake with {client} failed: {reason}")
        except OSError:  # the client sent nothing, or is gone
            return None
        return None

    def admits(self, connection: socket.socket) -> bool:
        """Whether the client of a connection may read the metrics."""
        if self._watched.files.authorities is None:
            return True
        # The handshake has checked the certificate, if there is one.
        return isinstance(connection, ssl.SSLSocket) and bool(connection.getpeercert())

    def _warn(self, reason: str, sentence: str) -> None:
        now_s = time.monotonic()
        if now_s - self._warned_s.get(reason, -_QUIET_S) >= _QUIET_S:
            self._warned_s[reason] = now_s
            log.warning("%s", sentence)
