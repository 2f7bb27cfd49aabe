"""Opens the worker's page in the user's browser."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Mapping
from threading import Thread


def has_screen(environment: Mapping[str, str]) -> bool:
    """Whether a browser could show a window here; without one, a browser for terminals would take the terminal."""
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in environment
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def open_page(address: str) -> None:
    """Open an address; nothing waits for the browser, and one that does not start is no error."""
    Thread(target=webbrowser.open, args=(address,), daemon=True).start()
