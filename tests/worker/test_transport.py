"""A poll's records reach the worker in stretches of bounded size."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.worker.transport import MAX_BATCH_BYTES, bounded


@dataclass(frozen=True)
class Record:
    value: bytes | None


sizes = st.one_of(st.none(), st.integers(0, 200), st.integers(MAX_BATCH_BYTES // 3, MAX_BATCH_BYTES + 2))


@given(sizes=st.lists(sizes, min_size=1, max_size=12))
def test_every_record_comes_once_in_order_and_no_stretch_is_larger_than_the_bound(sizes: list[int | None]) -> None:
    records = [Record(None if size is None else bytes(size)) for size in sizes]
    parts = list(bounded(records))  # type: ignore[arg-type]
    assert [record for part in parts for record in part] == records
    assert all(parts)
    for part in parts:
        assert len(part) == 1 or sum(len(record.value or b"") for record in part) <= MAX_BATCH_BYTES


def test_a_small_poll_stays_whole() -> None:
    records = [Record(b"x" * 87)] * 20_000
    assert [len(part) for part in bounded(records)] == [20_000]  # type: ignore[arg-type]
