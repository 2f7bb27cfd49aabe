"""The network: the paper's sizes, its ablations, and difficult windows."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from training.network.build import build_network, build_priemb, build_staglo
from training.network.kernels import CellLinear
from training.network.model import GLAIM, AttentionPool, EncoderLayer, PriEmb, count_parameters
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


def test_statistics_come_from_observed_cells_only() -> None:
    norm = model().normalise
    values = torch.tensor([[[1.0, 3.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [5.0, 5.0, 5.0, 0.0]]])
    observed = torch.tensor([[[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]]])
    mean, std = norm(values, observed)
    torch.testing.assert_close(mean.flatten(), torch.tensor([2.0, 0.0, 5.0]))
    torch.testing.assert_close(std.flatten(), torch.tensor([(1 + 1e-5) ** 0.5, 1.0, 1e-5**0.5]))


def priemb() -> PriEmb:
    return build_priemb(GLAIMConfig(1, window=8, d_model=4, heads=1, smoothing_windows=(3, 5)))


def test_interpolation_is_linear_inside_and_constant_at_the_ends() -> None:
    #           missing  2.0  missing  missing  8.0  missing
    values = torch.tensor([[[0.0, 2.0, 0.0, 0.0, 8.0, 0.0, 0.0, 0.0]]])
    observed = torch.tensor([[[0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]])
    prior, left, right = priemb().interpolation(values, observed)
    torch.testing.assert_close(prior, torch.tensor([[[2.0, 2.0, 4.0, 6.0, 8.0, 8.0, 8.0, 8.0]]]))
    torch.testing.assert_close(left[0, 0], torch.tensor([1.0, 0.0, 0.2, 0.4, 0.0, 0.2, 0.4, 0.6]))
    torch.testing.assert_close(right[0, 0], torch.tensor([0.2, 0.0, 0.4, 0.2, 0.0, 1.0, 1.0, 1.0]))


def test_interpolation_of_a_silent_row_is_zero_at_full_distance() -> None:
    nothing = torch.zeros(1, 1, 8)
    prior, left, right = priemb().interpolation(nothing, nothing)
    assert prior.abs().sum() == 0
    assert (left == 1).all()
    assert (right == 1).all()


def test_smoothing_averages_observed_values_and_returns_their_share() -> None:
    values = torch.tensor([[[1.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 4.0]]])
    observed = torch.tensor([[[1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]]])
    smooth, support = priemb().smoothing(values, observed)
    torch.testing.assert_close(smooth[0, 0, 0], torch.tensor([1.0, 2.0, 3.0, 3.0, 0.0, 0.0, 4.0, 4.0]))
    torch.testing.assert_close(support[0, 0, 0], torch.tensor([1.0, 2.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]) / 3)
    torch.testing.assert_close(smooth[0, 1, 0, 1], torch.tensor(2.0))


def test_dependency_matrices_have_rows_that_sum_to_one() -> None:
    staglo = build_staglo(SMALL)
    matrices = staglo.dependencies(torch.randn(SMALL.d_model, SMALL.d_psi))
    assert matrices.shape == (SMALL.d_model, 4, 4)
    torch.testing.assert_close(matrices.sum(-1), torch.ones(SMALL.d_model, 4))


def test_the_merged_convolution_equals_the_sum_of_both_branches() -> None:
    staglo = build_staglo(SMALL).eval()
    hidden, tokens = torch.randn(2, SMALL.window, 4, 16), torch.randn(16, SMALL.d_psi)
    normed = staglo.norm_conv(hidden).permute(0, 2, 3, 1).reshape(8, 16, SMALL.window)  # (B*C, D, T)
    conv = torch.nn.functional.conv1d
    apart = conv(normed, staglo.large[..., 0], padding=5, groups=16) + conv(
        normed, staglo.small[..., 0], padding=2, groups=16
    )
    z = hidden + apart.view(2, 4, 16, SMALL.window).permute(0, 3, 1, 2)
    z = z + staglo.ffn_out(torch.nn.functional.gelu(staglo.ffn_in(staglo.norm_ffn(z))))
    alpha = torch.sigmoid(staglo.alpha_logit)
    propagated = torch.einsum("dij,btjd->btid", staglo.dependencies(tokens), z)
    torch.testing.assert_close(staglo(hidden, tokens), (1 - alpha) * z + alpha * propagated, atol=1e-5, rtol=1e-5)


def test_attention_pooling_is_multi_head_attention_with_one_query() -> None:
    torch.manual_seed(0)
    pool = AttentionPool(16, 4, 0.0).eval()
    library = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    with torch.no_grad():
        torch.nn.init.normal_(pool.project.bias)
        library.in_proj_weight.copy_(pool.project.weight)
        library.in_proj_bias.copy_(pool.project.bias)
        library.out_proj.load_state_dict(pool.out.state_dict())
    y = torch.randn(2, 9, 3, 16)
    rows = y.transpose(1, 2).reshape(6, 9, 16)
    expected = library(pool.query.expand(6, 1, 16), rows, rows, need_weights=False)[0].view(2, 3, 16)
    torch.testing.assert_close(pool(y), expected, atol=1e-5, rtol=1e-5)


def test_the_encoder_layer_equals_torchs_post_norm_layer_in_both_modes() -> None:
    torch.manual_seed(0)
    ours = EncoderLayer(16, 4, 24, 0.0)
    library = torch.nn.TransformerEncoderLayer(16, 4, 24, 0.0, activation="gelu", batch_first=True)
    with torch.no_grad():
        library.self_attn.in_proj_weight.copy_(ours.project.weight)
        library.self_attn.in_proj_bias.copy_(ours.project.bias)
    pairs = {"self_attn.out_proj": ours.out, "linear1": ours.ffn_in, "linear2": ours.ffn_out}
    pairs |= {"norm1": ours.norm_attention, "norm2": ours.norm_ffn}
    for name, part in pairs.items():
        library.get_submodule(name).load_state_dict(part.state_dict())
    tokens = torch.randn(2, 5, 7, 16)
    library.train()  # its fast path in evaluation mode uses another algorithm
    expected = library(tokens.view(10, 7, 16)).view(2, 5, 7, 16)
    torch.testing.assert_close(ours.train()(tokens), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.eval()(tokens), expected, atol=1e-5, rtol=1e-5)


def test_cell_linear_equals_linear() -> None:
    linear = CellLinear(6, 5)
    cells = torch.randn(2, 3, 4, 6)
    torch.testing.assert_close(linear(cells), torch.nn.functional.linear(cells, linear.weight, linear.bias))


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
