"""From a trained network to a version that Triton serves: the parts of `training.export`."""

from training.serve.check import check_answers
from training.serve.repository import placed, put, write_manifest
from training.serve.residuals import residual_quantiles
from training.serve.served import script, served_model
from training.serve.triton_config import libtorch_config, libtorch_cpu_config, python_config, write_warmup
from training.serve.verdict import FEW_WINDOWS, compare, judge

__all__ = [
    "FEW_WINDOWS",
    "check_answers",
    "compare",
    "judge",
    "libtorch_config",
    "libtorch_cpu_config",
    "placed",
    "put",
    "python_config",
    "residual_quantiles",
    "script",
    "served_model",
    "write_manifest",
    "write_warmup",
]
