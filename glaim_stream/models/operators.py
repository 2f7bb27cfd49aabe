"""The operators that a model's TorchScript may use: they compute with tensors and reach no file, process or network."""

from __future__ import annotations

from typing import Final


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


# Operators that the exports of training.network use, in every variant; a test compares.
GLAIM: Final = _aten("""
    __and__ __derive_index __isnot__ __not__ __or__ __range_length add addcmul append arange bmm cat
    cholesky_inverse cholesky_solve chunk clamp contiguous conv2d cummax cummin div einsum eq expand eye flatten
    flip floordiv full_like gather ge gelu gt index_copy index_select isfinite layer_norm le len lerp
    linalg_cholesky_ex linear logical_and logical_not lt matmul max maximum minimum mul neg ones_like pad permute
    reshape scaled_dot_product_attention scatter select sigmoid size slice softmax sqrt square squeeze stack sub sum
    tanh tensor to topk transpose unbind unsqueeze view where zeros_like
    """) | {"prim::device", "prim::dtype", "prim::is_cuda", "prim::max", "prim::min"}

# Further operators of exports of earlier versions; their models can still be loaded.
EARLIER: Final = _aten("dropout dropout_ format") | {"prim::RaiseException"}

# Operators for arithmetic, shapes and layers of other small networks.
COMMON: Final = _aten("""
    Bool Float FloatImplicit Int IntImplicit ScalarImplicit __getitem__ __is__ abs all amax amin any avg_pool1d
    batch_norm bitwise_and bitwise_not bitwise_or clamp_max clamp_min clone conv1d copy cos cumprod cumsum detach dim
    elu erf exp expand_as floor floor_divide fmod full group_norm gru hardtanh instance_norm isinf isnan leaky_relu log
    log1p log_softmax logical_or lstm masked_fill max_pool1d mean min movedim mv nan_to_num narrow ne norm numel ones
    outer pow reciprocal relu remainder repeat repeat_interleave roll round rsqrt rsub sign silu sin softplus split std
    swapaxes t tile tril triu type_as unfold var view_as zeros
    """) | {"prim::NumToTensor"}

ALLOWED: Final = GLAIM | EARLIER | COMMON
