"""The operations whose fastest form depends on the machine, and the one switch that chooses it.

`model.py` calls these functions and layers; the formulas behind every form are equal (tested).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor, nn

from training.network.fused import DropCells, KeepLayout, SensorAttention, few_sensor_attention, many_sensor_attention


def way(tensor: Tensor, training: bool) -> str:
    """Choose how to compute with a tensor; TorchScript takes no module constants, hence the literals.

    Returns:
        `library` on a GPU: the library's operations. `cpu`: the library's operations, rearranged for a CPU, in forms
        that TorchScript and torch.compile take. `cpu_training`: own backward passes (fused.py), for eager training on
        a CPU.
    """
    if not torch.jit.is_scripting() and training and tensor.device.type == "cpu" and not torch.compiler.is_compiling():
        return "cpu_training"
    return "library" if tensor.is_cuda else "cpu"


def cell_linear(cells: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Map the features of every cell, [B, T, C, in] -> [B, T, C, out].

    On a CPU as a 1x1 convolution over channels-last memory: the same product, but by oneDNN, whose GEMM is 1.5 to 2
    times as fast as that of `F.linear` on processors that are not Intel's.
    """
    if way(cells, False) == "library":
        return F.linear(cells, weight, bias)
    images = cells.permute(0, 3, 1, 2)  # a view: NCHW over channels-last memory
    return F.conv2d(images, weight.unsqueeze(-1).unsqueeze(-1), bias).permute(0, 2, 3, 1)


class CellLinear(nn.Linear):
    """Linear map of every cell's features, [B, T, C, in] -> [B, T, C, out]."""

    def forward(self, cells: Tensor) -> Tensor:
        """[B, T, C, in] -> [B, T, C, out]."""
        return cell_linear(cells, self.weight, self.bias)


class Dropout(nn.Dropout):
    """Dropout; unchanged cells in evaluation."""

    def forward(self, cells: Tensor) -> Tensor:
        """The same shape."""
        if self.training and self.p > 0.0 and not torch.jit.is_scripting():
            dropped: Tensor = (
                DropCells.apply(cells, self.p)
                if way(cells, self.training) == "cpu_training"
                else F.dropout(cells, self.p)
            )
            return dropped
        return cells


def sensor_attention(qkv: Tensor, dropout: float, training: bool, few: int = 16, few_in_training: int = 32) -> Tensor:
    """Attend within N sequences of C sensors, [N, C, 3, H, D/H] -> [N, C, D], N = B * T.

    Measured: with more than `few` sensors, in training on a CPU `few_in_training`, products of matrices are faster.
    """
    count, variables = qkv.size(0), qkv.size(1)
    chosen = way(qkv, training)
    if not torch.jit.is_scripting() and chosen == "cpu_training":
        attended: Tensor = (
            SensorAttention.apply(qkv, dropout) if variables <= few_in_training else many_sensor_attention(qkv, dropout)
        )
        return attended
    if training or chosen == "library" or variables > few:
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each (N, H, C, D/H)
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout if training else 0.0)
        return mixed.transpose(1, 2).reshape(count, variables, -1)
    return few_sensor_attention(qkv)


def contiguous_gradient(cells: Tensor, training: bool) -> Tensor:
    """Return the cells unchanged; their gradient comes back contiguous (see `KeepLayout`), on every device."""
    if training and not torch.jit.is_scripting():
        kept: Tensor = KeepLayout.apply(cells)
        return kept
    return cells
