"""Compact JSON."""

from __future__ import annotations

import json
from typing import Any


def compact(document: dict[str, Any]) -> bytes:
    """A document as JSON without spaces, in UTF-8; values of other types become text."""
    return json.dumps(document, separators=(",", ":"), default=str).encode()
