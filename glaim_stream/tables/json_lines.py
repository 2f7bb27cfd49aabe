"""JSON objects, one a line, as their own characters, so that they are written back with a few values changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from glaim_stream.errors import SettingsError
from glaim_stream.tables.text import Beside, Changes

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class _Member:
    """A member of an object: where its value stands in the line."""

    value: Any
    start: int
    end: int


class LinesTable:
    """Objects of a file and the places of their members; a column is a key."""

    def __init__(self, raw: bytes) -> None:
        """Divide a file into objects.

        Raises:
            SettingsError: a line is no JSON object.
        """
        self._mark = "\ufeff" if raw.startswith(b"\xef\xbb\xbf") else ""
        try:
            text = raw.decode()
        except UnicodeError as error:
            raise SettingsError(f"expected JSON in UTF-8: {error}") from error
        self._lines = [match.group() for match in _LINE.finditer(text.removeprefix(self._mark))]
        self._rows = [place for place, line in enumerate(self._lines) if line.strip()]
        names: dict[str, None] = {}
        self._tokens: list[dict[str, str | None]] = []
        for place in self._rows:
            members = _members(self._lines[place], place + 1)
            names.update(dict.fromkeys(members))
            self._tokens.append({name: _text(member.value) for name, member in members.items()})
        self.names = list(names)

    def __len__(self) -> int:
        return len(self._rows)

    def texts(self, place: int, rows: Iterable[int]) -> list[str]:
        """The values of a key in some rows as text; empty where one is null or absent."""
        return [self._tokens[row].get(self.names[place]) or "" for row in rows]

    def written(self, changes: Changes) -> Iterator[bytes]:
        """Yield the file with the changes; cells are JSON tokens, and absent members are added."""
        by_row: dict[int, dict[str, str]] = {}
        for column, cells in changes.cells.items():
            for number, text in cells.items():
                by_row.setdefault(number, {})[self.names[column]] = text
        row_of = {place: row for row, place in enumerate(self._rows)}
        yield self._mark.encode()
        for place, line in enumerate(self._lines):
            row = row_of.get(place)
            if row is not None:
                added = _beside(changes.beside, row)
                if row in by_row or added:
                    line = _changed(line, place + 1, by_row.get(row, {}), added)
            yield line.encode()
            if row is not None:
                end = "" if line.endswith("\n") else "\n"
                for inserted in changes.inserted.get(row, ()):
                    pairs = zip(self.names, inserted, strict=True)
                    new = ", ".join(f"{json.dumps(name)}: {text}" for name, text in pairs if text)
                    yield f"{end}{{{new}}}\n".encode()


def _beside(beside: Mapping[int, Beside], row: int) -> dict[str, str]:
    added = {}
    for each in beside.values():
        for name, text in zip(each.names, each.rows[row], strict=True):
            added[name] = text or "null"
    return added


def _changed(line: str, number: int, cells: Mapping[str, str], added: Mapping[str, str]) -> str:
    members = _members(line, number)
    absent = {name: text for name, text in cells.items() if name not in members} | dict(added)
    edits = [(members[name].start, members[name].end, text) for name, text in cells.items() if name in members]
    for start, end, text in sorted(edits, reverse=True):
        line = line[:start] + text + line[end:]
    if absent:
        close = line.rindex("}")
        new = ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {text}" for name, text in absent.items())
        line = line[:close] + (", " if members else "") + new + line[close:]
    return line


def _members(line: str, number: int) -> dict[str, _Member]:
    """The members of the object in a line, by key."""
    try:
        at = _skip(line, 0)
        if line[at] != "{":
            raise ValueError("no object")
        members: dict[str, _Member] = {}
        at = _skip(line, at + 1)
        while line[at] != "}":
            name, at = _DECODER.raw_decode(line, at)
            at = _skip(line, at)
            if line[at] != ":" or not isinstance(name, str):
                raise ValueError("no key with a colon")
            start = _skip(line, at + 1)
            value, end = _DECODER.raw_decode(line, start)
            if name in members:
                raise ValueError(f"the key {name!r} twice")
            members[name] = _Member(_Token(line[start:end]) if _is_number(value) else value, start, end)
            at = _skip(line, end)
            if line[at] == ",":
                at = _skip(line, at + 1)
            elif line[at] != "}":
                raise ValueError("no comma between members")
        if _skip(line, at + 1) != len(line):
            raise ValueError("more after the object")
    except (ValueError, IndexError) as error:
        advice = ": a JSON array is not written back, so write an object a line first (jq -c '.[]')"
        why = advice if line.lstrip().startswith("[") else f": {error}"
        raise SettingsError(f"line {number}: expected a JSON object, found {line.strip()[:60]!r}{why}") from error
    return members


class _Token(str):
    """A number as it is written."""

    __slots__ = ()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _skip(line: str, at: int) -> int:
    found = _BLANK.match(line, at)
    return found.end() if found else at


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value)
