"""The network: the paper's sizes, its ablations, and difficult windows."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from training.network.build import build_network
from training.network.model import GLAIM, count_parameters
from training.network.sizes import GLAIMConfig

SMALL = GLAIMConfig(4, window=24, d_model=16, layers=2, ffn=24, heads=4, dropout=0.0, d_psi=12, d_g=3, large_kernel=11)


def model(config: GLAIMConfig = SMALL, seed: int = 0) -> GLAIM:
    torch.manual_seed(seed)
    return build_network(config).eval()


def windows(batch: int, config: GLAIMConfig = SMALL, rate: float = 0.3, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, config.num_variables, config.window)
    return torch.randn(shape, generator=generator), torch.rand(shape, generator=generator) > rate


@pytest.mark.parametrize(("variables", "matched", "paper"), [(7, 479_479, 0.479e6), (21, 542_647, 0.543e6)])
def test_parameter_counts_match_the_paper(variables: int, matched: int, paper: float) -> None:
    count = count_parameters(build_network(GLAIMConfig(variables, d_model=64)))
    assert count == matched
    assert abs(count / paper - 1) < 0.01


def test_every_parameter_of_the_full_model_is_used() -> None:
    net = model().train()
    values, observed = windows(3)
    net(values, observed).square().sum().backward()
    unused = [name for name, p in net.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert unused == []


@pytest.mark.parametrize("switch", ["use_staglo", "use_sacoref", "use_prior", "use_gate"])
def test_each_ablation_removes_parameters_and_can_still_fill_and_be_scripted(switch: str) -> None:
    ablated = model(dataclasses.replace(SMALL, **{switch: False}))
    assert count_parameters(ablated) < count_parameters(model())
    values, observed = windows(2)
    filled = ablated(values, observed)
    assert torch.isfinite(filled).all()
    assert torch.equal(torch.jit.script(ablated)(values, observed), filled)


def test_observed_cells_pass_through_to_the_bit() -> None:
    values, observed = windows(5)
    assert torch.equal(model()(values, observed)[observed], values[observed])


def test_the_value_in_a_missing_cell_does_not_matter() -> None:
    values, observed = windows(3)
    net = model()
    reference = net(values, observed)
    for junk in (float("nan"), float("inf"), 1e30):
        assert torch.equal(net(torch.where(observed, values, torch.tensor(junk)), observed), reference)


@given(emitted=st.integers(1, SMALL.window), layers=st.integers(1, 3))
@settings(max_examples=12, deadline=None)
def test_computing_only_the_newest_steps_gives_the_same_values(emitted: int, layers: int) -> None:
    net = model(dataclasses.replace(SMALL, layers=layers))
    values, observed = windows(2)
    with torch.inference_mode():
        whole, newest = net(values, observed), net(values, observed, emitted)
    assert newest.shape == (2, SMALL.num_variables, emitted)
    torch.testing.assert_close(newest, whole[:, :, -emitted:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("case", ["nothing", "everything", "constant", "single", "silent_row", "two_values", "huge"])
def test_degenerate_windows_stay_finite_forward_and_backward(case: str, residual: bool) -> None:
    net = model(dataclasses.replace(SMALL, residual=residual)).train()
    values, observed = windows(3)
    if case == "nothing":
        observed[:] = False
    elif case == "everything":
        observed[:] = True
    elif case == "constant":
        values[:] = 3.0
    elif case == "single":
        observed[:] = False
        observed[:, 1, 7] = True
    elif case == "silent_row":
        observed[:, 2] = False
    elif case == "two_values":
        observed[:] = False
        observed[:, :, 0] = observed[:, :, -1] = True
    else:
        values = values * 1e6
    filled = net(values, observed)
    filled.square().mean().backward()
    assert torch.isfinite(filled).all()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)


@pytest.mark.parametrize("variables", [3, 20])
def test_a_scripted_saved_and_loaded_model_equals_the_eager_one(variables: int, tmp_path: object) -> None:
    net = model(dataclasses.replace(SMALL, num_variables=variables))
    path = f"{tmp_path}/model.pt"
    torch.jit.script(net).save(path)
    loaded = torch.jit.load(path)
    for batch in (1, 8):
        values, observed = windows(batch, dataclasses.replace(SMALL, num_variables=variables))
        with torch.inference_mode():
            for _ in range(3):
                torch.testing.assert_close(loaded(values, observed, 5), net(values, observed, 5), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 5}, "multiple of heads, found 16 and 5"),
        ({"layers": 0}, "layers must be 1 or more"),
        ({"large_kernel": 10}, "odd"),
        ({"dropout": 1.0}, "dropout"),
        ({"window": 1}, "window must be 2"),
    ],
)
def test_the_error_for_impossible_sizes_states_what_was_found(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SMALL, **changes)
