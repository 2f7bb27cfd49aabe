"""The GLAIM network and its fast kernels.

`build_network` makes one from sizes for training, scoring, export and the benchmarks.
"""

from training.network.build import build_network
from training.network.cascade import REACHES, Cascade, reach_classes
from training.network.model import GLAIM, StaGlo, count_parameters
from training.network.own_form import LoadedForm, OwnForm
from training.network.sizes import GLAIMConfig

__all__ = [
    "GLAIM",
    "REACHES",
    "Cascade",
    "GLAIMConfig",
    "LoadedForm",
    "OwnForm",
    "StaGlo",
    "build_network",
    "count_parameters",
    "reach_classes",
]
