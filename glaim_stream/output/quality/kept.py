"""The keys that the topic holds for one partition, and the tombstones of obsolete ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import moment_ms
from glaim_stream.output.quality.records import SLOTS, Record, group_of_key
from glaim_stream.windows import STRETCH

ModelOf = Callable[[str], str | None]
End = tuple[str, int]  # a record's model, and the end of its stretch in epoch milliseconds

_FOREIGN: End = ("", 0)


class _Head(msgspec.Struct):
    """The fields that are needed of a record."""

    model: str
    to: str


class KeptKeys:
    """The keys of one partition.

    A key is deleted when its stretch is `SLOTS` stretches older than its model's newest one, or when the catalogue no
    longer has its group in its model.
    """

    def __init__(self, step_ms: Mapping[str, int], model_of: ModelOf) -> None:
        """Start without keys.

        Args:
            step_ms: length of a step by name of the model.
            model_of: gives the name of a group's model, None where the catalogue does not name the group.
        """
        self._span_ms = {model: SLOTS * STRETCH * each for model, each in step_ms.items()}
        self._model_of = model_of
        self._end_of: dict[bytes, End] = {}
        self._by_end: dict[End, set[bytes]] = {}
        self._newest_ms: dict[str, int] = {}
        self._own: set[bytes] | None = set()  # keys published or deleted before all were found; None: all are

    def __len__(self) -> int:
        return len(self._end_of)

    def found(self, key: bytes, value: bytes | None) -> None:
        """Take the next record that the topic holds; records published since the start take precedence."""
        if self._own is None or key in self._own:
            return
        self._forget(key)
        if value is None:
            return
        try:
            head = msgspec.json.decode(value, type=_Head)
            end = (head.model, moment_ms(head.to))
        except (msgspec.MsgspecError, SettingsError, UnicodeError):
            end = _FOREIGN
        group = group_of_key(key)
        known = group is not None and end[0] in self._span_ms and self._model_of(group) == end[0]
        self._keep(key, end if known else _FOREIGN)

    def found_all(self) -> None:
        """Note that the topic was read to its end."""
        self._own = None

    def published(self, records: Sequence[Record]) -> list[Record]:
        """Take records that are being published; return the tombstones to publish with them."""
        for record in records:
            self._forget(record.key)
            self._keep(record.key, (record.model, record.to_ms))
            self._newest_ms[record.model] = max(record.to_ms, self._newest_ms.get(record.model, record.to_ms))
            if self._own is not None:
                self._own.add(record.key)
        gone = [key for end in self._over() for key in sorted(self._by_end[end])] if records else []
        for key in gone:
            self._forget(key)
            if self._own is not None:
                self._own.add(key)
        return [Record(key, None) for key in gone]

    def _over(self) -> list[End]:
        return [
            (model, to_ms)
            for model, to_ms in self._by_end
            if (model, to_ms) == _FOREIGN or to_ms <= self._newest_ms.get(model, to_ms) - self._span_ms[model]
        ]

    def _keep(self, key: bytes, end: End) -> None:
        self._end_of[key] = end
        self._by_end.setdefault(end, set()).add(key)

    def _forget(self, key: bytes) -> None:
        end = self._end_of.pop(key, None)
        if end is not None:
            self._by_end[end].discard(key)
            if not self._by_end[end]:
                del self._by_end[end]
