"""Series whose sensors follow one another, with a habit of the day."""

import numpy as np

from glaim_stream.form.fit import Fitted, fit

STEP_MS = 600_000
STEPS = 24
DAY = 144  # steps
START_MS = 1_760_000_400_000


def series(rows: int = 1500, *, seed: int = 1, groups: int = 1, habit: float = 0.0) -> np.ndarray:
    """Values [groups, 3, rows]: two noisy views of a slow process, and one of its own."""
    rng = np.random.default_rng(seed)
    slow = np.zeros((groups, 2, rows))
    for step in range(1, rows):
        slow[:, :, step] = 0.95 * slow[:, :, step - 1] + rng.normal(size=(groups, 2)) * 0.3
    values = slow[:, [0, 0, 1]] + 0.1 * rng.normal(size=(groups, 3, rows))
    values += habit * np.sin(2 * np.pi * np.arange(rows) / DAY)
    return values + np.array([20.0, 50.0, -5.0])[:, None]


def fitted(values: np.ndarray, observed: np.ndarray | None = None, **options: object) -> Fitted:
    """The fit of series [g, C, N]."""
    seen = np.isfinite(values) if observed is None else observed
    names = [f"s{place}" for place in range(values.shape[1])]
    given = {"start_ms": START_MS, "step_ms": STEP_MS, "sensors": names, "steps": STEPS} | options
    return fit(values, seen, **given)  # type: ignore[arg-type]


def windows(values: np.ndarray, count: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Windows [n, C, STEPS] of the first group, and the times of their newest steps."""
    ends = np.linspace(STEPS, values.shape[2], count).astype(np.int64)
    cut = np.stack([values[0, :, end - STEPS : end] for end in ends])
    return cut, START_MS + STEP_MS * (ends - 1)
