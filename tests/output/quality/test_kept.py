"""Which keys of the topic are deleted."""

import json

from glaim_stream.core.times import text_of_ms
from glaim_stream.output.quality.kept import KeptKeys
from glaim_stream.output.quality.records import SLOTS, Record, key_of
from glaim_stream.windows import STRETCH

SPAN_MS = STRETCH * 1000  # of a stretch


def record(group: str, index: int, model: str = "m") -> Record:
    to_ms = (index + 1) * SPAN_MS
    value = json.dumps({"model": model, "to": text_of_ms(to_ms), "more": [1]}).encode()
    return Record(key_of(group, "hidden", index), value, model, to_ms)


def kept() -> KeptKeys:
    return KeptKeys({"m": 1000}, lambda group: "m" if group.startswith("g") else None)


def tombstones(found: list[Record]) -> set[bytes]:
    assert all(each.value is None for each in found)
    return {each.key for each in found}


def test_a_record_is_deleted_once_it_is_slots_stretches_old_and_was_not_replaced() -> None:
    keys = kept()
    assert keys.published([record("g1", 100), record("g2", 100)]) == []
    assert keys.published([record("g1", 100 + SLOTS - 1)]) == []
    assert tombstones(keys.published([record("g1", 100 + SLOTS)])) == {key_of("g2", "hidden", 100)}
    assert keys.published([record("g1", 101 + SLOTS)]) == []


def test_what_an_earlier_worker_left_is_deleted_when_it_is_old_or_not_in_the_catalogue() -> None:
    keys = kept()
    old, gone, other, newer = record("g1", 5), record("x", 99), record("g2", 99, "former"), record("g3", 99)
    for each in (old, gone, other, newer):
        keys.found(each.key, each.value)
    keys.found(b"written by somebody else", b"1")
    keys.found_all()
    deleted = tombstones(keys.published([record("g4", 100)]))
    assert deleted == {old.key, gone.key, other.key, b"written by somebody else"}
    assert len(keys) == 2


def test_what_was_published_meanwhile_counts_more_than_what_is_read() -> None:
    keys = kept()
    new, old = record("g1", 3 + 2 * SLOTS), record("g1", 3)
    assert new.key == old.key
    keys.published([new])
    keys.found(old.key, old.value)
    keys.found_all()
    assert keys.published([record("g2", 4 + 2 * SLOTS)]) == []


def test_a_tombstone_that_is_read_ends_its_key() -> None:
    keys = kept()
    keys.found(b"foreign", b"1")
    keys.found(b"foreign", None)
    assert keys.published([record("g1", 1)]) == []
    assert len(keys) == 1
