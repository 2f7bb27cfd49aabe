"""A run's configuration as TOML text, for `--print-config` and the search: the standard library only reads TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

BARE = re.compile(r"[A-Za-z0-9_-]+")


def dumps(tables: Mapping[str, Any]) -> str:
    """Return nested mappings of text, numbers, booleans and lists as TOML, without empty tables and None."""
    return "\n".join(_table(tables, "")).strip() + "\n"


def _table(table: Mapping[str, Any], prefix: str) -> list[str]:
    """Write plain values first, as TOML requires, then one section for each mapping."""
    lines = [f"{_key(key)} = {value(item)}" for key, item in table.items() if not _apart(item)]
    for key, item in table.items():
        if isinstance(item, Mapping) and item:
            name = f"{prefix}{_key(key)}"
            inner = _table(item, f"{name}.")
            plain = not all(isinstance(below, Mapping) for below in item.values())
            lines += ["", f"[{name}]", *inner] if plain else inner
    return lines


def _apart(item: Any) -> bool:
    return item is None or isinstance(item, Mapping)


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    """Quote text; JSON escapes as TOML does, except for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def value(item: Any) -> str:
    """Return one value as TOML: text, a boolean, a number, or a list of these."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        return _text(item)
    if isinstance(item, (int, float)):
        return repr(item)
    if isinstance(item, (list, tuple)):
        return f"[{', '.join(value(part) for part in item)}]"
    raise TypeError(f"expected text, a number, a boolean or a list for TOML, found {type(item).__name__}")
