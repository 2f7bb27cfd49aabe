"""Parts of the network in the form that is fastest on a CPU; `kernels.py` decides when they are used.

`few_sensor_attention` evaluates; the others are functions with their own backward passes, for training. They compute
the same formulas as the library's operations in less time. Numbers are of one thread of an AMD EPYC (Zen 4), 7 sensors,
64 features, batch 16.

Tried and dropped, because each gained less than 3 % of an iteration: the feed-forward in chunks of cells that stay in
the cache (47 ms, 45 ms by the library: its products are most of it), `F.linear` for the products in training (equal
here to convolutions over channels-last memory), and their weights' gradients by `torch.mm` (some 4 ms of 360).
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_SEQUENCES = 128  # in a chunk: queries, keys and values of 7 sensors and 64 features, 0.7 MB, then fit an L2 cache


def few_sensor_attention(qkv: Tensor) -> Tensor:
    """Attention within many short sequences, for evaluation: [N, C, 3, H, D/H] -> [N, C, D].

    A dozen sensors make matrices so small that a CPU spends its time between them. With N last every product runs over
    contiguous memory: half the time of `scaled_dot_product_attention`, the same numbers. TorchScript compiles it.
    """
    count, variables = qkv.size(0), qkv.size(1)
    query, key, value = qkv.permute(2, 1, 3, 4, 0).contiguous().unbind(0)  # each (C, H, D/H, N)
    query = query / math.sqrt(query.size(2))
    scores = [(query * key[other : other + 1]).sum(dim=2) for other in range(variables)]
    weights = torch.softmax(torch.stack(scores), dim=0).unsqueeze(3)  # (C keys, C queries, H, 1, N)
    mixed = weights[0] * value[0:1]
    for other in range(1, variables):
        mixed = torch.addcmul(mixed, weights[other], value[other : other + 1])
    return mixed.permute(3, 0, 1, 2).reshape(count, variables, -1)


def drawn(shape: torch.Size, p: float) -> Tensor:
    """Draw a dropout mask: uint8, 0 with probability p, else 1.

    On a CPU the library draws one double from a serial generator for each cell, a fifth of a training iteration. Here
    every 64-bit draw decides four cells by its four 16-bit quarters, so p is exact to 1/65536. The draws come from
    numpy's SFC64, twice as fast as the library's Mersenne Twister. The latter seeds SFC64 anew for every mask, so its
    state is the only random state, and a resumed run draws the same masks. Bytes instead of booleans, because booleans
    take 7 times as long to convert to floats; a selection by booleans takes even longer.
    """
    count = shape.numel()
    seed = int(torch.empty((), dtype=torch.int64).random_())
    draws = torch.from_numpy(np.random.SFC64(seed).random_raw((count + 3) // 4).view(np.int16))
    return draws[:count].ge_(round(p * 65536) - 32768).to(torch.uint8).view(shape)


def _dropped(cells: Tensor, kept: Tensor, scale: float) -> Tensor:
    """Multiply the cells by their mask and the scale in one pass."""
    mask = kept.to(cells.dtype)
    return torch.addcmul(cells.new_zeros(()), cells, mask, value=scale, out=mask)


class KeepLayout(torch.autograd.Function):
    """Identity with a contiguous gradient.

    After a product over another axis order the gradient arrives in that order, and every operation upstream of it
    would read memory in strides: measured at 2.5 times the time of a contiguous pass.
    """

    @staticmethod
    def forward(_: object, cells: Tensor) -> Tensor:
        """Any tensor, unchanged."""
        return cells.view_as(cells)

    @staticmethod
    def backward(_: object, gradient: Tensor) -> Tensor:
        """The same numbers, contiguous."""
        return gradient.contiguous()


class DropCells(torch.autograd.Function):
    """Dropout that remembers one byte a cell."""

    @staticmethod
    def forward(context: Any, cells: Tensor, p: float) -> Tensor:
        """Apply a new mask and scale the kept cells by 1 / (1 - p)."""
        kept = drawn(cells.shape, p)
        context.save_for_backward(kept)
        context.scale = 1.0 / (1.0 - p)
        return _dropped(cells, kept, context.scale)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator] # torch's own annotation lacks it
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Apply the same mask and scale."""
        (kept,) = context.saved_tensors
        return _dropped(gradient, kept, context.scale), None


def many_sensor_attention(qkv: Tensor, p: float) -> Tensor:
    """Attention within many sequences of dozens of sensors, with dropout of weights: [N, C, 3, H, D/H] -> [N, C, D].

    The library's `scaled_dot_product_attention` with dropout looks on a CPU for rows that are hidden altogether, draws
    its mask by a slow generator, and goes through all sequences at once, so no product finds its weights in the cache.
    Forward and backward 562 ms a layer with 64 sensors where the library takes 1,458 and `SensorAttention` 1,044; with
    40 sensors 279, 689 and 319, with 28 209, 412 and 178 (16 windows of 96 steps, 64 features).
    """
    attended = []
    for chunk in qkv.split(_SEQUENCES):
        query, key, value = chunk.permute(2, 0, 3, 1, 4).unbind(0)  # each (N, H, C, D/H)
        weights = torch.softmax(query / math.sqrt(query.size(-1)) @ key.transpose(-1, -2), dim=-1)
        mixed = (DropCells.apply(weights, p) if p > 0.0 else weights) @ value
        attended.append(mixed.transpose(1, 2).flatten(2))
    return torch.cat(attended)


