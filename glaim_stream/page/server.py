"""The page's HTTP: files, the stream of the newest state, and polls where a stream is cut.

Each request is served by its own thread, at most `MOST_REQUESTS` at a time, outside the worker's event loop. A stream
ends after `STREAM_S`, and the browser resumes it at once from the position in the last event. So no proxy has to keep
one open for long, and if a browser has more tabs than connections (six to a host), the tabs take turns.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import socket
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from socketserver import TCPServer, ThreadingMixIn
from threading import BoundedSemaphore, Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.pages import STYLE
from glaim_stream.core.vocabulary import MAX_NAME_CHARS
from glaim_stream.page.access import Access
from glaim_stream.page.board import Board

log = logging.getLogger(__name__)

MOST_REQUESTS = 48
MOST_STREAMS = 32
STREAM_S = 25.0  # proxies cut a stream after 30 s or 60 s
HEARTBEAT_S = 5.0
RETRY_MS = 500
_POLL_S = 3.0
_PATIENCE_S = 10.0  # longest wait for a client that sends or takes nothing
_MOST_BODY = 4_096
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/groups.js": ("groups.js", "text/javascript; charset=utf-8"),
    "/chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "/stream.js": ("stream.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_LOGIN_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:22rem;margin:18vh auto;"
    "padding:0 1rem}input,button{font:inherit;width:100%;padding:.6rem;margin:.3rem 0;box-sizing:border-box}"
)
_LOGIN = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>glaim-stream</title><style>{_LOGIN_STYLE}</style></head>
<body><h1>glaim-stream</h1><form method="post" action="/login">
<label>Token of this page (GLAIM_PAGE_TOKEN_FILE)
<input type="password" name="token" autocomplete="current-password" autofocus required></label>
<button>Open</button></form></body></html>
"""
_LOGIN_POLICY = (
    "default-src 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(_LOGIN_STYLE.encode()).digest()).decode()
    + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class PageServer(ThreadingMixIn, TCPServer):
    """The server of one page."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, board: Board, access: Access, host: str, port: int, *, stream_s: float = STREAM_S) -> None:
        """Start to listen.

        Args:
            board: board with the newest state.
            access: access rules of the page.
            host: address to listen on.
            port: port to listen on; 0 chooses a free one.
            stream_s: seconds after which a stream ends.

        Raises:
            SettingsError: the address cannot be used.
        """
        self.board, self.access, self.stream_s = board, access, stream_s
        self._room = BoundedSemaphore(MOST_REQUESTS)
        self.streams = BoundedSemaphore(MOST_STREAMS)
        self.content = {
            path: (files(__package__).joinpath("static", name).read_bytes(), kind)
            for path, (name, kind) in _FILES.items()
        }
        own, kind = self.content["/page.css"]
        self.content["/page.css"] = STYLE.encode() + own, kind
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self.address_family = family
            super().__init__((str(address[0]), port), _Request)
        except OSError as error:
            raise SettingsError(
                f"GLAIM_PAGE: expected an address to listen on, {host!r} port {port} cannot be used: {error}"
            ) from error

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self.server_address[1])

    @property
    def cookie(self) -> str:
        """Name of the cookie. Browsers send a cookie to every port of a host, so the port is part of it."""
        return f"glaim-page-{self.port}"

    def start(self) -> None:
        """Serve in a thread until `shutdown` or the end of the process."""
        Thread(target=self.serve_forever, name="page-http", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a request in a thread; drop it if too many are being served."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no further thread can be started
            self._room.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log errors, except those of clients that disconnect."""
        log.debug("a request of the page ended early", exc_info=True)


class _Request(BaseHTTPRequestHandler):
    timeout = _PATIENCE_S
    server: PageServer
    server_version, sys_version = "glaim-stream", ""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class names it
        """Log nothing: addresses may hold a token, and requests come every second."""

    def do_GET(self) -> None:
        """Answer a request that changes nothing."""
        path, query = self._target()
        if path == "/health":
            self._answer(HTTPStatus.OK, b'{"page": true}\n', "application/json")
            return
        if not self._is_expected(navigation=path == "/"):
            return
        if path == "/" and "token" in query and not self.server.access.open:
            self._exchange(query.pop("token"), query)
            return
        if not self.server.access.may_look(self._sent(), self.server.cookie):
            self._ask_for_token(HTTPStatus.UNAUTHORIZED)
            return
        if path in self.server.content:
            body, kind = self.server.content[path]
            self._answer(HTTPStatus.OK, body, kind)
        elif path == "/api/stream":
            self._stream(query)
        elif path == "/api/state":
            self._state(query)
        else:
            self._problem(HTTPStatus.NOT_FOUND, "expected a path of the page, found another one")

    def do_POST(self) -> None:
        """Take the token; nothing else can be posted."""
        path, _ = self._target()
        if not self._is_expected(navigation=False):
            return
        length = self.headers.get("Content-Length", "")
        if path != "/login" or not length.isdecimal() or int(length) > _MOST_BODY:
            self._problem(HTTPStatus.NOT_FOUND, "expected a token for /login, found something else")
            return
        form = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"))
        self._exchange(form.get("token", [""])[0], {})

    def _target(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path, {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}

    def _sent(self) -> Mapping[str, str | None]:
        return {
            name: self.headers.get(name) for name in ("Host", "Origin", "Sec-Fetch-Site", "Authorization", "Cookie")
        }

    def _is_expected(self, *, navigation: bool) -> bool:
        """Whether the request names this page and comes from it; otherwise answer with an error."""
        if not self.server.access.knows_host(self.headers.get("Host")):
            self._problem(
                HTTPStatus.MISDIRECTED_REQUEST,
                "expected localhost or an address in the Host header, found a name; GLAIM_PAGE_TOKEN_FILE admits any",
            )
            return False
        if not self.server.access.is_own(self._sent(), navigation=navigation):
            self._problem(HTTPStatus.FORBIDDEN, "expected a request of the page itself, found one of another site")
            return False
        return True

    def _exchange(self, token: str, query: dict[str, str]) -> None:
        """Set the cookie for the token, and redirect to an address without the token."""
        if self.server.access.open or not self.server.access.knows_token(token):
            self._ask_for_token(HTTPStatus.FORBIDDEN)
            return
        secure = "; Secure" if self.headers.get("X-Forwarded-Proto") == "https" else ""
        cookie = f"{self.server.cookie}={self.server.access.session}; Path=/; HttpOnly; SameSite=Strict{secure}"
        where = "/" + ("?" + urlencode(query) if query else "")
        self._answer(HTTPStatus.SEE_OTHER, b"", "text/plain", {"Location": where, "Set-Cookie": cookie})

    def _ask_for_token(self, status: HTTPStatus) -> None:
        # Browsers send a form without a referrer with the origin `null`.
        more = {"Content-Security-Policy": _LOGIN_POLICY, "Referrer-Policy": "same-origin"}
        self._answer(status, _LOGIN.encode(), "text/html; charset=utf-8", more)

    def _problem(self, status: HTTPStatus, what: str) -> None:
        self._answer(status, json.dumps({"error": what}).encode() + b"\n", "application/json")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str, more: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body)), **(more or {})}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, query: Mapping[str, str]) -> None:
        """Send the newest state as it changes, until the stream's time is over."""
        if not self.server.streams.acquire(blocking=False):
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"", "text/plain", {"Retry-After": "5"})  # the page then polls
            return
        try:
            self.send_response(HTTPStatus.OK)
            for name, value in {**_HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}.items():
                self.send_header(name, value)
            self.end_headers()
            self._send_events(query)
        finally:
            self.server.streams.release()

    def _send_events(self, query: Mapping[str, str]) -> None:
        board = self.server.board
        end_s, tick = time.monotonic() + self.server.stream_s, 0
        self.wfile.write(f"retry: {RETRY_MS}\n\n".encode())
        with board.viewer(_group_of(query)) as viewer:
            viewer.resume(self.headers.get("Last-Event-ID"))
            while (left_s := end_s - time.monotonic()) > 0:
                events = viewer.take()
                text = b"".join(_event(viewer.position, *event) for event in events) or b": here\n\n"
                self.wfile.write(text)  # waits while the viewer takes nothing, and gives up after _PATIENCE_S
                tick = board.wait(tick, min(HEARTBEAT_S, left_s))

    def _state(self, query: Mapping[str, str]) -> None:
        """Send the newest state as JSON, for networks that cut streams."""
        board = self.server.board
        with board.viewer(_group_of(query)) as viewer:
            viewer.resume(query.get("position"))
            board.wait(
                board.wait(0, 0), _POLL_S
            )  # the state may be old: perhaps no browser was connected since the last poll
            events = viewer.take()
            parts = b",".join(b"[" + json.dumps(name).encode() + b"," + data + b"]" for name, data in events)
            position = json.dumps(viewer.position).encode()
        body = b'{"position":' + position + b',"events":[' + parts + b"]}"
        self._answer(HTTPStatus.OK, body, "application/json")


def _group_of(query: Mapping[str, str]) -> str | None:
    group = query.get("group")
    return group if group and len(group) <= MAX_NAME_CHARS else None


def _event(position: str, name: str, data: bytes) -> bytes:
    return f"id: {position}\nevent: {name}\ndata: ".encode() + data + b"\n\n"
