"""The search for settings: its candidates, its resumption, and the resulting configuration."""

from pathlib import Path
from typing import Any

import pytest

from training import config as configs
from training.checkpoint import Checkpoint
from training.config import RunConfig
from training.errors import ConfigError
from training.fit import loop, tune

CONFIG = """
[data]
split = [0.6, 0.2, 0.2]
[model]
d_model = 8
layers = 1
ffn = 8
heads = 2
d_psi = 8
d_g = 2
window = 24
large_kernel = 7
[train]
epochs = 2
iterations = 3
batch_size = 8
validation_windows = 16
[tune]
trials = 3
[tune.search]
"train.learning_rate" = "1e-4..1e-2"
"""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(CONFIG)
    return path


def test_the_command_line_adds_settings_to_the_search(toml: Path) -> None:
    config = configs.read(toml)
    found = tune.space(config, ["model.d_model=8,16", "model.layers=1..3", "train.schedule=constant,cosine"])
    assert found == {
        "train.learning_rate": "1e-4..1e-2",
        "model.d_model": (8, 16),
        "model.layers": "1..3",
        "train.schedule": ("constant", "cosine"),
    }
    assert tune.bounds("model.layers", "1..3") == (1, 3)
    assert tune.bounds("x", "1e-4..1") == (1e-4, 1.0)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("model.width=8,16", "no setting width"),
        ("model.d_model", "expected a search like"),
        ("train.ema=high..low", "expected two numbers"),
        ("model.d_model=8,9", "multiple of heads"),
        ("train.schedule=linear,cosine", "found 'linear'"),
        ("epochs=1,2", "expected a setting like"),
    ],
)
def test_invalid_candidates_are_rejected_before_anything_runs(toml: Path, search: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tune.space(configs.read(toml), [search])


def test_a_search_without_settings_to_vary_is_rejected() -> None:
    with pytest.raises(ConfigError, match="nothing to search for"):
        tune.space(RunConfig(), [])


@pytest.mark.slow  # quicker: what a search varies and refuses, above
def test_a_search_writes_a_configuration_for_fit_and_can_be_resumed(
    toml: Path, wide_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optuna = pytest.importorskip("optuna")
    given = [str(toml), "--set", f"data.file={wide_csv}", "--search", "model.ffn=8,12"]
    assert tune.main([*given, "--out", str(tmp_path / "whole")]) == 0
    best = configs.read(tmp_path / "whole" / "best.toml")
    assert best.name == "mine"
    assert 1e-4 <= best.train.learning_rate <= 1e-2
    assert best.model.ffn in (8, 12)
    study = optuna.load_study(study_name="mine", storage=f"sqlite:///{tmp_path / 'whole' / 'study.db'}")
    assert len(study.trials) == 3
    assert best.train.learning_rate == study.best_params["train.learning_rate"]
    assert study.best_value == min(trial.value for trial in study.trials if trial.value is not None)

    original, runs = loop.train_network, [0]

    def stopped(*arguments: Any, **options: Any) -> Checkpoint:
        runs[0] += 1
        if runs[0] == 3:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "train_network", stopped)
        assert tune.main([*given, "--out", str(tmp_path / "cut")]) == 130
    assert tune.main([*given, "--out", str(tmp_path / "cut")]) == 0
    assert configs.read(tmp_path / "cut" / "best.toml").train == best.train
