import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks.paper import peer_networks as networks
from benchmarks.paper import peers, peers_table
from benchmarks.paper.__main__ import main
from benchmarks.paper.cells import PaperCell, TablePlace
from benchmarks.paper.lines import Line, read
from benchmarks.paper.run import identified
from training.data import WindowBatch, hide

needs_pypots = pytest.mark.skipif(importlib.util.find_spec("pypots") is None, reason="PyPOTS is not installed")
CELL = PaperCell("Tiny", "block", 0.3, d_model=8)
MASKED, DIFFUSION = networks.PEERS["SAITS"], networks.PEERS["CSDI"]


def gapped(seed: int = 0) -> tuple[np.ndarray, np.ndarray, WindowBatch]:
    """Windows [2, 3, 12] with a real gap, a mask, and the masked batch."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((2, 3, 12)).astype(np.float32)
    values[0, 1, 4:6] = np.nan
    hidden = rng.random(values.shape) < 0.4
    return values, hidden, hide(values, hidden)


def test_a_network_never_sees_a_hidden_cell() -> None:
    values, hidden, batch = gapped()
    given = networks.inputs(batch)
    seen, scored = (given[name].transpose(1, 2).numpy().astype(bool) for name in ("missing_mask", "indicating_mask"))
    assert given["X"].shape == (2, 12, 3)
    assert (seen == (np.isfinite(values) & ~hidden)).all()
    assert (scored == (np.isfinite(values) & hidden)).all()
    assert (given["X"].transpose(1, 2).numpy()[~seen] == 0).all()
    # Another truth in the hidden cells changes the target but not the input.
    other = networks.inputs(hide(np.where(hidden, values + 100, values), hidden))
    assert torch.equal(other["X"], given["X"])
    assert torch.equal(other["missing_mask"], given["missing_mask"])
    assert not torch.equal(other["X_ori"], given["X_ori"])


def test_the_error_without_pypots_names_the_command_to_install_it(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pypots", None)
    results = tiny / "paper.jsonl"
    command = ["--peers", "SAITS", "--only", "Tiny/block/0.3", "--results", str(results)]
    assert main([*command, "--plan"]) == 0
    assert "Tiny/block/0.3  SAITS  to train" in capsys.readouterr().out
    assert main([*command, "--minutes", "-1"]) == 2
    assert "expected --minutes of 0 or more, found -1" in capsys.readouterr().err
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.strip() == "error: --peers needs PyPOTS, which is not installed: pip install 'glaim-stream[peers]'"
    assert not (tiny / peers.FILE).exists()


class Levels(nn.Module):
    """The simplest trainable network with PyPOTS's interface: one level per sensor."""

    def __init__(self, sensors: int, start: float) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.full((sensors,), start))

    def forward(self, inputs: dict[str, Tensor], calc_criterion: bool = False) -> dict[str, Tensor]:
        seen = inputs["missing_mask"]
        filled = {"imputation": seen * inputs["X"] + (1 - seen) * self.level}
        if calc_criterion:
            filled["loss"] = ((self.level - inputs["X_ori"]).abs() * inputs["indicating_mask"]).mean()
        return filled


def levels(start: float = 3.0, rate: float = 0.1) -> Any:
    model = Levels(3, start)
    return SimpleNamespace(model=model, optimizer=torch.optim.Adam(model.parameters(), lr=rate))


def quiet(_: str) -> None:
    pass


def test_training_keeps_the_best_epoch_and_is_reproducible(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "EPOCHS", 6)
    monkeypatch.setattr(peers, "PATIENCE", 3)
    messages: list[str] = []
    imputer = levels()
    trained = peers.train(MASKED, imputer, CELL, 0, say=messages.append)
    scores = [float(text.split("validation mse ")[1].split(",")[0]) for text in messages]
    assert len(messages) == trained.epochs <= 6
    assert trained.ended in ("patience", "epochs")
    assert min(scores) == scores[trained.best_epoch - 1] == round(trained.validation, 4) < scores[0] / 2
    again = levels()
    assert peers.train(MASKED, again, CELL, 0, say=quiet).validation == trained.validation
    assert torch.equal(again.model.level, imputer.model.level)