class SensorAttention(torch.autograd.Function):
    """Attention within many short sequences, with dropout on its weights: [N, C, 3, H, D/H] -> [N, C, D].

    A dozen sensors make matrices so small that the overhead of batched products and of a softmax over seven numbers
    dominates. With N last, every operation runs over contiguous memory; products of matrices become sums over the
    few features of a head, or over the few sensors. Forward and backward 21 ms a layer where the library's
    `scaled_dot_product_attention` takes 53; with 21 sensors 111 and 132 ms.
    """

    @staticmethod
    def forward(context: Any, qkv: Tensor, p: float) -> Tensor:
        """Attend within N sequences of C tokens; `qkv` holds queries, keys and values."""
        count, variables, _, heads, size = qkv.shape
        rows = qkv.reshape(count, -1)
        out = rows.new_empty(count, variables * heads * size)
        context.p, context.shape = p, qkv.shape
        saved = []
        for part in _parts(count):
            turned = _turned(rows[part])
            query, key, value = _three(turned, context.shape)
            n = query.size(-1)
            weights = torch.softmax(_over_features(query, key) / math.sqrt(size), dim=0)
            saved += [turned, weights]
            if p > 0.0:
                saved.append(drawn(weights.shape, p))
                weights = weights * saved[-1].to(weights.dtype).mul_(1.0 / (1.0 - p))
            mixed = torch.zeros(variables, heads, size, n, dtype=weights.dtype).permute(2, 0, 1, 3)
            for other in range(variables):
                mixed.addcmul_(weights[other].unsqueeze(0), value[:, other : other + 1])
            out[part] = mixed.permute(1, 2, 0, 3).reshape(-1, n).t()
        context.save_for_backward(*saved)
        return out.view(count, variables, heads * size)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of queries, keys and values."""
        saved = context.saved_tensors
        count, variables, _, heads, size = context.shape
        gradient = gradient.reshape(count, -1)
        to_rows = gradient.new_empty(count, variables * 3 * heads * size)
        each = 3 if context.p > 0.0 else 2
        for index, part in enumerate(_parts(count)):
            query, key, value = _three(saved[each * index], context.shape)
            n = query.size(-1)
            above = _turned(gradient[part]).view(variables, heads, size, n).permute(2, 0, 1, 3)
            weights = saved[each * index + 1]
            dropped, to_weights = weights, _over_features(above, value)
            if context.p > 0.0:
                kept = saved[each * index + 2].to(weights.dtype).mul_(1.0 / (1.0 - context.p))
                dropped = weights * kept
                to_weights.mul_(kept)
            to_weights.mul_(weights)
            to_scores = to_weights.addcmul_(weights, to_weights.sum(dim=0, keepdim=True), value=-1.0)
            to_scores.mul_(1.0 / math.sqrt(size))
            turned = torch.zeros(variables, 3, heads, size, n, dtype=weights.dtype)
            to_query, to_key, to_value = turned.permute(1, 3, 0, 2, 4).unbind(0)
            for one in range(variables):
                to_query.addcmul_(to_scores[one].unsqueeze(0), key[:, one : one + 1])
                to_key.addcmul_(to_scores[:, one].unsqueeze(0), query[:, one : one + 1])
                to_value.addcmul_(dropped[:, one].unsqueeze(0), above[:, one : one + 1])
            to_rows[part] = turned.view(-1, n).t()
        return to_rows.view(context.shape), None


def _over_features(of_queries: Tensor, of_keys: Tensor) -> Tensor:
    """Sum products over the features, two tensors [D/H, C, H, n] -> [C keys, C queries, H, n]."""
    total = of_keys[0].unsqueeze(1) * of_queries[0].unsqueeze(0)
    for one, other in zip(of_keys[1:], of_queries[1:], strict=True):
        total.addcmul_(one.unsqueeze(1), other.unsqueeze(0))
    return total


def _turned(rows: Tensor) -> Tensor:
    """Transpose rows [n, k] -> [k, n], contiguous, at least float32 (see `_wide`)."""
    return _wide(rows).t().contiguous()


def _three(turned: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor, Tensor]:
    """[C * 3 * D, n] -> queries, keys, values, each [D/H, C, H, n], contiguous along n."""
    _, variables, three, heads, size = shape
    query, key, value = turned.view(variables, three, heads, size, -1).permute(1, 3, 0, 2, 4).unbind(0)
    return query, key, value


def _wide(tensor: Tensor) -> Tensor:
    """Convert to float32 or wider: element by element bfloat16 is slower on a CPU, and its sums lose digits."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _parts(count: int) -> Iterator[slice]:
    return (slice(begin, min(begin + _SEQUENCES, count)) for begin in range(0, count, _SEQUENCES))
