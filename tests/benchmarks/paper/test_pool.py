"""The pool of filled windows: which form fills a window, and what a kill costs."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper.pool import Chunk, Pool
from training.closed_form import TimedFill
from training.data import Bools, Floats, MaskSpec, Scale, WindowSet, hide
from training.fit import FoldForms

WINDOW, ROWS = 12, 60
STEP_MS = 1000
EDGES = np.array([0, 20, 49])


class Marked(FoldForms):
    """Forms that fill every hole with 100 times the number of their fold, plus the hour of the window's end."""

    def fills(self, _: Scale) -> list[TimedFill]:
        def filled(fold: int) -> TimedFill:
            def fill(values: Floats, observed: Bools, end_ms: np.ndarray) -> Floats:
                answer = 100.0 * fold + end_ms[:, None, None] / STEP_MS
                return np.where(observed, values, answer).astype(np.float32)

            return fill

        return [filled(fold) for fold in range(2)]


def pool(folder: Path, seed: int = 3) -> Pool:
    values = np.random.default_rng(0).standard_normal((1, 2, ROWS)).astype(np.float32)
    values[0, 0, 30:33] = np.nan
    ones = np.ones(2)
    masks = MaskSpec("deployment", (0.1, 0.7), weights={"random": 0.5, "block": 0.5})
    return Pool(
        WindowSet(values, WINDOW), STEP_MS * np.arange(ROWS), masks.fitted(np.isfinite(values), WINDOW),
        Marked((), None, EDGES), Scale(ones, ones, ones, ones), folder, seed=seed, chunks=3, fresh=1,  # type: ignore[arg-type]
    )  # fmt: skip


def test_holes_are_filled_by_the_form_of_the_windows_fold(tmp_path: Path) -> None:
    made = pool(tmp_path)
    chunk = made.epoch(0)
    values = made.windows.take(chunk.windows)
    batch = hide(values, chunk.hidden)
    starts = made.windows.starts[chunk.windows]
    expected = 100.0 * (starts >= EDGES[1]) + starts + WINDOW - 1
    assert np.array_equal(chunk.filled[batch.observed], values[batch.observed])
    holes = ~batch.observed
    assert np.array_equal(chunk.filled[holes], np.broadcast_to(expected[:, None, None], holes.shape)[holes])
    assert (holes & ~chunk.hidden).any()  # real gaps are filled too
    assert not (chunk.hidden & ~np.isfinite(values)).any()


def test_a_killed_pool_goes_on_with_its_stored_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pool(tmp_path / "whole").epoch(2)
    original, made = Pool.make, []

    def killed(self: Pool, number: int) -> Chunk:
        made.append(number)
        if len(made) == 3:
            raise KeyboardInterrupt
        return original(self, number)

    monkeypatch.setattr(Pool, "make", killed)
    with pytest.raises(KeyboardInterrupt):
        pool(tmp_path / "cut").epoch(2)
    again = pool(tmp_path / "cut").epoch(2)
    assert made == [2, 3, 4, 4]
    for name in ("windows", "hidden", "filled"):
        assert np.array_equal(getattr(again, name), getattr(whole, name))


def test_a_damaged_chunk_is_made_again(tmp_path: Path) -> None:
    whole = pool(tmp_path).epoch(0)
    file = tmp_path / "000001.npz"
    file.write_bytes(file.read_bytes()[:100])
    assert np.array_equal(pool(tmp_path).epoch(0).filled, whole.filled)
