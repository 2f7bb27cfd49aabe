import numpy as np
import pytest

from benchmarks.paper.masks import window_mask, window_masks


def test_a_windows_mask_depends_on_its_index_and_not_on_its_batch() -> None:
    for pattern in ("random", "block"):
        many = window_masks("ETTh1", pattern, 0.3, 96, 20, 7)
        few = window_masks("ETTh1", pattern, 0.3, 96, 5, 7)
        assert np.array_equal(many[:5], few)
        assert np.array_equal(many[17], window_mask("ETTh1", pattern, 0.3, 96, 17, 7))


def test_masks_are_the_same_on_every_machine() -> None:
    # The hidden steps of the first sensor; they change only with the sampler or the seed rule.
    hidden = np.flatnonzero(window_mask("Illness", "random", 0.1, 96, 0, 7)[0])
    assert hidden.tolist() == [19, 24, 33, 43, 48, 61, 65, 71, 78, 85, 86]


def test_blocks_hide_the_exact_share_and_random_cells_about_the_share() -> None:
    block = window_masks("Illness", "block", 0.3, 96, 50, 7)
    assert (block.sum(axis=-1) == round(0.3 * 96)).all()
    assert window_masks("Illness", "random", 0.3, 96, 50, 7).mean() == pytest.approx(0.3, abs=0.01)


def test_fewer_segments_make_longer_gaps() -> None:
    def segments(low: int, high: int) -> float:
        hidden = window_masks("Illness", "block", 0.3, 96, 30, 7, (low, high))
        return float((np.diff(hidden.astype(np.int8), axis=-1, prepend=0) == 1).sum(axis=-1).mean())

    assert 2 <= segments(2, 3) < 4 < segments(2, 16)
