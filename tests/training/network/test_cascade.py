"""The network over the closed form: its start, its fallbacks, and its fast kernels."""

import dataclasses

import pytest
import torch
from torch import Tensor

from training.network import kernels
from training.network.build import build_network
from training.network.cascade import Cascade
from training.network.model import GLAIM
from training.network.sizes import GLAIMConfig

SIZES = GLAIMConfig(
    4, window=24, d_model=16, layers=2, ffn=24, heads=4, dropout=0.0, d_psi=12, d_g=3, large_kernel=11, cascade=True
)


def network(*, trained: bool = False, sizes: GLAIMConfig = SIZES) -> GLAIM:
    """Return the network at its start, or with heads as after some training."""
    torch.manual_seed(0)
    net = build_network(sizes).eval()
    if trained and isinstance(net, Cascade):
        for head in net.gaterecon.children():
            torch.nn.init.normal_(head.out.weight, std=0.3)  # type: ignore[union-attr, arg-type]
    return net


def windows(rate: float = 0.4) -> tuple[Tensor, Tensor]:
    """Filled windows at several levels, and their observed cells."""
    generator = torch.Generator().manual_seed(1)
    shape = (3, SIZES.num_variables, SIZES.window)
    level = torch.tensor([0.0, 50.0, -3e4]).view(3, 1, 1)
    return level + torch.randn(shape, generator=generator), torch.rand(shape, generator=generator) > rate


def test_the_untrained_network_is_the_closed_form_to_the_bit() -> None:
    filled, observed = windows()
    assert torch.equal(network()(filled, observed), filled)
    assert torch.equal(network()(filled, observed, 5), filled[:, :, -5:])


def test_without_a_closed_form_the_untrained_network_is_its_own_prior() -> None:
    filled, observed = windows()
    net = network()
    bare = torch.where(observed, filled, torch.nan)
    answer = net(bare, observed)
    mean, std = net.normalise(torch.where(observed, filled, 0.0), observed.float())
    normalised = torch.where(observed, (filled - mean) / std, 0.0)
    prior = net.priemb.priemb(normalised, observed.float())[1] * std + mean  # type: ignore[operator, union-attr]
    torch.testing.assert_close(answer[~observed], prior[~observed])
    assert torch.equal(answer[observed], filled[observed])


def test_a_closed_form_for_some_cells_leaves_the_others_to_the_prior() -> None:
    filled, observed = windows()
    some = filled.clone()
    some[:, 1] = torch.where(observed[:, 1], filled[:, 1], torch.nan)
    answer = network()(some, observed)
    assert torch.isfinite(answer).all()
    assert torch.equal(answer[:, 0], filled[:, 0])
    assert torch.equal(answer[:, 2:], filled[:, 2:])


@pytest.mark.parametrize("form", [True, False])
@pytest.mark.parametrize("case", ["nothing", "silent_row", "everything", "constant", "huge"])
def test_difficult_windows_stay_finite_forward_and_backward(case: str, form: bool) -> None:
    net = network(trained=True).train()
    filled, observed = windows()
    if case == "nothing":
        observed[:] = False
    elif case == "silent_row":
        observed[:, 2] = False
    elif case == "everything":
        observed[:] = True
    elif case == "constant":
        filled = torch.where(observed, torch.tensor(3.0), filled)
    else:
        filled = filled * 1e6
    answer = net(filled if form else torch.where(observed, filled, torch.nan), observed)
    answer.square().mean().backward()
    assert torch.isfinite(answer).all()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)


def test_training_reaches_every_parameter() -> None:
    net = network(trained=True).train()
    net(*windows()).square().sum().backward()
    unused = [name for name, p in net.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert unused == []


def test_the_first_step_moves_the_heads() -> None:
    """Zero weights must not be a dead end: their own gradients are not zero."""
    net = network().train()
    net(*windows()).square().sum().backward()
    assert isinstance(net, Cascade)
    for head in net.gaterecon.children():
        assert head.out.weight.grad.abs().sum() > 0  # type: ignore[union-attr]


def test_torchscript_and_fewer_steps_give_the_same_values() -> None:
    net = network(trained=True)
    filled, observed = windows()
    with torch.inference_mode():
        whole = net(filled, observed)
        assert not torch.equal(whole, filled)
        torch.testing.assert_close(torch.jit.script(net)(filled, observed), whole)
        torch.testing.assert_close(net(filled, observed, 7), whole[:, :, -7:], atol=1e-5, rtol=1e-5)


def test_fused_kernels_give_the_values_and_gradients_of_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    filled, observed = windows()
    found = []
    for way in ("cpu_training", "library"):
        monkeypatch.setattr(kernels, "way", lambda *_, way=way: way)
        net = network(trained=True).double().train()
        answer = net(filled.double(), observed)
        (answer - filled).square().sum().backward()
        found.append((answer.detach(), {name: p.grad for name, p in net.named_parameters()}))
    torch.testing.assert_close(found[0][0], found[1][0])
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(gradient, found[1][1][name], msg=name)


@pytest.mark.parametrize("change", [{"residual": True}, {"use_prior": False}, {"use_gate": False}])
def test_variants_that_contradict_it_are_refused(change: dict[str, bool]) -> None:
    with pytest.raises(ValueError, match="cascade"):
        dataclasses.replace(SIZES, **change)  # type: ignore[arg-type]
