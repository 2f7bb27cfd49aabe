"""Each fused function against the same formula in library operations, forward and backward."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from training.network import fused
from training.network.fused import DropCells, KeepLayout, SensorAttention, many_sensor_attention

Attention = Callable[[Tensor, float], Tensor]
gradcheck = torch.autograd.gradcheck
each_attention = pytest.mark.parametrize(
    "attention", [SensorAttention.apply, many_sensor_attention], ids=["few", "many"]
)


def doubles(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make several chunks, the last of them shorter."""
    monkeypatch.setattr(fused, "_SEQUENCES", 3)


def seeded(function: Attention, cells: Tensor, p: float) -> Tensor:
    """Call with the same dropout each time, which numerical gradients need."""
    torch.manual_seed(7)
    return function(cells, p)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_a_mask_drops_its_share_of_cells(p: float) -> None:
    torch.manual_seed(0)
    mask = fused.drawn(torch.Size([333, 333]), p)
    assert mask.dtype == torch.uint8
    assert set(mask.unique().tolist()) == {0, 1}
    share, deviation = 1 - mask.float().mean().item(), math.sqrt(p * (1 - p)) / 333
    assert abs(share - p) < 4 * deviation
    # One draw gives four cells, which must be independent.
    neighbours = mask[:, :-1].float() * mask[:, 1:].float()
    assert abs(neighbours.mean().item() - (1 - p) ** 2) < 4 * deviation


def test_dropout_keeps_the_expectation_and_the_gradient_drops_the_same_cells() -> None:
    torch.manual_seed(0)
    cells = torch.ones(200, 200, requires_grad=True)
    dropped = DropCells.apply(cells, 0.25)
    assert sorted(dropped.unique().tolist()) == pytest.approx([0, 4 / 3])
    assert abs(dropped.mean().item() - 1) < 0.02
    dropped.sum().backward()
    assert cells.grad is not None
    assert torch.equal(cells.grad, dropped.detach())


def test_keep_layout_returns_its_input_and_a_contiguous_gradient() -> None:
    cells = torch.randn(3, 4, 5, requires_grad=True)
    strides = []
    cells.register_hook(lambda gradient: strides.append(gradient.stride()))
    kept = KeepLayout.apply(cells)
    assert torch.equal(kept, cells)
    weight = torch.randn(5, 4, 3)
    (kept.permute(2, 1, 0) * weight).sum().backward()
    assert cells.grad is not None
    assert torch.equal(cells.grad, weight.permute(2, 1, 0))
    assert strides == [(20, 5, 1)]


def plain_attention(qkv: Tensor) -> Tensor:
    query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # (N, H, C, D/H)
    scores = query @ key.transpose(2, 3) / math.sqrt(query.size(-1))
    return (torch.softmax(scores, -1) @ value).transpose(1, 2).flatten(2)


@each_attention
@pytest.mark.usefixtures("_small_chunks")
def test_attention_equals_the_plain_formula(attention: Attention) -> None:
    torch.manual_seed(0)
    qkv = doubles(8, 5, 3, 2, 4)
    torch.testing.assert_close(attention(qkv, 0.0), plain_attention(qkv))


@each_attention
@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize("p", [0.0, 0.4])
def test_the_gradients_of_attention_are_exact(attention: Attention, p: float) -> None:
    torch.manual_seed(0)
    assert gradcheck(lambda qkv: seeded(attention, qkv, p), (doubles(4, 3, 3, 2, 2),))


@each_attention
def test_dropout_inside_attention_applies_to_its_weights(attention: Attention) -> None:
    torch.manual_seed(0)
    qkv = torch.zeros(500, 4, 3, 2, 3)  # every weight is 1/4
    qkv[:, :, 2] = 1.0
    out = attention(qkv, 0.5)
    assert set(out.unique().tolist()) <= {0.0, 0.5, 1.0, 1.5, 2.0}
    assert abs(out.mean().item() - 1) < 0.05
    assert torch.equal(out[..., 0], out[..., 2])  # one weight for all features of a head


@pytest.mark.parametrize(
    "function", [SensorAttention.apply, many_sensor_attention, DropCells.apply], ids=["few", "many", "cells"]
)
def test_autocast_keeps_bfloat16_and_is_close_to_exact_values_and_gradients(function: Attention) -> None:
    torch.manual_seed(0)
    qkv = torch.randn(40, 5, 3, 2, 8)
    results = []
    for dtype in (torch.bfloat16, torch.float32):
        leaf = qkv.to(dtype).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            out = seeded(function, leaf, 0.3)
        assert out.dtype == dtype
        out.float().square().mean().backward()
        assert leaf.grad is not None
        assert leaf.grad.dtype == dtype
        results.append((out, leaf.grad))
    (rough, rough_gradient), (exact, gradient) = results
    assert (rough - exact).norm() < 0.01 * exact.norm()
    assert (rough_gradient - gradient).norm() < 0.02 * gradient.norm()
