"""Properties of the gap patterns for any rate, window and real gaps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.data.masks import (
    DEPLOYMENT_WEIGHTS,
    PATTERNS,
    MaskSpec,
    blackout_cells,
    block_cells,
    correlated_cells,
    edge_cells,
    random_cells,
    replay_cells,
    silent_sensors,
    single_cells,
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
        count = len(segments_of(row))  # adjacent segments would count as one, below the range
        assert count <= min(16, row.sum(), free + 1)
        assert count >= min(2, row.sum(), free + 1)


def test_block_segment_counts_are_uniform_in_2_to_16() -> None:
    hidden = block_cells(np.random.default_rng(0), np.ones((500, 10, 96), np.bool_), 0.3)
    counts = np.array([len(segments_of(row)) for row in hidden.reshape(-1, 96)])
    share = np.bincount(counts, minlength=17)[2:17] / counts.size
    assert counts.min() == 2
    assert counts.max() == 16
    assert np.abs(share - 1 / 15).max() < 0.015


def test_blocks_cover_inner_steps_evenly_and_both_ends_alike() -> None:
    hidden = block_cells(np.random.default_rng(0), np.ones((500, 10, 96), np.bool_), 0.3)
    share = hidden.mean(axis=(0, 1))
    assert abs(share.mean() - 29 / 96) < 1e-6
    # The first or last step is hidden only by a segment at the edge: half as often as an inner step.
    assert 0.1 < share[0] < 0.2
    assert abs(share[0] - share[-1]) < 0.03
    assert np.abs(share[20:-20] - share[20:-20].mean()).max() < 0.03


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.7])
def test_random_hides_about_the_rate(rate: float) -> None:
    hidden = random_cells(np.random.default_rng(0), np.ones((200, 5, 96), np.bool_), rate)
    assert abs(hidden.mean() - rate) < 0.01


@given(seed=st.integers(0, 1000), pattern=st.sampled_from(["one", "several", "all"]))
@settings(max_examples=30, deadline=None)
def test_tails_reach_the_newest_step_and_hide_nothing_else(seed: int, pattern: str) -> None:
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


def test_silent_sensors_are_hidden_for_the_whole_window_but_never_all() -> None:
    hidden = silent_sensors(np.random.default_rng(0), np.ones((300, 5, 96), np.bool_))
    rows = hidden.any(axis=-1)
    assert (hidden.all(axis=-1) == rows).all()
    assert set(rows.sum(axis=-1)) == {1, 2, 3}


@given(seed=st.integers(0, 1000), width=st.integers(2, 96), variables=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_single_steps_are_isolated_and_the_same_for_all_hidden_sensors(seed: int, width: int, variables: int) -> None:
    hidden = single_cells(np.random.default_rng(seed), np.ones((8, variables, width), np.bool_))
    steps = hidden.any(axis=1)
    assert (steps.sum(axis=1) >= 1).all()
    assert (steps.sum(axis=1) <= max(1, min(8, width // 3))).all()
    for window in hidden:
        rows = window[window.any(axis=1)]
        assert (rows == rows[0]).all()
        assert np.diff(np.flatnonzero(rows[0])).min(initial=3) >= 3


def test_single_steps_include_the_newest_in_half_of_the_windows() -> None:
    hidden = single_cells(np.random.default_rng(0), np.ones((3000, 5, 96), np.bool_))
    assert 0.45 < hidden[:, :, -1].any(axis=1).mean() < 0.6
    assert hidden.any(axis=(0, 1)).all()
    sensors = hidden.any(axis=2).sum(axis=1)
    assert 0.3 < (sensors == 1).mean() < 0.37
    assert 0.3 < (sensors == 5).mean() < 0.37


@given(seed=st.integers(0, 1000), width=st.integers(3, 96))
@settings(max_examples=30, deadline=None)
def test_a_blackout_hides_the_whole_group_and_ends_inside_the_window(seed: int, width: int) -> None:
    hidden = blackout_cells(np.random.default_rng(seed), np.ones((8, 4, width), np.bool_))
    assert (hidden == hidden[:, :1]).all()
    for row in hidden[:, 0]:
        assert len(segments_of(row)) == 1
        assert 1 <= row.sum() <= 48
        assert not row[0]
        assert not row[-1]


def test_correlated_outages_hide_sets_that_failed_together() -> None:
    sets = np.array([[True, False, True, False, False], [False, True, False, False, True]])
    hidden = correlated_cells(np.random.default_rng(0), np.ones((400, 5, 96), np.bool_), sets)
    rows = hidden.any(axis=2)
    assert {tuple(row) for row in rows.tolist()} == {tuple(row) for row in sets.tolist()}
    assert 0.45 < hidden[:, :, -1].any(axis=1).mean() < 0.65
    for window, out in zip(hidden, rows, strict=True):
        assert (window[out] == window[out][0]).all()
        assert len(segments_of(window[out][0])) == 1


def test_without_known_sets_adjacent_sensors_fail_together() -> None:
    hidden = correlated_cells(np.random.default_rng(0), ALL, np.zeros((0, 5), np.bool_))
    for row in hidden.any(axis=2):
        assert len(segments_of(row)) == 1
        assert 2 <= row.sum() <= 4


def test_real_outages_are_replayed_on_other_windows() -> None:
    known = np.ones((1, 5, 400), np.bool_)
    known[0, 1:3, 100:110] = False
    masks = MaskSpec("replay").fitted(known, 96)
    hidden = masks.sample(np.random.default_rng(0), ALL)
    for window in hidden:
        assert set(np.flatnonzero(window.any(axis=1))) <= {1, 2}
        assert 1 <= window[1].sum() <= 10
        assert len(segments_of(window[1])) == 1
    assert not replay_cells(np.random.default_rng(0), ALL, np.zeros((0, 5, 96), np.bool_)).any()


def test_without_a_training_part_gaps_of_the_batch_are_replayed_within_it() -> None:
    observed = ALL.copy()
    observed[0, 3, 40:45] = False
    hidden = MaskSpec("replay").sample(np.random.default_rng(1), observed)
    like_the_first = (hidden[1:].any(axis=2) == (np.arange(5) == 3)).all(axis=1)
    assert like_the_first.any()
    assert hidden.any(axis=(1, 2)).all()  # the window that has the only template gets another gap


@pytest.mark.parametrize(("sensor", "lag", "expected"), [(2, 0, 8), (None, 0, 40), (1, 3, 8)])
def test_an_edge_gap_is_one_step(sensor: int | None, lag: int, expected: int) -> None:
    hidden = edge_cells(ALL, sensor, lag)
    assert hidden.sum() == expected
    assert hidden[:, :, 95 - lag].sum() == expected


@pytest.mark.parametrize("pattern", PATTERNS)
@given(seed=st.integers(0, 10_000), gaps=st.floats(0, 1))
@settings(max_examples=15, deadline=None)
def test_real_gaps_are_never_hidden_and_masks_depend_on_the_seed_only(pattern: str, seed: int, gaps: float) -> None:
    observed = np.random.default_rng(seed).random((6, 4, 96)) >= gaps
    spec = MaskSpec(pattern, rates=(0.05, 0.7))
    first = spec.sample(np.random.default_rng(seed), observed)
    assert not (first & ~observed).any()
    assert np.array_equal(first, spec.sample(np.random.default_rng(seed), observed))


def test_the_deployment_mixture_has_every_pattern() -> None:
    spec = MaskSpec("deployment", rates=(0.1, 0.5))
    hidden = spec.sample(np.random.default_rng(0), np.ones((600, 6, 96), np.bool_))
    newest = hidden[:, :, -1]
    assert 0.10 < newest.all(axis=1).mean() < 0.30  # tails of the whole group
    assert 0.04 < hidden.all(axis=2).any(axis=1).mean() < 0.14  # silent sensors
    assert hidden.any(axis=(1, 2)).mean() > 0.99
    assert spec.names == list(DEPLOYMENT_WEIGHTS)
    assert set(spec.names) == set(PATTERNS[:-1])


def test_default_rates_are_fixed_for_the_papers_patterns_and_a_range_for_deployment() -> None:
    assert MaskSpec("block").rate_bounds == (0.3, 0.3)
    assert MaskSpec("deployment").rate_bounds == (0.05, 0.6)
    assert MaskSpec("deployment", rates=(0.2, 0.4)).rate_bounds == (0.2, 0.4)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"pattern": "blocks"}, "found 'blocks'"),
        ({"rates": (0.5, 0.2)}, "0 < low <= high"),
        ({"weights": {"blok": 1.0}}, "blok"),
        ({"tail_steps": (0, 4)}, "tail_steps"),
    ],
)
def test_the_error_for_a_wrong_spec_states_what_was_found(settings_: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MaskSpec(**settings_)  # type: ignore[arg-type]
