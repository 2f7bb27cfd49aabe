"""The loop: what the loss looks at, what a resume repeats, what a checkpoint holds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from training import checkpoint as checkpoints
from training import loop
from training.config import RunConfig, build
from training.data import load, split
from training.errors import ConfigError
from training.loop import hidden_loss, learning_rate


def tiny(**train: object) -> RunConfig:
    return build(
        {
            "name": "tiny",
            "data": {"split": [0.6, 0.2, 0.2]},
            "model": {
                "window": 24, "d_model": 8, "layers": 1, "ffn": 8, "heads": 2, "d_psi": 8, "d_g": 2, "large_kernel": 7
            },
            "masks": {"pattern": "deployment", "rates": [0.1, 0.5]},
            "train": {"epochs": 3, "iterations": 6, "batch_size": 8, "validation_windows": 40, "schedule": "cosine",
                      "ema": 0.9, **train},
        }
    )  # fmt: skip


def run(config: RunConfig, path: Path, directory: Path, *, resume: bool = False) -> checkpoints.Checkpoint:
    directory.mkdir(exist_ok=True)
    series = load(config.data, path)
    parts = split(series, config.data.split, config.model.window)
    return loop.run(config, series, parts, directory, resume=resume, say=lambda _: None)


def test_the_loss_is_the_papers_mean_over_hidden_cells() -> None:
    filled, truth = torch.randn(3, 2, 5), torch.randn(3, 2, 5)
    hidden = torch.rand(3, 2, 5) < 0.4
    torch.testing.assert_close(hidden_loss(filled, truth, hidden), (filled - truth)[hidden].square().mean())


def test_cells_that_are_not_hidden_do_not_enter_the_loss() -> None:
    filled, truth = torch.randn(3, 2, 5, requires_grad=True), torch.randn(3, 2, 5)
    hidden = torch.zeros(3, 2, 5, dtype=torch.bool)
    hidden[1, 0, 2] = True
    loss = hidden_loss(filled, truth, hidden, mae_weight=0.3, balance=0.5)
    other = hidden_loss(torch.where(hidden, filled, torch.tensor(1e6)), truth, hidden, mae_weight=0.3, balance=0.5)
    assert loss.item() == other.item()
    loss.backward()
    assert filled.grad is not None
    assert (filled.grad != 0).sum() == 1


def test_nothing_hidden_is_no_loss_and_no_nan() -> None:
    assert float(hidden_loss(torch.randn(2, 2, 2), torch.randn(2, 2, 2), torch.zeros(2, 2, 2, dtype=torch.bool))) == 0.0


def test_full_balance_gives_every_window_the_same_say() -> None:
    hidden = torch.zeros(2, 1, 10, dtype=torch.bool)
    hidden[0, 0, 9] = True
    hidden[1] = True
    truth = torch.zeros(2, 1, 10)
    filled = torch.zeros(2, 1, 10)
    filled[0] = 2.0
    assert float(hidden_loss(filled, truth, hidden, balance=1.0)) == pytest.approx(2.0)  # (4 + 0) / 2 windows
    assert float(hidden_loss(filled, truth, hidden)) == pytest.approx(4 / 11)


def test_the_rate_warms_up_and_comes_down() -> None:
    spec = tiny(warmup=10, learning_rate=1e-2).train
    rates = [learning_rate(spec, iteration, 100) for iteration in range(100)]
    assert rates[0] == pytest.approx(1e-3)
    assert max(rates) == pytest.approx(1e-2)
    assert rates[-1] < 2e-4


def test_an_interrupted_run_ends_like_an_uninterrupted_one_to_the_bit(wide_csv: Path, tmp_path: Path) -> None:
    config = tiny()
    whole = run(config, wide_csv, tmp_path / "whole")
    seen: list[int] = []

    def stop_after_two(state: checkpoints.Checkpoint, path: Path) -> None:
        original(state, path)
        if path.name == "last.pt":
            seen.append(state.epoch)
            if state.epoch == 2 and len(seen) == 2:
                raise KeyboardInterrupt

    original = checkpoints.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "save", stop_after_two)
        with pytest.raises(KeyboardInterrupt):
            run(config, wide_csv, tmp_path / "cut")
    run(config, wide_csv, tmp_path / "cut", resume=True)
    first, second = (checkpoints.load(tmp_path / name / "last.pt") for name in ("whole", "cut"))
    assert second.epoch == 3
    for name, tensor in first.weights.items():
        assert torch.equal(tensor, second.weights[name]), name
        assert torch.equal(first.averaged[name], second.averaged[name]), name
    assert [row["validation_mse"] for row in first.history] == [row["validation_mse"] for row in second.history]
    assert whole.best_epoch == second.best_epoch


def test_a_hundred_iterations_leave_the_mean_far_behind(wide_csv: Path, tmp_path: Path) -> None:
    """The mean of a sensor scores about 1 on standardised data; one sensor tells the others nearly all."""
    best = run(tiny(epochs=4, iterations=25, learning_rate=1e-2, ema=0.5), wide_csv, tmp_path / "run")
    assert best.best_score < 0.5


def test_it_stops_when_the_score_gets_no_better(wide_csv: Path, tmp_path: Path) -> None:
    config = tiny(epochs=50, patience=2, learning_rate=1e-9, ema=0.0, schedule="constant")
    run(config, wide_csv, tmp_path / "run")
    assert checkpoints.load(tmp_path / "run" / "last.pt").epoch < 50


def test_resuming_with_another_configuration_is_refused(wide_csv: Path, tmp_path: Path) -> None:
    run(tiny(epochs=1), wide_csv, tmp_path / "run")
    with pytest.raises(ConfigError, match="another configuration"):
        run(tiny(epochs=1, learning_rate=0.5), wide_csv, tmp_path / "run", resume=True)
    with pytest.raises(ConfigError, match="expected a checkpoint"):
        run(tiny(), wide_csv, tmp_path / "nowhere", resume=True)


def test_a_checkpoint_that_carries_code_is_not_run(tmp_path: Path) -> None:
    torch.save({"format": 1, "config": Path("x")}, tmp_path / "evil.pt")
    with pytest.raises(Exception, match=r"[Ww]eights"):
        checkpoints.load(tmp_path / "evil.pt")


def test_the_configuration_of_a_checkpoint_builds_the_same_run(wide_csv: Path, tmp_path: Path) -> None:
    import json

    config = tiny(epochs=1)
    best = run(config, wide_csv, tmp_path / "run")
    rebuilt = build(json.loads(best.config))
    assert rebuilt == dataclasses.replace(config, model=dataclasses.replace(config.model, num_variables=3))
