"""HTTP or HTTPS on the metrics port: `/metrics` for a scraper, `/health` and the three pages below it for probes.

A thread of its own serves the pages, so that they can report a blocked event loop instead of blocking with it. One
short answer a second has no measurable cost for the loop. The pages only read what the worker's parts have reported.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from socketserver import TCPServer, ThreadingMixIn
from threading import Thread
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import make_wsgi_app

from glaim_stream.core import metrics
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.tls import WatchedTls
from glaim_stream.worker.health import Health, PageVerdict

log = logging.getLogger(__name__)

PREFIX = "/health"
_ADMITTED = "glaim.admitted"  # key in the environment of a request: whether its client may read the metrics
_PATIENCE_S = 10.0  # timeout of a client that connects and sends nothing

StartResponse = Callable[[str, list[tuple[str, str]]], object]
Page = Callable[[], tuple[bool, dict[str, Any]]]
_QUIET_S = 600.0  # pause between two warnings with the same reason: probes and scrapes repeat every few seconds


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    tls: PagesTls | None = None

    def server_bind(self) -> None:
        # HTTPServer would look up the machine's name, which takes seconds where there is no DNS.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands in the thread of the connection, so that a slow client does not delay the others."""
        if self.tls is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(_PATIENCE_S)
        connection = self.tls.shake_hands(request, client_address[0])
        if connection is not None:
            try:
                super().finish_request(connection, client_address)
            finally:
                self.shutdown_request(connection)


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE_S

    def get_environ(self) -> dict[str, Any]:
        """Add whether the client may read the metrics."""
        tls = cast("_Server", self.server).tls
        return {**super().get_environ(), _ADMITTED: tls is None or tls.admits(self.connection)}

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class names it
        """Log nothing: probes come every few seconds."""


def serve_pages(health: Health, host: str, port: int, tls: WatchedTls | None = None) -> int:
    """Serve the pages until the process ends; return the port, which is a free one for port 0.

    Args:
        health: the state that the pages show.
        host: address to listen on.
        port: port to listen on.
        tls: certificate, key, and authorities of the scrapers if they must show a certificate; None: HTTP.

    Raises:
        SettingsError: the worker cannot listen on the address.
    """
    for verdict in health.verdicts:
        metrics.health.labels(verdict.page).set_function(_gauge_value(health, verdict.page))
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]

        class Server(_Server):
            address_family = family  # IPv6 where the address is one

        server = Server((str(address[0]), port), _Handler)
    except OSError as error:
        raise SettingsError(
            f"GLAIM_METRICS_HOST, GLAIM_METRICS_PORT: expected an address to listen on, {host!r} port {port} "
            f"cannot be used: {error}"
        ) from error
    server.tls = None if tls is None else PagesTls(tls)
    server.set_app(pages(health))
    Thread(target=server.serve_forever, name="pages", daemon=True).start()
    return server.server_port


def pages(health: Health) -> Callable[[dict[str, Any], StartResponse], Iterable[bytes]]:
    """Return the WSGI application. A page is 200, or 503 with the reasons, both as JSON."""
    scrape = make_wsgi_app()
    answers: dict[str, Page] = {PREFIX: lambda: (all(health.verdicts), health.document)}
    for verdict in health.verdicts:
        answers[f"{PREFIX}/{verdict.page}"] = _page(health, verdict.page)

    def application(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "").rstrip("/")
        if path == "/metrics" and not environ.get(_ADMITTED, True):
            return _answer(
                start_response, "403 Forbidden", {"expected": "a certificate of GLAIM_METRICS_TLS_CLIENT_CA"}
            )
        if path == "/metrics":
            return scrape(environ, start_response)  # type: ignore[no-any-return]
        if environ.get("REQUEST_METHOD") != "GET":
            return _answer(start_response, "405 Method Not Allowed", {"expected": ["GET"]})
        if path not in answers:
            return _answer(start_response, "404 Not Found", {"expected": ["/metrics", *answers]})
        good, document = answers[path]()
        return _answer(start_response, "200 OK" if good else "503 Service Unavailable", document)

    return application


def _verdict(health: Health, page: str) -> PageVerdict:
    return next(verdict for verdict in health.verdicts if verdict.page == page)


def _page(health: Health, page: str) -> Page:
    def answer() -> tuple[bool, dict[str, Any]]:
        verdict = _verdict(health, page)
        return bool(verdict), verdict.document

    return answer


def _gauge_value(health: Health, page: str) -> Callable[[], float]:
    return lambda: float(bool(_verdict(health, page)))


def _answer(start_response: StartResponse, status: str, document: dict[str, Any]) -> list[bytes]:
    body = json.dumps(document).encode() + b"\n"
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
    start_response(status, headers)
    return [body]


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
