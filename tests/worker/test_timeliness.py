"""Rows are counted as in time or late by the times of their records, in proportion."""

import pytest
from prometheus_client import REGISTRY

from glaim_stream.worker.timeliness import Timeliness


def counted() -> dict[str, float]:
    return {
        outcome: REGISTRY.get_sample_value("glaim_timed_rows_total", {"outcome": outcome}) or 0.0
        for outcome in ("in_time", "late")
    }


def added(timeliness: Timeliness, *batches: tuple[int, list[int]], now_ms: int) -> tuple[float, float]:
    before = counted()
    for rows, stamps in batches:
        timeliness.add(rows, stamps, now_ms)
    after = counted()
    return after["in_time"] - before["in_time"], after["late"] - before["late"]


def test_each_record_stands_for_an_equal_share_of_the_rows() -> None:
    stamps = [89_999] * 1 + [90_000] * 3  # 10.001 s and 10 s before the acknowledgement
    assert added(Timeliness(10), (1_000, stamps), now_ms=100_000) == (pytest.approx(750), pytest.approx(250))


def test_a_batch_counts_by_its_rows_and_not_once() -> None:
    in_time, late = added(Timeliness(7), (1, [0]), (999, [99_000]), now_ms=100_000)
    assert (in_time, late) == (pytest.approx(999), pytest.approx(1))


def test_rows_of_slices_are_counted_with_their_batch() -> None:
    timeliness = Timeliness(10)
    assert added(timeliness, (300, []), now_ms=100_000) == (0, 0)
    assert added(timeliness, (100, [0]), now_ms=100_000) == (0, pytest.approx(400))


def test_a_large_batch_is_sampled_evenly() -> None:
    stamps = [0] * 5_000 + [99_000] * 15_000
    assert added(Timeliness(10), (20_000, stamps), now_ms=100_000)[1] == pytest.approx(5_000, rel=0.02)
