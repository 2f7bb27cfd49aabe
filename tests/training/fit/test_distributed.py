"""Two processes that share each batch train the same weights as one process; torchrun starts them over gloo."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from training import checkpoint as checkpoints
from training.config import read
from training.data import MaskSpec, WindowSet, draw, load, split
from training.fit import loop
from training.fit.distributed import World
from training.fit.loop import hidden_loss, hidden_weight

SETTINGS = (
    "model.d_model=8 model.layers=1 model.ffn=8 model.heads=2 model.d_psi=8 model.d_g=2 model.window=24 "
    "model.large_kernel=7 model.dropout=0.0 train.iterations=12 train.batch_size=6 train.validation_windows=20 "
    "train.epochs=2 train.ema=0.9 train.clip_norm=1.0 train.balance=0.5 data.split=[0.6,0.2,0.2]"
)


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
def test_the_losses_of_the_shares_sum_to_the_loss_of_the_batch(balance: float) -> None:
    values = np.random.default_rng(0).standard_normal((1, 3, 60)).astype(np.float32)
    drawn = next(draw(WindowSet(values, 24), MaskSpec(pattern="deployment"), 7, 1, 0))
    truth, hidden = torch.from_numpy(drawn.values), torch.from_numpy(drawn.hidden)
    filled = truth + torch.randn(truth.shape)
    total = hidden_weight(drawn, balance)
    shares = [World(rank, 3).share(7) for rank in range(3)]
    parts = [hidden_loss(filled[s], truth[s], hidden[s], 0.3, balance, total) for s in shares]
    assert sum(len(range(7)[s]) for s in shares) == 7
    assert float(sum(parts)) == pytest.approx(float(hidden_loss(filled, truth, hidden, 0.3, balance)), rel=1e-5)


def test_a_single_process_needs_no_communication() -> None:
    world = World()
    assert world.share(16) == slice(0, 16)
    assert world.any(True)
    assert not world.any(False)
    assert world.total(0.5) == 0.5
    assert world.broadcast([1, "a"]) == [1, "a"]


# Without this, torchrun and its two processes would outlive a test run that is killed.
END_WITH_PARENT = """
import signal
from deploy.guard import PR_SET_PDEATHSIG, prctl
prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
"""

TORCHRUN = (
    END_WITH_PARENT
    + """
from torch.distributed.run import main
main()
"""
)

SCRIPT = (
    END_WITH_PARENT
    + """
import os, sys
import torch.distributed as dist
from training.fit import command as fit
from training.fit import learner

steps = 0
if os.environ.get("STOP_AFTER"):
    original = learner.Learner.step
    def step(self, *given):
        global steps
        steps += 1
        if steps == int(os.environ["STOP_AFTER"]) and self.world.rank == 1:
            signal.raise_signal(signal.SIGTERM)  # only one process gets the signal; all must stop at the same iteration
        original(self, *given)
    learner.Learner.step = step
keep = learner.Learner.capture
def capture(self, state):
    keep(self, state)
    sums = self.world.gather(sum(w.double().abs().sum() for w in state.weights.values()).reshape(1))
    assert all(s.item() == sums[0].item() for s in sums), sums
learner.Learner.capture = capture
fit.score = fit.write_report_page = lambda *_: {}
fit.export_run = None
sys.exit(fit.main([*sys.argv[1:], "--no-export"]))
"""
)


def train(path: Path, out: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script in two processes, started by torchrun."""
    script, config = out.parent / "script.py", out.parent / "tiny.toml"
    script.write_text(SCRIPT)
    config.touch()
    settings = [f"--set={setting}" for setting in (f"data.file={path}", *SETTINGS.split())]
    torchrun = [sys.executable, "-c", TORCHRUN, "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [*torchrun, str(script), str(config), *settings, "--out", str(out), "--resume"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[3]), **environment},
        check=False, capture_output=True, text=True, timeout=170,
    )  # fmt: skip


def train_alone(path: Path, out: Path) -> None:
    """Run the same training in this process alone."""
    config = read(None, SETTINGS.split())
    series = load(config.data, path)
    out.mkdir()
    loop.train_network(config, series, split(series, config.data, config.model.window), out, say=lambda _: None)


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_two_processes_train_the_weights_of_one_and_resume_after_a_stop(wide_csv: Path, tmp_path: Path) -> None:
    done = train(wide_csv, tmp_path / "two")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all 2 epochs are done") == 1
    train_alone(wide_csv, tmp_path / "one")
    one, two = (checkpoints.load(tmp_path / name / "last.pt") for name in ("one", "two"))
    assert two.epoch == 2
    for name, tensor in one.averaged.items():
        torch.testing.assert_close(tensor, two.averaged[name], rtol=1e-3, atol=1e-5, msg=name)
    for first, second in zip(one.history, two.history, strict=True):
        assert first["loss"] == pytest.approx(second["loss"], rel=1e-4)
        assert first["validation_mse"] == pytest.approx(second["validation_mse"], rel=1e-3)
    lines = (tmp_path / "two" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line).get("epoch") for line in lines] == [None, 1, 2]

    stopped = train(wide_csv, tmp_path / "cut", STOP_AFTER="3")
    assert "continue with --resume" in stopped.stderr
    state = checkpoints.load(tmp_path / "cut" / "last.pt")
    assert (state.epoch, state.batch, len(state.torch_states)) == (0, 8, 2)
    assert train(wide_csv, tmp_path / "cut").returncode == 0
    cut = checkpoints.load(tmp_path / "cut" / "last.pt")
    assert all(torch.equal(tensor, cut.weights[name]) for name, tensor in two.weights.items())
