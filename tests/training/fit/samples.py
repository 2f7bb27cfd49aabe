"""Two groups of three sensors, from which the forms of folds are fitted."""

import numpy as np

from training.data import GroupSeries

WINDOW, ROWS = 24, 480


def series() -> GroupSeries:
    rng = np.random.default_rng(0)
    drive = np.cumsum(rng.standard_normal((2, ROWS)), axis=1) * 0.3
    values = np.stack([drive, 2 * drive + rng.standard_normal((2, ROWS)), rng.standard_normal((2, ROWS))], axis=1)
    return GroupSeries(
        ("g", "h"), ("a", "b", "c"), ("", "", ""), 3_600_000 * np.arange(ROWS), values.astype(np.float32), 3600.0,
        "made", "0",
    )  # fmt: skip
