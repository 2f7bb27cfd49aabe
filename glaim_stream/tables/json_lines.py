"""JSON lines kept as text, so that a few values can be changed and the rest written back unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from glaim_stream.core.errors import SettingsError
from glaim_stream.tables.text import Beside, Changes

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


Path = tuple[str, ...]  # keys of a value, the outermost first
Tree = dict[str, "str | Tree"]  # objects to write; a leaf is a JSON token


@dataclass(frozen=True)
class _Member:
    """A member of an object, with the place of its value in the line."""

    value: Any
    start: int
    end: int


@dataclass(frozen=True)
class _Line:
    """The object in a line: its members except objects, and the ends of its objects."""

    members: dict[Path, _Member]
    closes: dict[Path, int]  # place of the brace that closes an object; () is the outermost one
    filled: set[Path]  # objects with a member


class LinesTable:
    """Objects of a file and the places of their members; a column is a key or a path of keys."""

    def __init__(self, raw: bytes) -> None:
        """Divide a file into objects.

        Raises:
            SettingsError: a line is not a JSON object.
        """
        self._mark = "\ufeff" if raw.startswith(b"\xef\xbb\xbf") else ""
        try:
            text = raw.decode()
        except UnicodeError as error:
            raise SettingsError(f"expected JSON in UTF-8: {error}") from error
        self._lines = [match.group() for match in _LINE.finditer(text.removeprefix(self._mark))]
        self._rows = [place for place, line in enumerate(self._lines) if line.strip()]
        paths: dict[Path, None] = {}
        self._tokens: list[dict[Path, str | None]] = []
        for place in self._rows:
            members = _line(self._lines[place], place + 1).members
            paths.update(dict.fromkeys(members))
            self._tokens.append({path: _text(member.value) for path, member in members.items()})
        outer = {path[:end] for path in paths for end in range(1, len(path))}
        self._paths = _named([path for path in paths if path not in outer])
        self.names = list(self._paths)

    def __len__(self) -> int:
        return len(self._rows)

    def texts(self, place: int, rows: Iterable[int]) -> list[str]:
        """The values of a key in some rows as text; empty where null or absent."""
        path = self._paths[self.names[place]]
        return [self._tokens[row].get(path) or "" for row in rows]

    def written(self, changes: Changes) -> Iterator[bytes]:
        """Yield the file with the changes; cells are JSON tokens, and absent members are added."""
        paths = list(self._paths.values())
        by_row: dict[int, dict[Path, str]] = {}
        for column, cells in changes.cells.items():
            for number, text in cells.items():
                by_row.setdefault(number, {})[paths[column]] = text
        row_of = {place: row for row, place in enumerate(self._rows)}
        yield self._mark.encode()
        for place, line in enumerate(self._lines):
            row = row_of.get(place)
            if row is not None:
                added = _beside(changes.beside, row)
                if row in by_row or added:
                    line = _changed(line, place + 1, by_row.get(row, {}) | added)
            yield line.encode()
            if row is not None:
                end = "" if line.endswith("\n") else "\n"
                for inserted in changes.inserted.get(row, ()):
                    new: Tree = {}
                    for path, text in zip(paths, inserted, strict=True):
                        if text:
                            _put(new, path, text)
                    yield f"{end}{_token(new)}\n".encode()


def _named(paths: list[Path]) -> dict[str, Path]:
    """Names of paths as in `files.content.typed_table`: `outer.inner`, or `inner` with a single outer object."""
    columns = {path[0]: [each for each in paths if each[0] == path[0]] for path in paths}
    depth = 1
    while any(len(path) > depth for group in columns.values() for path in group):
        outer = [name for name, group in columns.items() if len(group[0]) > depth]
        found: dict[str, list[Path]] = {}
        for name, group in columns.items():
            for path in group:
                found.setdefault(f"{name}.{path[depth]}" if name in outer else name, []).append(path)
        if len(outer) == 1:
            plain = {name.removeprefix(f"{outer[0]}."): group for name, group in found.items()}
            found = plain if len(plain) == len(found) else found
        columns, depth = found, depth + 1
    return {name: group[0] for name, group in columns.items()}


def _beside(beside: Mapping[int, Beside], row: int) -> dict[Path, str]:
    added: dict[Path, str] = {}
    for each in beside.values():
        for name, text in zip(each.names, each.rows[row], strict=True):
            added[(name,)] = text or "null"
    return added


def _changed(line: str, number: int, cells: Mapping[Path, str]) -> str:
    """The line with changed values; missing members are added to the innermost existing object."""
    found = _line(line, number)
    edits, added = [], dict[Path, Tree]()
    for path, text in cells.items():
        if path in found.members:
            edits.append((found.members[path].start, found.members[path].end, text))
            continue
        depth = max(end for end in range(len(path)) if path[:end] in found.closes)
        _put(added.setdefault(path[:depth], {}), path[depth:], text)
    for parent, tree in added.items():
        pairs = []
        for key, value in tree.items():
            member = found.members.get((*parent, key))  # null here, an object in other lines
            if member is None:
                pairs.append(f"{json.dumps(key, ensure_ascii=False)}: {_token(value)}")
            else:
                edits.append((member.start, member.end, _token(value)))
        if pairs:
            close = found.closes[parent]
            edits.append((close, close, (", " if parent in found.filled else "") + ", ".join(pairs)))
    for start, end, text in sorted(edits, reverse=True):
        line = line[:start] + text + line[end:]
    return line


def _put(tree: Tree, path: Path, text: str) -> None:
    for key in path[:-1]:
        inner = tree.setdefault(key, {})
        assert isinstance(inner, dict)
        tree = inner
    tree[path[-1]] = text


def _token(tree: str | Tree) -> str:
    if isinstance(tree, str):
        return tree
    return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {_token(each)}" for key, each in tree.items()) + "}"


def _line(line: str, number: int) -> _Line:
    """The object in a line."""
    found = _Line({}, {}, set())
    try:
        at = _object(line, _skip(line, 0), (), found)
        if _skip(line, at) != len(line):
            raise ValueError("more after the object")
    except (ValueError, IndexError, RecursionError) as error:
        advice = ": a JSON array is not written back, so write an object a line first (jq -c '.[]')"
        why = advice if line.lstrip().startswith("[") else f": {error}"
        raise SettingsError(f"line {number}: expected a JSON object, found {line.strip()[:60]!r}{why}") from error
    return found


def _object(line: str, at: int, path: Path, found: _Line) -> int:
    """Add an object that begins at a place of the line, and return the place behind it."""
    if line[at] != "{":
        raise ValueError("no object")
    names: set[str] = set()
    at = _skip(line, at + 1)
    while line[at] != "}":
        name, at = _DECODER.raw_decode(line, at)
        at = _skip(line, at)
        if line[at] != ":" or not isinstance(name, str):
            raise ValueError("no key with a colon")
        if name in names:
            raise ValueError(f"the key {name!r} twice")
        names.add(name)
        start = _skip(line, at + 1)
        if line[start] == "{":
            end = _object(line, start, (*path, name), found)
        else:
            value, end = _DECODER.raw_decode(line, start)
            found.members[(*path, name)] = _Member(_Token(line[start:end]) if _is_number(value) else value, start, end)
        at = _skip(line, end)
        if line[at] == ",":
            at = _skip(line, at + 1)
        elif line[at] != "}":
            raise ValueError("no comma between members")
    found.closes[path] = at
    if names:
        found.filled.add(path)
    return at + 1


class _Token(str):
    """A number as written."""

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
