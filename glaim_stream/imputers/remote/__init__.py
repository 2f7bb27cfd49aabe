"""The imputer that asks NVIDIA Triton, and the way to its server."""

from glaim_stream.imputers.remote.access import triton_access
from glaim_stream.imputers.remote.triton import TritonImputer

__all__ = [
    "TritonImputer",
    "triton_access",
]
