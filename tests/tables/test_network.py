"""A trained network as a form: its windows, its bands, and the cells that it is asked for and trained on."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from glaim_stream.core.errors import ModelError
from glaim_stream.core.vocabulary import Method
from glaim_stream.tables.fill import fill_groups
from glaim_stream.tables.groups import Group

torch = pytest.importorskip("torch")

from glaim_stream.tables.network import NetworkForm  # noqa: E402 - these need torch
from training.checkpoint import Checkpoint  # noqa: E402
from training.config import ExportSpec  # noqa: E402
from training.data import MaskSpec, Scale, WindowBatch  # noqa: E402
from training.export import write_model  # noqa: E402
from training.network import GLAIMConfig, build_network  # noqa: E402

STEPS = 24
CONFIG = GLAIMConfig(2, window=STEPS, d_model=8, layers=1, ffn=8, heads=2, d_psi=8, d_g=2, large_kernel=7)


def exported(folder: Path, emitted: int = STEPS) -> Path:
    """A network of two sensors, as training exports it; its weights are small, so that it says about the mean."""
    torch.manual_seed(0)
    network = build_network(CONFIG).eval()
    with torch.no_grad():
        for each in network.parameters():
            each.mul_(0.1)
    scale = Scale(np.array([10.0, 50.0]), np.array([2.0, 5.0]), np.array([0.0, 20.0]), np.array([20.0, 80.0]))
    weights = dict(network.state_dict())
    state = Checkpoint(
        config="{}", sensors=["s0", "s1"], units=["", ""],
        scale={name: list(map(float, getattr(scale, name))) for name in ("mean", "std", "minimum", "maximum")},
        step_s=60.0, source="a.csv", source_sha256="0" * 64, rows=500, epoch=1, weights=weights, averaged=weights,
        optimiser={}, best_score=1.0, best_epoch=1, history=[], seconds=1.0, git_commit="unknown",
    )  # fmt: skip
    observed = np.random.default_rng(0).random((1, 2, STEPS)) > 0.3
    values = np.where(observed, np.float32(0.5), np.float32(0))
    spec = ExportSpec(name="fill", directory=str(folder), emitted_steps=emitted)
    warm = WindowBatch(values, observed, values, ~observed)
    return write_model(spec, state, network, scale, MaskSpec("block"), warm, {"x": {}}, None)


def noise(steps: int = 600) -> np.ndarray:
    """Two sensors of independent readings: the mean is the best guess, and a line between two is a bad one."""
    return np.random.default_rng(1).normal(size=(2, steps)) * [[2.0], [5.0]] + [[10.0], [50.0]]


def test_a_network_fills_and_is_trained_without_the_cells_that_it_is_compared_on(tmp_path: Path) -> None:
    truth = noise()
    switch = np.repeat(np.arange(30) % 2, 20).astype(float)
    values = np.vstack([truth, switch])
    holes = np.random.default_rng(2).random(values.shape) < 0.1
    given = np.where(holes, np.nan, values)
    seen: list[tuple[Sequence[Group], Sequence[str]]] = []

    def train(groups: Sequence[Group], sensors: Sequence[str]) -> NetworkForm:
        seen.append((groups, sensors))
        return NetworkForm.load(exported(tmp_path), sensors, 60_000, np.zeros(2))

    group = Group("g", 60_000 * np.arange(600), given)
    result = fill_groups([group], sensors=["a", "b", "switch"], train=train)
    [(groups, sensors)] = seen
    assert tuple(sensors) == ("a", "b")  # a value between on and off means nothing
    known = ~np.isnan(groups[0].values)
    assert not (known & holes[:2]).any()
    hidden = (~known & ~holes[:2]).sum(axis=1)
    assert dict(zip(sensors, hidden.tolist(), strict=True)) == {name: result.hidden[name] for name in sensors}
    filled = result.groups[0]
    assert np.array_equal(filled.values[~holes], values[~holes])
    assert np.isfinite(filled.values).all()
    assert (filled.method[:2][holes[:2]] == Method.MODEL).mean() > 0.9
    assert set(np.unique(filled.values[2])) == {0.0, 1.0}
    assert not (filled.method[2] == Method.MODEL).any()
    assert result.chosen["a"] == "model"
    assert result.expected_error["a"] < result.line_error["a"]
    inside = (filled.lower <= filled.values) & (filled.values <= filled.upper)
    assert inside.all()
    covered = ((filled.lower <= values) & (values <= filled.upper))[:2][holes[:2]].mean()
    assert 0.8 < covered < 0.97


def test_a_network_answers_without_what_was_taken_off(tmp_path: Path) -> None:
    folder = exported(tmp_path)
    plain = NetworkForm.load(folder, ("a", "b"), 60_000, np.zeros(2))
    meter = NetworkForm.load(folder, ("a", "b"), 60_000, np.array([123_456_789.0, 0.0]))
    values = noise(STEPS)[None]
    observed = np.random.default_rng(3).random(values.shape) > 0.3
    end_ms = np.zeros(1, np.int64)
    first = plain.fill(np.where(observed, values, 0.0), observed, end_ms).mean
    second = meter.fill(np.where(observed, values + meter.centre[:, None], 0.0), observed, end_ms).mean
    np.testing.assert_allclose(second - meter.centre[:, None], first, atol=1e-5)


def test_a_network_of_other_steps_or_sensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="6 of 24 steps"):
        NetworkForm.load(exported(tmp_path, 6), ("a", "b"), 60_000, np.zeros(2))
    with pytest.raises(ModelError, match="a network of 3 sensors"):
        NetworkForm.load(tmp_path / "fill", ("a", "b", "c"), 60_000, np.zeros(3))
