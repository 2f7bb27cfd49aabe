"""A run that starts with another run's weights; weights that do not fit are an error."""

import dataclasses
from pathlib import Path

import pytest
import torch

from training import checkpoint as checkpoints
from training import config as configs
from training.config import RunConfig
from training.data import load, split
from training.fit import loop
from training.fit.warm import main, warmed

TINY = {"d_model": 8, "layers": 1, "ffn": 8, "heads": 2, "d_psi": 8, "d_g": 2, "d_recon": 2, "window": 24}


def config_of(csv: Path, pattern: str, **model: object) -> RunConfig:
    return configs.build(
        {
            "name": pattern,
            "data": {"file": str(csv)},
            "model": {**TINY, **model},
            "masks": {"pattern": pattern},
            "train": {"epochs": 1, "iterations": 2, "batch_size": 4, "stride": 8, "validation_windows": 8},
        }
    )


def test_a_warm_run_starts_with_the_other_runs_weights_at_epoch_0(wide_csv: Path, tmp_path: Path) -> None:
    first = config_of(wide_csv, "block")
    series = load(first.data, wide_csv)
    parts = split(series, first.data, 24)
    before = loop.train_network(first, series, parts, tmp_path, say=lambda _: None)
    second = config_of(wide_csv, "deployment")
    start = warmed(before, second)
    assert start.epoch == 0
    assert start.history == []
    assert all(torch.equal(start.weights[name], before.averaged[name]) for name in before.averaged)

    target = tmp_path / "second"
    target.mkdir()
    checkpoints.save(start, target / "last.pt")
    after = loop.train_network(second, series, parts, target, resume=True, say=lambda _: None)
    assert after.epoch == 1
    moved = [(after.weights[name] - before.averaged[name]).abs().max() for name in before.averaged]
    assert 0 < float(max(moved)) < 0.1  # two small steps away, not a new network


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"model": {"d_model": 16}}, "model"), ({"data": {"split": (0.5, 0.2, 0.3)}}, "data.split")],
)
def test_weights_of_another_network_or_other_rows_are_rejected(
    wide_csv: Path, tmp_path: Path, changed: dict[str, dict[str, object]], message: str
) -> None:
    first = config_of(wide_csv, "block")
    series = load(first.data, wide_csv)
    before = loop.train_network(first, series, split(series, first.data, 24), tmp_path, say=lambda _: None)
    ((section, values),) = changed.items()
    other = dataclasses.replace(first, **{section: dataclasses.replace(getattr(first, section), **values)})
    with pytest.raises(configs.ConfigError, match=f"expected the {message} of the run that gives the weights"):
        warmed(before, other)


def test_an_existing_run_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "last.pt").write_bytes(b"x")
    file = tmp_path / "run.toml"
    file.write_text("[masks]\npattern = 'deployment'\n")
    assert main([str(tmp_path / "other"), str(file), "--out", str(tmp_path)]) == 2
    assert "expected no run at" in capsys.readouterr().err


def test_a_warm_run_starts_with_the_averaged_weights(wide_csv: Path, tmp_path: Path) -> None:
    averaging = {"epochs": 1, "iterations": 2, "batch_size": 4, "stride": 8, "validation_windows": 8, "ema": 0.9}
    data = {"file": str(wide_csv)}
    first = configs.build({"name": "averaging", "data": data, "model": TINY, "train": averaging})
    series = load(first.data, wide_csv)
    before = loop.train_network(first, series, split(series, first.data, 24), tmp_path, say=lambda _: None)
    start = warmed(before, config_of(wide_csv, "deployment"))
    assert any(not torch.equal(start.weights[name], before.weights[name]) for name in before.weights)
    assert all(torch.equal(start.weights[name], before.averaged[name]) for name in before.averaged)


def test_a_warm_run_begins_with_the_whole_correction(wide_csv: Path, tmp_path: Path) -> None:
    first = config_of(wide_csv, "deployment", cascade=True, own_form=True)
    series = load(first.data, wide_csv)
    lines: list[str] = []
    before = loop.train_network(first, series, split(series, first.data, 24), tmp_path, say=lines.append)
    assert lines[-1].startswith("share of the correction that validation keeps: ")
    before.averaged["share"] = torch.full_like(before.averaged["share"], 0.25)
    start = warmed(before, config_of(wide_csv, "block", cascade=True, own_form=True))
    assert (start.weights["share"] == 1).all()
    assert (start.averaged["share"] == 1).all()
