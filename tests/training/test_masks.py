"""The gap patterns keep what they promise, whatever the rate, the window and the real gaps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.masks import (
    DEPLOYMENT_WEIGHTS,
    MaskSpec,
    block_cells,
    edge_cells,
    random_cells,
    silent_sensors,
    tail_cells,
)

ALL = np.ones((8, 5, 96), np.bool_)


def segments_of(row: np.ndarray) -> list[int]:
    """Lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
    return list(edges[1::2] - edges[::2])


@given(rate=st.floats(0.02, 0.98), steps=st.integers(8, 120), seed=st.integers(0, 10_000))
@settings(max_examples=80, deadline=None)
def test_block_hides_exactly_the_rate_in_separate_segments(rate: float, steps: int, seed: int) -> None:
    observed = np.ones((3, 4, steps), np.bool_)
    hidden = block_cells(np.random.default_rng(seed), observed, rate)
    assert (hidden.sum(axis=-1) == round(rate * steps)).all()
    free = steps - round(rate * steps)
    for row in hidden.reshape(-1, steps):
        count = len(segments_of(row))  # segments that touched would count as one and fall below the range
        assert count <= min(16, row.sum(), free + 1)
        assert count >= min(2, row.sum(), free + 1)


def test_block_segment_counts_are_uniform_in_2_to_16() -> None:
    hidden = block_cells(np.random.default_rng(0), np.ones((500, 10, 96), np.bool_), 0.3)
    counts = np.array([len(segments_of(row)) for row in hidden.reshape(-1, 96)])
    share = np.bincount(counts, minlength=17)[2:17] / counts.size
    assert counts.min() == 2
    assert counts.max() == 16
    assert np.abs(share - 1 / 15).max() < 0.015


def test_block_reaches_every_step_and_both_ends_alike() -> None:
    hidden = block_cells(np.random.default_rng(0), np.ones((500, 10, 96), np.bool_), 0.3)
    share = hidden.mean(axis=(0, 1))
    assert abs(share.mean() - 29 / 96) < 1e-6
    # A step at an end belongs to a segment only when one starts there: half as often as a step in the middle.
    assert 0.1 < share[0] < 0.2
    assert abs(share[0] - share[-1]) < 0.03
    assert np.abs(share[20:-20] - share[20:-20].mean()).max() < 0.03


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.7])
def test_random_hides_about_the_rate(rate: float) -> None:
    hidden = random_cells(np.random.default_rng(0), np.ones((200, 5, 96), np.bool_), rate)
    assert abs(hidden.mean() - rate) < 0.01


@given(seed=st.integers(0, 1000), pattern=st.sampled_from(["one", "several", "all"]))
@settings(max_examples=30, deadline=None)
def test_tails_reach_the_newest_step_and_nothing_before_them_is_hidden(seed: int, pattern: str) -> None:
    hidden = tail_cells(np.random.default_rng(seed), ALL, pattern)
    for window in hidden:
        rows = window.any(axis=-1)
        assert rows.sum() in {"one": {1}, "several": {2, 3, 4}, "all": {5}}[pattern]
        lengths = {int(row.sum()) for row in window[rows]}
        assert len(lengths) == 1
        length = lengths.pop()
        assert 1 <= length <= 48
        assert window[rows][:, -length:].all()


def test_short_tails_are_as_frequent_as_long_ones_on_a_log_scale() -> None:
    hidden = tail_cells(np.random.default_rng(0), np.ones((4000, 2, 96), np.bool_), "all")
    lengths = hidden[:, 0].sum(axis=-1)
    assert 0.12 < (lengths == 1).mean() < 0.24
    assert 0.25 < (lengths > 14).mean() < 0.40


def test_silent_sensors_are_out_for_the_whole_window_and_never_all() -> None:
    hidden = silent_sensors(np.random.default_rng(0), np.ones((300, 5, 96), np.bool_))
    rows = hidden.any(axis=-1)
    assert (hidden.all(axis=-1) == rows).all()
    assert set(rows.sum(axis=-1)) == {1, 2, 3}


@pytest.mark.parametrize(("sensor", "lag", "expected"), [(2, 0, 8), (None, 0, 40), (1, 3, 8)])
def test_an_edge_is_one_step(sensor: int | None, lag: int, expected: int) -> None:
    hidden = edge_cells(ALL, sensor, lag)
    assert hidden.sum() == expected
    assert hidden[:, :, 95 - lag].sum() == expected


@pytest.mark.parametrize("pattern", ["random", "block", "tail_one", "tail_several", "tail_all", "silent", "deployment"])
@given(seed=st.integers(0, 10_000), gaps=st.floats(0, 1))
@settings(max_examples=15, deadline=None)
def test_real_gaps_are_never_hidden_and_seeds_decide_everything(pattern: str, seed: int, gaps: float) -> None:
    observed = np.random.default_rng(seed).random((6, 4, 96)) >= gaps
    spec = MaskSpec(pattern, rates=(0.05, 0.7))
    first = spec.sample(np.random.default_rng(seed), observed)
    assert not (first & ~observed).any()
    assert np.array_equal(first, spec.sample(np.random.default_rng(seed), observed))


def test_the_mixture_meets_every_shape() -> None:
    spec = MaskSpec("deployment", rates=(0.1, 0.5))
    hidden = spec.sample(np.random.default_rng(0), np.ones((600, 6, 96), np.bool_))
    newest = hidden[:, :, -1]
    assert 0.10 < newest.all(axis=1).mean() < 0.30  # tails of the whole group
    assert 0.04 < hidden.all(axis=2).any(axis=1).mean() < 0.14  # silent sensors
    assert hidden.any(axis=(1, 2)).mean() > 0.99
    assert spec.names == list(DEPLOYMENT_WEIGHTS)


@pytest.mark.parametrize(
    ("settings_", "says"),
    [
        ({"pattern": "blocks"}, "found 'blocks'"),
        ({"rates": (0.5, 0.2)}, "0 < low <= high"),
        ({"weights": {"blok": 1.0}}, "blok"),
        ({"tail_steps": (0, 4)}, "tail_steps"),
    ],
)
def test_a_wrong_spec_is_refused_with_what_was_found(settings_: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        MaskSpec(**settings_)  # type: ignore[arg-type]
