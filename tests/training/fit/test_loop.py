"""The training loop: the cells of the loss, exact resumes, and the content of a checkpoint."""

import csv
import dataclasses
import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from training import checkpoint as checkpoints
from training.checkpoint import Checkpoint
from training.config import RunConfig, build
from training.data import Bools, FittedMasks, load, split
from training.errors import ConfigError, TrainingError
from training.fit import loop
from training.fit.loop import hidden_loss, learning_rate
from training.runtime import Interrupted

BATCH = 8


def tiny(*, dropout: float = 0.1, over_form: bool = False, **train: object) -> RunConfig:
    return build(
        {
            "name": "tiny",
            "data": {"split": [0.6, 0.2, 0.2]},
            "model": {
                "window": 24, "d_model": 8, "layers": 1, "ffn": 8, "heads": 2, "d_psi": 8, "d_g": 2, "large_kernel": 7,
                "dropout": dropout, "cascade": over_form, "own_form": over_form,
            },
            "masks": {"pattern": "deployment", "rates": [0.1, 0.5]},
            "train": {"epochs": 3, "iterations": 6, "batch_size": BATCH, "validation_windows": 40, "schedule": "cosine",
                      "ema": 0.9, **train},
        }
    )  # fmt: skip


def run(config: RunConfig, path: Path, directory: Path, **options: Any) -> Checkpoint:
    directory.mkdir(exist_ok=True)
    series = load(config.data, path)
    parts = split(series, config.data, config.model.window)
    return loop.train_network(config, series, parts, directory, say=lambda _: None, **options)


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


def test_without_hidden_cells_the_loss_is_zero_and_not_nan() -> None:
    assert float(hidden_loss(torch.randn(2, 2, 2), torch.randn(2, 2, 2), torch.zeros(2, 2, 2, dtype=torch.bool))) == 0.0


def test_full_balance_gives_every_window_the_same_weight() -> None:
    hidden = torch.zeros(2, 1, 10, dtype=torch.bool)
    hidden[0, 0, 9] = True
    hidden[1] = True
    truth = torch.zeros(2, 1, 10)
    filled = torch.zeros(2, 1, 10)
    filled[0] = 2.0
    assert float(hidden_loss(filled, truth, hidden, balance=1.0)) == pytest.approx(2.0)  # (4 + 0) / 2 windows
    assert float(hidden_loss(filled, truth, hidden)) == pytest.approx(4 / 11)


def test_the_learning_rate_warms_up_and_decays() -> None:
    spec = tiny(warmup=10, learning_rate=1e-2).train
    rates = [learning_rate(spec, iteration, 100) for iteration in range(100)]
    assert rates[0] == pytest.approx(1e-3)
    assert max(rates) == pytest.approx(1e-2)
    assert rates[-1] < 2e-4


def stop_after(draws: int, patch: pytest.MonkeyPatch) -> None:
    """Send SIGTERM while the gaps of this batch are drawn, counted from 1."""
    original, drawn = FittedMasks.sample, [0]

    def sample(self: FittedMasks, rng: np.random.Generator, observed: Bools) -> Bools:
        if observed.shape[0] == BATCH:  # skip the fixed gaps of the validation
            drawn[0] += 1
            if drawn[0] == draws:
                signal.raise_signal(signal.SIGTERM)
        return original(self, rng, observed)

    patch.setattr(FittedMasks, "sample", sample)


def assert_same_run(one: Path, other: Path) -> None:
    """Assert equal weights to the bit, and an equal history except for the seconds."""
    for name in ("last.pt", "best.pt"):
        first, second = checkpoints.load(one / name), checkpoints.load(other / name)
        assert first.epoch == second.epoch
        assert first.best_epoch == second.best_epoch
        for key, tensor in first.weights.items():
            assert torch.equal(tensor, second.weights[key]), key
            assert torch.equal(first.averaged[key], second.averaged[key]), key
        for index, values in first.optimiser["state"].items():
            assert all(torch.equal(values[key], second.optimiser["state"][index][key]) for key in values)
        assert without_seconds(first.history) == without_seconds(second.history)


def without_seconds(history: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in history]


