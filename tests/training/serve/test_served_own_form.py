"""A served network with a closed form of its own answers as the trained one, also for a silent sensor."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.training.network.test_own_form import SENSORS, SIZES, WINDOW, series, windows
from training import closed_form
from training.data import Scale, fit_scale
from training.errors import ExportError
from training.fit import fold_windows
from training.network import GLAIM, build_network
from training.serve.check import check_answers
from training.serve.served import ServedModel, script, served_model

STEPS = 5


@pytest.fixture(scope="module")
def scale() -> Scale:
    return fit_scale(series())


@pytest.fixture(scope="module")
def network(scale: Scale) -> GLAIM:
    """It changes what its form says, so that both parts are compared."""
    torch.manual_seed(3)
    made = build_network(SIZES)
    form = closed_form.fit(series(), WINDOW, only_numbers=True, only_plain=True).form
    made.form.load_state_dict(fold_windows.own_form(form, scale).state_dict())
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return made.eval()


@pytest.fixture
def given(scale: Scale) -> tuple[Tensor, Tensor]:
    """Windows, standardised, in each of which a sensor is silent."""
    values, observed = (torch.from_numpy(each) for each in windows(scale))
    observed[:, :, 2:8] = True
    for row in range(len(observed)):
        observed[row, row % SENSORS] = False
    return values, observed


def in_units(values: Tensor, scale: Scale) -> Tensor:
    mean, std = (torch.from_numpy(np.asarray(each, np.float32))[:, None] for each in (scale.mean, scale.std))
    return values * std + mean


@torch.no_grad()
def test_a_silent_sensor_has_the_level_that_the_others_tell(
    network: GLAIM, scale: Scale, given: tuple[Tensor, Tensor]
) -> None:
    values, observed = given
    scripted = script(served_model(network, scale, STEPS))
    expected = in_units(network(values, observed, STEPS), scale)
    std = torch.from_numpy(scale.std).float()[:, None]
    for _ in range(3):
        found = scripted(in_units(values, scale), observed)
        torch.testing.assert_close(found / std, expected / std, atol=1e-3, rtol=0)
    level = in_units(torch.zeros_like(values), scale)[:, :, -STEPS:]
    silent = observed.logical_not().all(dim=2)
    assert ((expected - level) / std)[silent].abs().mean() > 0.3, "the others say more than the training mean"


@torch.no_grad()
def test_a_row_that_is_sent_less_its_newest_observation_says_nothing_of_the_silent_ones(
    network: GLAIM, scale: Scale, given: tuple[Tensor, Tensor]
) -> None:
    """Its own cells are filled as before, around the centre."""
    values, observed = given[0][:1].repeat(2, 1, 1), given[1][:1].clone()
    observed[0, 0], observed[0, 1], observed[0, 2] = False, True, True
    observed[0, 2, -3:-1] = False
    observed = observed.repeat(2, 1, 1)
    units = in_units(values, scale)
    centre = units[1, 1, -1].clone()
    units[1, 1] -= centre
    served = served_model(network, scale, STEPS)
    moved = torch.tensor([[False, False, False], [False, True, False]])
    expected = in_units(network(values, observed, STEPS, moved), scale)
    found = served(units, observed)
    found[1, 1] += centre
    std = torch.from_numpy(scale.std).float()[:, None]
    torch.testing.assert_close(found / std, expected / std, atol=2e-3, rtol=0)
    assert (found[0, 0] - found[1, 0]).abs().mean() / std[0] > 0.01, "the level of the second sensor tells of the first"


def test_a_served_module_that_loses_the_levels_is_not_written(network: GLAIM, scale: Scale) -> None:
    lossy = ServedModel(network, torch.from_numpy(scale.mean), torch.from_numpy(scale.std), STEPS).eval()
    with pytest.raises(ExportError, match="served and trained network differ by"):
        check_answers(lossy, script(lossy), scale, WINDOW)
    served = served_model(network, scale, STEPS)
    assert check_answers(served, script(served), scale, WINDOW) < 1e-5
