"""Lists in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 8


def some(names: Sequence[object]) -> str:
    """The first names of a list, and how many more there are."""
    return ", ".join(map(str, names[:MOST])) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")
