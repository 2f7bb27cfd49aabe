"""JSON as the page sends it."""

from __future__ import annotations

import json
from typing import Any


def compact(document: dict[str, Any]) -> bytes:
    """A document without spaces, in UTF-8; what JSON does not know is sent as text."""
    return json.dumps(document, separators=(",", ":"), default=str).encode()
