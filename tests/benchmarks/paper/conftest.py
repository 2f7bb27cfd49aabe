"""A tiny data set in the benchmark's list, in a temporary GLAIM_DATA folder."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import score
from benchmarks.paper.datasets import DATASETS, Dataset

ROWS = 268  # 20 more than are used
TINY = Dataset("Tiny", "tiny.csv", 3, (160, 40, 48), time="time")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for a benchmark's runs and results, with the data in a subfolder."""
    data = tmp_path / "data"
    data.mkdir()
    rng = np.random.default_rng(0)
    drive = np.sin(np.arange(ROWS) / 9) + 0.1 * rng.standard_normal(ROWS)
    cells = np.stack([drive, 2 * drive + 5, rng.standard_normal(ROWS)], axis=1)
    stamps = np.datetime64("2026-01-01T00:00") + np.arange(ROWS)
    rows = [f"{stamp},{a:.4f},{b:.4f},{c:.4f}" for stamp, (a, b, c) in zip(stamps, cells, strict=True)]
    (data / "tiny.csv").write_text("\n".join(["time,a,b,c", *rows]) + "\n")
    monkeypatch.setenv("GLAIM_DATA", str(data))
    monkeypatch.setitem(DATASETS, "Tiny", TINY)
    caches = (score.parts, score.windows_of, score.baselines)
    for cached in caches:
        cached.cache_clear()
    yield tmp_path
    for cached in caches:
        cached.cache_clear()