@pytest.mark.parametrize(
    "draws",
    [*(pytest.param(draws, marks=pytest.mark.slow) for draws in (1, 9, 17)), 6],  # quicker: the last of them
)
def test_a_run_stopped_anywhere_and_resumed_equals_an_uninterrupted_one_to_the_bit(
    wide_csv: Path, tmp_path: Path, draws: int
) -> None:
    """With six iterations per epoch: in the first epoch, at its end, in the second, and in the last."""
    config = tiny()
    run(config, wide_csv, tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch:
        stop_after(draws, patch)
        with pytest.raises(Interrupted, match="continue with --resume"):
            run(config, wide_csv, tmp_path / "cut")
    state = checkpoints.load(tmp_path / "cut" / "last.pt")
    assert (state.epoch, state.batch) == ((draws - 1) // 6, (draws - 1) % 6 + 1)
    run(config, wide_csv, tmp_path / "cut", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("over_form", [False, True])
def test_a_run_killed_between_two_checkpoints_and_resumed_equals_an_uninterrupted_one(
    wide_csv: Path, tmp_path: Path, *, over_form: bool
) -> None:
    config = tiny(checkpoint_minutes=1e-9, over_form=over_form)  # after every iteration
    run(config, wide_csv, tmp_path / "whole")
    original, saved = checkpoints.save, [0]

    def killed(state: Checkpoint, path: Path) -> None:
        saved[0] += 1
        if saved[0] == 11:
            raise KeyboardInterrupt
        original(state, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            run(config, wide_csv, tmp_path / "cut")
    state = checkpoints.load(tmp_path / "cut" / "last.pt")
    assert state.epoch == 1
    assert 0 < state.batch < 6
    run(config, wide_csv, tmp_path / "cut", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_a_run_stopped_during_validation_repeats_the_validation(wide_csv: Path, tmp_path: Path) -> None:
    config = tiny()
    run(config, wide_csv, tmp_path / "whole")
    original = loop.validate

    def validate(*given: Any) -> tuple[float, float]:
        signal.raise_signal(signal.SIGTERM)
        return original(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "validate", validate)
        with pytest.raises(Interrupted):
            run(config, wide_csv, tmp_path / "cut")
    state = checkpoints.load(tmp_path / "cut" / "last.pt")
    assert (state.epoch, state.batch) == (0, 6)
    run(config, wide_csv, tmp_path / "cut", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_resuming_a_finished_run_changes_nothing(wide_csv: Path, tmp_path: Path) -> None:
    run(tiny(epochs=1), wide_csv, tmp_path / "run")
    before = (tmp_path / "run" / "last.pt").read_bytes()
    best = run(tiny(epochs=1), wide_csv, tmp_path / "run", resume=True)
    assert best.epoch == 1
    assert (tmp_path / "run" / "last.pt").read_bytes() == before


def test_settings_that_do_not_affect_the_weights_may_change_in_a_resume(wide_csv: Path, tmp_path: Path) -> None:
    run(tiny(epochs=2, schedule="constant"), wide_csv, tmp_path / "run")
    longer = tiny(epochs=4, schedule="constant", max_minutes=60, checkpoint_minutes=1)
    run(longer, wide_csv, tmp_path / "run", resume=True)
    run(longer, wide_csv, tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_new_run_removes_the_best_weights_of_the_former_one(wide_csv: Path, tmp_path: Path) -> None:
    run(tiny(epochs=1), wide_csv, tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:
        stop_after(2, patch)
        with pytest.raises(Interrupted):
            run(tiny(epochs=2), wide_csv, tmp_path / "run")
    assert not (tmp_path / "run" / "best.pt").exists()


def test_a_loss_that_is_not_finite_ends_the_run_with_an_error_message(wide_csv: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"epoch 1: the (loss|validation MSE) is (nan|inf); try train.clip_norm=1"):
        run(tiny(learning_rate=1e30, schedule="constant"), wide_csv, tmp_path / "run")
    assert not (tmp_path / "run" / "best.pt").exists()


def test_the_log_records_the_run_and_every_epoch(wide_csv: Path, tmp_path: Path) -> None:
    run(tiny(), wide_csv, tmp_path / "run")
    header, *epochs = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    state = checkpoints.load(tmp_path / "run" / "last.pt")
    assert header["config"] == json.loads(state.config)
    assert {"command", "machine", "git_commit", "started"} <= set(header)
    assert [row["epoch"] for row in epochs] == [1, 2, 3]
    assert [{key: row[key] for key in state.history[0]} for row in epochs] == state.history
    with (tmp_path / "run" / "curves.csv").open() as file:
        assert [float(row["loss"]) for row in csv.DictReader(file)] == [row["loss"] for row in state.history]
    run(tiny(), wide_csv, tmp_path / "run", resume=True)  # finished, so nothing is added


@pytest.mark.slow  # quicker: the same loop in fp32
def test_bf16_learns_with_fp32_weights(wide_csv: Path, tmp_path: Path) -> None:
    """Lower precision changes the scores of a few epochs slightly, but does change them."""
    full, half = (
        run(tiny(precision=kind, iterations=25, learning_rate=1e-2), wide_csv, tmp_path / kind)
        for kind in ("fp32", "bf16")
    )
    assert {tensor.dtype for tensor in half.weights.values()} == {torch.float32}
    assert half.best_score != full.best_score
    assert half.best_score == pytest.approx(full.best_score, rel=0.2)


def test_a_hundred_iterations_clearly_beat_the_mean(wide_csv: Path, tmp_path: Path) -> None:
    """Filling with the mean scores about 1 on standardised data; each sensor nearly determines the others."""
    best = run(tiny(epochs=4, iterations=25, learning_rate=1e-2, ema=0.5), wide_csv, tmp_path / "run")
    assert best.best_score < 0.5


def test_training_stops_when_the_score_does_not_improve(wide_csv: Path, tmp_path: Path) -> None:
    config = tiny(epochs=50, patience=2, learning_rate=1e-9, ema=0.0, schedule="constant")
    run(config, wide_csv, tmp_path / "run")
    assert checkpoints.load(tmp_path / "run" / "last.pt").epoch < 50


def test_resuming_with_another_configuration_is_rejected(wide_csv: Path, tmp_path: Path) -> None:
    run(tiny(epochs=1), wide_csv, tmp_path / "run")
    with pytest.raises(ConfigError, match="another configuration"):
        run(tiny(epochs=1, learning_rate=0.5), wide_csv, tmp_path / "run", resume=True)
    with pytest.raises(ConfigError, match="expected a checkpoint"):
        run(tiny(), wide_csv, tmp_path / "nowhere", resume=True)


def test_code_in_a_checkpoint_is_not_executed(tmp_path: Path) -> None:
    torch.save({"format": 1, "config": Path("x")}, tmp_path / "evil.pt")
    with pytest.raises(Exception, match=r"[Ww]eights"):
        checkpoints.load(tmp_path / "evil.pt")


def test_the_configuration_of_a_checkpoint_builds_the_same_run(wide_csv: Path, tmp_path: Path) -> None:
    import json

    config = tiny(epochs=1)
    best = run(config, wide_csv, tmp_path / "run")
    rebuilt = build(json.loads(best.config))
    assert rebuilt == dataclasses.replace(config, model=dataclasses.replace(config.model, num_variables=3))
