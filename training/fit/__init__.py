"""The training run behind `python -m training.fit`.

`deploy.demo.plant_model` calls `main`; `benchmarks.paper` trains its cells with `train_network` and the folds' forms.
"""

from training.fit.command import main
from training.fit.fold_windows import WITHOUT_FORM
from training.fit.folds import FoldForms, fit_folds
from training.fit.logs import log_header
from training.fit.loop import ended, hidden_loss, train_network

__all__ = [
    "WITHOUT_FORM",
    "FoldForms",
    "ended",
    "fit_folds",
    "hidden_loss",
    "log_header",
    "main",
    "train_network",
]
