"""Shares of the correction: each sensor and reach keeps what validation gains by, and the network answers with them."""

import numpy as np
import pytest
import torch

from training.data import WindowBatch
from training.fit.shares import choose_shares
from training.network import Cascade, GLAIMConfig, build_network

SENSORS, STEPS = 4, 24


class Stated(Cascade):
    """A network whose correction of the last three sensors is 1 in every cell, and 0 of the first."""

    def forward(
        self, values: torch.Tensor, observed: torch.Tensor, emitted: int = 0, moved: torch.Tensor | None = None
    ) -> torch.Tensor:
        correction = torch.ones_like(values)
        correction[:, 0] = 0.0
        return torch.where(observed, values, values + correction)


def network(kind: type[Cascade] = Cascade) -> Cascade:
    torch.manual_seed(0)
    made = build_network(
        GLAIMConfig(
            SENSORS, window=STEPS, d_model=8, layers=1, ffn=8, heads=2, d_psi=8, d_g=2, large_kernel=7, cascade=True
        )
    ).eval()
    made.__class__ = kind
    assert isinstance(made, Cascade)
    return made


def windows(count: int, *, near: float, far: float) -> WindowBatch:
    """Windows filled with 0, whose truth is 0, `near` in lone cells and `far` in gaps, a half, and noise by sensor."""
    rng = np.random.default_rng(1)
    observed = np.ones((count, SENSORS, STEPS), np.bool_)
    observed[:, :, [3, 6]] = False
    observed[:, :, 10:22] = False
    truth = np.zeros(observed.shape, np.float32)
    truth[:, 1, [3, 6]], truth[:, 1, 10:22] = near, far
    truth[:, 2] = 0.5
    truth[:, 3] = -1
    truth += 0.01 * rng.standard_normal(truth.shape).astype(np.float32)
    return WindowBatch(np.where(observed, truth, 0).astype(np.float32), observed, truth, ~observed)


def test_what_does_not_gain_is_not_kept_and_half_a_gain_is_kept_by_half() -> None:
    shares = choose_shares(network(Stated), [windows(300, near=0.0, far=1.0)])
    assert shares.shape == (SENSORS, 4)
    assert shares[1, 0] < 0.5  # its lone cells and the ends of its gaps
    np.testing.assert_allclose(shares[1, 2], 1.0, atol=0.02)
    assert shares[1, 0] < shares[1, 3] < 1  # no cell is farther than 8 steps: that of the whole sensor
    np.testing.assert_allclose(shares[2], 0.5, atol=0.02)
    np.testing.assert_allclose(shares[3], 0.0, atol=0.02)


def test_few_cells_of_a_class_share_with_their_sensor_and_of_a_sensor_keep_all() -> None:
    few = choose_shares(network(Stated), [windows(30, near=0.0, far=1.0)])
    assert few[1, 0] == few[1, 1]  # 120 and 120 cells of 420
    assert (choose_shares(network(Stated), [windows(3, near=0.0, far=0.0)]) == 1).all()
    assert (choose_shares(network(Stated), []) == 1).all()


def test_a_window_with_huge_errors_counts_like_any_other() -> None:
    usual, huge = windows(300, near=1.0, far=1.0), windows(1, near=-1e4, far=-1e4)
    both = [usual, huge]
    np.testing.assert_allclose(choose_shares(network(Stated), both)[1], 1.0, atol=0.05)


def test_the_network_answers_with_its_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    made, batch = network(), windows(5, near=0.0, far=1.0)
    torch.nn.init.normal_(made.gaterecon.correction.out.bias)
    values, observed = torch.from_numpy(batch.values), torch.from_numpy(batch.observed)
    with torch.no_grad():
        whole = made(values, observed) - values
        assert bool((whole[~observed] != 0).all())
        made.share[:, 0], made.share[:, 3] = 0.5, 0.0
        kept = made(values, observed) - values
        newest = made(values, observed, 5) - values[:, :, -5:]
    torch.testing.assert_close(kept[:, :, [3, 6, 10, 21]], 0.5 * whole[:, :, [3, 6, 10, 21]])
    torch.testing.assert_close(kept[:, :, 12:14], whole[:, :, 12:14])
    torch.testing.assert_close(newest, kept[:, :, -5:])
