"""Access to the page: its host names, the token, and the cookie that replaces the token.

The page has no TLS and no users. Three things keep strangers out:

- *Names.* A web site can let its own name resolve to 127.0.0.1 and so reach a page on loopback from the visitor's
  browser. Such a request carries that name as its `Host`. Without a token only addresses and `localhost` are accepted.
    With one any name is: a browser sends this page's cookie to no other name, and a stranger does not know the token.
- *Origins.* A request that another site causes is rejected by its `Origin` or `Sec-Fetch-Site`.
- *Token.* It is exchanged once for a cookie, which is random, ends with the process, and does not reveal the token.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from glaim_stream.core.errors import SettingsError

FEWEST_CHARACTERS = 16
_OWN_SITE = ("same-origin", "none")


class Access:
    """The access rules of one page."""

    def __init__(self, token: str | None) -> None:
        """Set the rules.

        Args:
            token: token that viewers need; None: everybody who reaches the page may look.

        Raises:
            SettingsError: the token is too short.
        """
        if token is not None and len(token) < FEWEST_CHARACTERS:
            raise SettingsError(
                f"GLAIM_PAGE_TOKEN_FILE: expected at least {FEWEST_CHARACTERS} characters, found {len(token)}"
            )
        self._token = None if token is None else _digest(token)
        self._session = secrets.token_urlsafe(32)

    @property
    def open(self) -> bool:
        """Whether no token is needed."""
        return self._token is None

    @property
    def session(self) -> str:
        """The value of the cookie for viewers who have sent the token."""
        return self._session

    def knows_host(self, host: str | None) -> bool:
        """Whether a `Host` header names this page. Ports are not compared because forwarding changes them."""
        name = _name_of(host or "")
        if name is None:
            return False
        return not self.open or name == "localhost" or _is_address(name)

    def is_own(self, headers: Mapping[str, str | None], *, navigation: bool) -> bool:
        """Whether a request comes from this page or its viewer, as far as the browser says.

        Args:
            headers: headers `Origin`, `Host` and `Sec-Fetch-Site`; None or absent where the browser sent none.
            navigation: True if the request opens the page itself, which other sites may link to.
        """
        origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
        if origin is not None and origin not in (f"http://{headers.get('Host')}", f"https://{headers.get('Host')}"):
            return False
        return navigation or site is None or site in _OWN_SITE

    def knows_token(self, token: str) -> bool:
        """Whether a token is right, in the same time for every wrong one."""
        return self._token is not None and hmac.compare_digest(_digest(token), self._token)

    def may_look(self, headers: Mapping[str, str | None], cookie_name: str) -> bool:
        """Whether a request carries the cookie, or the token as a bearer token."""
        if self.open:
            return True
        kind, _, given = (headers.get("Authorization") or "").partition(" ")
        if kind.lower() == "bearer" and self.knows_token(given.strip()):
            return True
        shown = _cookie(headers.get("Cookie") or "", cookie_name)
        return hmac.compare_digest(shown.encode(), self._session.encode())


def _digest(text: str) -> bytes:
    """A digest of constant length, so that a comparison does not reveal the token's length."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _name_of(host: str) -> str | None:
    """The name in a `Host` header without its port; None if malformed."""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        if not bracket or (port and not (port.startswith(":") and port[1:].isdigit())):
            return None
        return name.lower()
    name, colon, port = host.partition(":")
    if (colon and not port.isdigit()) or not name:
        return None
    return name.lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _cookie(text: str, name: str) -> str:
    try:
        found = SimpleCookie(text).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value
