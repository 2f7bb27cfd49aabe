"""The blend of model and interpolation, walking forward over the windows as a stream would.

One sensor, one case, one lag is one key. At a window the weights know the errors of the windows before it and no
other: the true value of the step asked there arrived meanwhile, so it could be hidden and imputed again. A sensor that
is silent for the whole window has no errors to know, and no baseline: the model stands alone.
"""

from __future__ import annotations

import numpy as np

from glaim_stream.blend.mixture import RecentError, blend
from training.data.series import Floats
from training.edge.answers import Answers


def walk(answers: Answers, state: RecentError | None = None) -> Floats:
    """The blend's answers, float32 [W, C], standardised like what it mixes.

    Args:
        answers: Of one case, one lag and one group; steps ascend.
        state: What is known before the first window, for C keys; nothing when it is not given.
    """
    state = state or RecentError(answers.truth.shape[1])
    mixed = np.empty_like(answers.truth)
    model_error = answers.model - answers.truth
    line_error = answers.interpolation - answers.truth
    for row, step in enumerate(answers.steps.tolist()):
        mixed[row] = blend(answers.model[row], answers.interpolation[row], state.weights(step))
        state.update(step, model_error[row], line_error[row])
    return mixed
