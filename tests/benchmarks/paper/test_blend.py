"""The blend: reach of a cell, and weights that follow the better answer in each class of reach."""

import numpy as np
import pytest
import torch

from benchmarks.paper.blend import ANSWERS, Blend, classes_of, fit_blend
from training.data import WindowBatch
from training.network import GLAIM, GLAIMConfig, build_network

STEPS = 24


def network() -> GLAIM:
    torch.manual_seed(0)
    return build_network(
        GLAIMConfig(2, window=STEPS, d_model=8, layers=1, ffn=8, heads=2, d_psi=8, d_g=2, large_kernel=7, cascade=True)
    ).eval()


def test_reach_counts_steps_to_the_nearest_observation_of_the_row() -> None:
    observed = np.ones((1, 1, STEPS), np.bool_)
    observed[0, 0, 2] = False  # alone
    observed[0, 0, 4:24] = False  # up to the newest step: reaches 1 to 20
    expected = np.zeros(STEPS, np.int64)
    expected[5:7], expected[7:12], expected[12:] = 1, 2, 3
    assert np.array_equal(classes_of(observed)[0, 0], expected)
    assert (classes_of(np.zeros((1, 1, STEPS), np.bool_)) == 3).all()


def batch(*, form_error: float, prior_error: float) -> WindowBatch:
    """Constant windows, whose prior is exact but for `prior_error`, which bends the truth at the holes away from it."""
    rng = np.random.default_rng(0)
    truth = np.full((40, 2, STEPS), 5.0, np.float32)
    observed = rng.random(truth.shape) > 0.3
    observed[:, :, 8:20] = False
    bent = np.where(observed, truth, truth + prior_error * rng.standard_normal(truth.shape)).astype(np.float32)
    filled = np.where(observed, bent, bent + form_error * rng.standard_normal(truth.shape)).astype(np.float32)
    return WindowBatch(filled, observed, bent, ~observed)


@pytest.mark.parametrize(("form", "prior"), [(0.1, 3.0), (3.0, 0.0)])
def test_the_better_answer_has_the_weight(form: float, prior: float) -> None:
    """Untrained, `network` is the form and `without_form` the prior."""
    found, _ = fit_blend(network(), [batch(form_error=form, prior_error=prior)])
    for of_class in zip(*(found.weights[name] for name in ANSWERS), strict=True):
        assert sum(of_class) == pytest.approx(1.0)
        assert min(of_class) >= 0.0
    long_gaps = {name: found.weights[name][2] for name in ANSWERS}
    if form < prior:
        assert long_gaps["without_form"] < 0.1
    else:
        assert long_gaps["without_form"] > 0.5


def test_the_error_is_the_mean_logarithm_of_the_windows_errors() -> None:
    made = batch(form_error=0.3, prior_error=1.0)
    made.hidden[3:5] = False  # windows in which nothing is hidden count for nothing
    found, error = fit_blend(network(), [made])
    answer = found.answers(network(), made.values, made.observed)["blend"]
    rows = [row for row in range(len(answer)) if made.hidden[row].any()]
    logs = [np.log(np.mean(np.square(answer[row] - made.truth[row])[made.hidden[row]])) for row in rows]
    assert len(rows) == 38
    assert error == pytest.approx(np.mean(logs), rel=1e-5)


def test_observed_cells_pass_through_to_the_bit() -> None:
    made = batch(form_error=1.0, prior_error=1.0)
    third = (1 / 3,) * 4
    answer = Blend(dict.fromkeys(ANSWERS, third)).answers(network(), made.values, made.observed)["blend"]
    assert np.array_equal(answer[made.observed], made.values[made.observed])
    assert answer.dtype == np.float32