def test_training_stops_without_progress_or_at_its_time_limit(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PATIENCE", 3)
    idle = peers.train(MASKED, levels(rate=0.0), CELL, 0, say=quiet)
    assert (idle.ended, idle.epochs, idle.best_epoch) == ("patience", 4, 1)
    short = peers.train(MASKED, levels(), CELL, 1e-9, say=quiet)
    assert (short.ended, short.epochs) == ("minutes", 1)


def test_observed_cells_pass_through_a_fill() -> None:
    _, _, batch = gapped()
    filled = networks.fill_of(levels().model)(batch.values, batch.observed)
    assert filled.shape == batch.values.shape
    assert (filled[batch.observed] == batch.values[batch.observed]).all()
    assert (filled[~batch.observed] == 3.0).all()


class Draws(nn.Module):
    """A network with the interface of CSDI: its draws are a level with noise, its loss is that of a random step."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.full((3, 1), 3.0))

    def forward(
        self, inputs: dict[str, Tensor], calc_criterion: bool = False, n_sampling_times: int = 1
    ) -> dict[str, Tensor]:
        if calc_criterion:
            assert self.training
            noise = torch.randn_like(inputs["X_ori"])
            return {"loss": ((self.level + noise - inputs["X_ori"]) ** 2 * inputs["indicating_mask"]).mean()}
        seen = inputs["cond_mask"].unsqueeze(1)
        drawn = self.level + torch.randn(len(seen), n_sampling_times, *seen.shape[2:])
        return {"imputation": (seen * inputs["X"].unsqueeze(1) + (1 - seen) * drawn).transpose(2, 3)}


def test_a_diffusion_never_sees_a_hidden_cell() -> None:
    values, hidden, batch = gapped()
    given = networks.diffusion_inputs(batch)
    assert given["observed_tp"].tolist() == [list(range(12))] * 2
    seen, scored = (given[name].numpy().astype(bool) for name in ("cond_mask", "indicating_mask"))
    assert (seen == (np.isfinite(values) & ~hidden)).all()
    assert (scored == (np.isfinite(values) & hidden)).all()
    assert (given["X"].numpy()[~seen] == 0).all()


def test_a_diffusion_answers_with_the_mean_of_its_draws() -> None:
    _, _, batch = gapped()
    torch.manual_seed(0)
    filled = networks.diffusion_fill_of(Draws())(batch.values, batch.observed)
    np.testing.assert_allclose(filled[batch.observed], batch.values[batch.observed], rtol=1e-6)  # the mean rounds
    scatter = (filled[~batch.observed] - 3.0).std()
    assert 0.5 < scatter * np.sqrt(networks.DRAWS) < 1.5


def peer_line(method: str, mse: float) -> Line:
    """A result line as `measure` writes it, with the given error."""
    cell = PaperCell("Illness", "block", 0.3, d_model=64)
    return {
        **peers.identified(method, cell), "mse": mse, "mae": 2 * mse, "parameters": 136478, "epochs": 17,
        "best_epoch": 16, "windows": 194, "seconds": 301.0, "processor_s": 125.0, "minutes": 5.0, "ended": "minutes",
        "interpolation_mse": 0.45, "interpolation_mae": 0.32, "last_value_mse": 1.38, "last_value_mae": 0.63,
        "machine": "an abacus", "date": "2026-11-21", "command": peers.command(method, cell, 5.0), "pypots": "1.5",
    }  # fmt: skip


def test_peers_are_shown_with_our_model_and_the_baselines_on_the_same_gaps(tmp_path: Path) -> None:
    assert peers_table.section(tmp_path, []) == ""
    found = [peer_line("SAITS", 0.25), peer_line("ImputeFormer", 0.2)]
    (tmp_path / peers.FILE).write_text("".join(json.dumps(line) + "\n" for line in found))
    cell = PaperCell("Illness", "block", 0.3, d_model=64, recipe="ours")
    training = {"epochs": 70, "finished": True, "seconds": 2100.0, "machine": "an abacus", "date": "2026-11-21"}
    ours = [
        {**identified(cell, TablePlace(table, (rate,))), "mse": 0.1, "mae": 0.2, **training}
        for table, rate in (("block", 0.3), ("shift", 0.3), ("shift", 0.5))
    ]
    form = {
        **identified(cell, TablePlace("block", (0.3,))), "recipe": "closed_form", "d_model": 0, "mse": 0.04,
        "mae": 0.08, "epochs": 0, "finished": True, "seconds": 6.0, "machine": "an abacus", "date": "2026-11-21",
    }  # fmt: skip
    over_it = {**form, "recipe": "cascade", "d_model": 32, "mse": 0.03, "mae": 0.07, "epochs": 30, "seconds": 1980.0}
    ours += [{**line, "draw": draw} for draw in range(3) for line in (form, over_it)]
    text = peers_table.section(tmp_path, ours)
    rows = [
        [part.strip() for part in line.strip("|").split("|")] for line in text.splitlines() if line[:9] == "| Illness"
    ]
    names = ["ours (ours)", "ours (closed form)", "ours (cascade)"]
    assert [row[3] for row in rows] == [*names, "ImputeFormer", "SAITS", "interpolation", "last value"]
    assert rows[1][4:7] == ["", "", "0.040 / 0.080"], "the tables' own draw alone"
    assert rows[1][9:11] == ["0.1", "its fit"]
    assert rows[2][4:11] == ["32", "", "0.030 / 0.070", "0.093 / 0.160", "30", "33", "its recipe"]
    assert rows[0][4:11] == ["64", "0.479 M", "0.100 / 0.200", "0.093 / 0.160", "70", "35", "its recipe"]
    printed = next(f for f in peers_table.published.full_row("block", "Illness", 0.3) if f.model == "SAITS")
    assert rows[4][4:7] == ["64", "0.136 M", "0.250 / 0.500"]
    assert rows[4][7:11] == [f"{printed.mse:.3f} / {printed.mae:.3f}", "17, best 16", "5 (2)", "minutes"]
    assert rows[5][6] == "0.450 / 0.320"


@needs_pypots
def test_every_peer_is_trained_scored_stored_and_not_run_again(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tiny / "paper.jsonl"
    command = ["--peers", "--only", "Tiny/block/0.3", "--d-model", "8", "--minutes", "0.0001"]
    command += ["--results", str(results)]
    assert main(command) == 0
    found = read(tiny / peers.FILE)
    assert [line["method"] for line in found] == list(networks.PEERS)
    for line in found:
        assert (line["windows"], line["epochs"], line["ended"]) == (49, 1, "minutes")
        assert line["parameters"] > 100
        assert 0 < line["mae"] < (1e6 if line["method"] == "CSDI" else 5)  # 50 steps multiply what is not trained yet
        assert 0 < line["interpolation_mse"] < line["last_value_mse"]
    text = results.with_suffix(".md").read_text()
    assert all(f"| Tiny | block | 0.3 | {method} | 8 |" in text for method in networks.PEERS)
    capsys.readouterr()
    assert main(command) == 0
    assert "6 peers, 6 done before" in capsys.readouterr().out
    assert read(tiny / peers.FILE) == found
