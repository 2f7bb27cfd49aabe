"""The network against a plain implementation of the paper: the same numbers and the same gradients."""

import dataclasses

import pytest
import torch
from torch import Tensor

from benchmarks.plain_glaim import PlainGLAIM, copied, plain_name
from training.network.build import build_network
from training.network.model import GLAIM, count_parameters
from training.network.sizes import GLAIMConfig

SMALL = GLAIMConfig(5, window=24, d_model=16, layers=2, ffn=24, heads=4, dropout=0.0, d_psi=12, d_g=3, large_kernel=11)
PAPER = GLAIMConfig(7, d_model=64, dropout=0.0)
WIDE = dataclasses.replace(SMALL, num_variables=20)  # above 16 sensors the attention is torch's


def sizes(config: GLAIMConfig) -> str:
    return f"{config.num_variables}x{config.d_model}"


def pair(config: GLAIMConfig) -> tuple[GLAIM, PlainGLAIM]:
    """Both implementations with the same weights, perturbed so that no weight has a value that hides a mistake."""
    torch.manual_seed(0)
    model = build_network(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # biases, norms and gates are initialised to 0 or 1
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model, copied(model, config)


def windows(config: GLAIMConfig, batch: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shape = (batch, config.num_variables, config.window)
    values = torch.randn(shape, generator=generator).cumsum(-1)
    observed = torch.rand(shape, generator=generator) > 0.3
    observed[0, 0] = False  # silent
    observed[0, 1, config.window // 2 :] = False
    observed[0, 2, : config.window // 2] = False
    observed[1, 0] = True
    return values, observed


@pytest.mark.parametrize("config", [SMALL, PAPER, WIDE], ids=sizes)
def test_both_implementations_have_the_same_number_of_parameters(config: GLAIMConfig) -> None:
    assert count_parameters(PlainGLAIM(config)) == count_parameters(build_network(config))


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("config", [SMALL, PAPER, WIDE], ids=sizes)
def test_both_implementations_fill_alike(config: GLAIMConfig, mode: str) -> None:
    model, plain = pair(config)
    values, observed = windows(config, 2)
    model.train(mode == "train")
    plain.train()  # dropout is 0, and torch's fast path in evaluation mode uses another algorithm
    with torch.no_grad():
        torch.testing.assert_close(model(values, observed), plain(values, observed), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("config", [SMALL, PAPER, WIDE], ids=sizes)
def test_both_implementations_have_the_same_gradients(config: GLAIMConfig) -> None:
    model, plain = pair(config)
    model.double().train()
    plain.double().train()
    values, observed = windows(config, 2)
    truth = torch.randn_like(values)
    for net in (model, plain):
        (net(values.double(), observed) - truth).square()[~observed].mean().backward()
    gradients = {name: parameter.grad for name, parameter in plain.named_parameters()}
    for name, parameter in model.named_parameters():
        found, expected = parameter.grad, gradients.pop(plain_name(name))
        assert found is not None, name
        assert expected is not None, name
        torch.testing.assert_close(
            found, expected.view_as(found), atol=1e-8, rtol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
    assert gradients == {}
