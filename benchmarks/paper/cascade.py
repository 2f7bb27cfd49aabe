"""The recipe `cascade`: GLAIM over the closed form, one training for all cells of a data set.

    python -m benchmarks.paper cascade --only Illness --d-model 64           train, then score every draw of its cells
    python -m benchmarks.paper cascade --only ETTh1 --epochs 4 --draws 2     a trial; its lines are marked

One network learns from blocks and single cells at rates from 0.1 to 0.7; its settings are the same for all data sets.
So every cell also has a line in the tables of the missing-rate shift: the same numbers beside other figures of the
paper.
The command can be stopped or killed at any time and continues: the closed forms of the folds, the filled windows, the
training (a checkpoint every half minute) and the scored cells are stored.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from benchmarks.paper import lines, published, subcommand, tables
from benchmarks.paper.blend import Blend, fit_blend
from benchmarks.paper.cells import PAPER_WIDTH, SEED, PaperCell
from benchmarks.paper.closed_form import cells_of
from benchmarks.paper.datasets import DATASETS, WINDOW, read
from benchmarks.paper.draws import DRAWS
from benchmarks.paper.feed import FilledWindows, filled_batch
from benchmarks.paper.form_means import CASCADE, shifted
from benchmarks.paper.lines import Line
from benchmarks.paper.run import ROOT
from benchmarks.paper.score import HiddenCells, baselines, parts, rows_of_form
from training import checkpoint as checkpoints
from training import closed_form
from training.checkpoint import Checkpoint
from training.config import RunConfig, TrainSpec, build
from training.data import SEGMENTS, MaskSpec, fit_scale
from training.errors import exits_with_errors
from training.evaluate import ErrorTally, restore
from training.fit import FoldForms, ended, fit_folds, log_header, train_network
from training.network import GLAIM, GLAIMConfig
from training.runtime import ProgressLine, device, keep_memory, known_device, machine

EPOCHS = 30
FOLDS = 6
RATES = (published.RATES[0], published.RATES[-1])
MASKS = MaskSpec(pattern="deployment", rates=RATES, weights={"random": 0.5, "block": 0.5})
# `balance` 2 divides a window's squared errors by the square of their number: with errors that grow in proportion to
# the rate, as they do here, dense and sparse windows then count alike.
TRAIN = TrainSpec(
    epochs=EPOCHS, iterations=200, batch_size=16, schedule="cosine", warmup=100, clip_norm=1.0, ema=0.995, patience=300,
    validation_windows=400, balance=2.0, checkpoint_minutes=0.5,
)  # fmt: skip
_BATCH = 64
Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Run:
    """A training: its data set, width, number of epochs if it is a trial, the flag `--every`, and its device."""

    dataset: str
    d_model: int = PAPER_WIDTH
    epochs: int = 0
    seed: int = SEED
    given_every: int | None = None
    device: str = "cpu"

    @property
    def every(self) -> int:
        """Interval between scored test windows."""
        return self.given_every or DATASETS[self.dataset].every

    @property
    def recipe_name(self) -> str:
        """The recipe, marked if a trial shortens it."""
        return f"{CASCADE}-e{self.epochs}" if self.epochs else CASCADE

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.dataset}-{self.recipe_name}-s{self.seed}-d{self.d_model}"

    @property
    def command(self) -> str:
        """The command that trains and scores it again."""
        text = f"python -m benchmarks.paper cascade --only {self.dataset} --d-model {self.d_model}"
        text += f" --epochs {self.epochs}" if self.epochs else ""
        text += f" --seed {self.seed}" if self.seed != SEED else ""
        text += f" --device {self.device}" if self.device != "cpu" else ""
        return text + (f" --every {self.every}" if self.every > 1 else "")

    @property
    def config(self) -> RunConfig:
        """The settings of the training."""
        dataset = DATASETS[self.dataset]
        train = dataclasses.replace(
            TRAIN, seed=self.seed, learning_rate=2 * dataset.learning_rate, epochs=self.epochs or EPOCHS,
            device=self.device,
        )  # fmt: skip
        sizes = GLAIMConfig(dataset.sensors, d_model=self.d_model, d_g=dataset.d_g, cascade=True)
        return RunConfig(name=self.name, data=dataset.spec, model=sizes, masks=MASKS, train=train)


@dataclasses.dataclass(frozen=True)
class TrainedCascade:
    """A trained network with the closed form that fills its windows and the weights of the answers.

    run: the training run, with its device; the network may be on another one.
    machine: machine of the training; empty if its log is gone.
    epoch: epoch of the network's weights.
    """

    run: Run
    network: GLAIM
    epoch: int
    last: Checkpoint
    finished: bool
    forms: FoldForms
    blend: Blend
    machine: str


def train(run: Run, root: Path, say: Say, *, score_only: bool = False) -> TrainedCascade:
    """Fit the forms, train from the last checkpoint on, and choose network and weights of the answers by validation.

    The network is that of the best epoch or of the last one, whichever has the better blend. The best epoch is that of
    the lowest squared error, which in series that drift is that of a few windows.
    """
    torch.set_num_threads(1)
    directory = root / run.name
    directory.mkdir(parents=True, exist_ok=True)
    split = parts(run.dataset, WINDOW)
    config = run.config
    folder = root / f"{run.dataset}-forms"
    forms = fit_folds(
        rows_of_form(run.dataset, WINDOW), WINDOW, folder, lambda text: say(f"{run.dataset}  {text}"), FOLDS,
        split.validation, only_numbers=True,
    )  # fmt: skip
    feed = FilledWindows(config, split, forms, directory / "pool")
    last = directory / "last.pt"
    if not score_only:
        train_network(
            config, read(DATASETS[run.dataset]), split, directory, resume=last.is_file(),
            say=lambda text: say(f"{run.name}  {text}"), command=run.command, feed=feed,
        )  # fmt: skip
    state, best = checkpoints.load(last), checkpoints.load(directory / "best.pt")
    epochs = {best.epoch: best, state.epoch: dataclasses.replace(state, weights=state.averaged)}
    found = []
    for epoch, weights in epochs.items():
        network = restore(weights)[1].to(device(run.device))
        blend, error = fit_blend(network, feed.validation)
        say(f"{run.name}  epoch {epoch}, mean log error of the blend on validation {error:.4f}; weights {blend}")
        found.append((error, epoch, network, blend))
    _, epoch, network, blend = min(found, key=lambda each: each[0])
    stored = build(json.loads(state.config)).train
    run = dataclasses.replace(run, device=stored.device)
    trained_on = str(log_header(directory).get("machine", ""))
    return TrainedCascade(run, network, epoch, state, bool(ended(state, stored)), forms, blend, trained_on)


def score(trained: TrainedCascade, cells: HiddenCells, progress: ProgressLine) -> dict[str, ErrorTally]:
    """Score the blend, and each of its answers."""
    fill = closed_form.fill_of(trained.forms.whole, fit_scale(parts(cells.dataset, WINDOW).train))
    tallies: dict[str, ErrorTally] = {}
    progress.begin(cells.name, len(cells))
    for hidden, end_ms in cells.batches(_BATCH):
        batch = filled_batch(hidden, fill(hidden.values, hidden.observed, end_ms))
        for name, answer in trained.blend.answers(trained.network, batch.values, batch.observed).items():
            tallies.setdefault(name, ErrorTally(cells.sensors)).add(answer, batch.truth, batch.hidden)
        progress.step(count=len(end_ms))
    progress.end()
    return tallies


def identified(run: Run, cell: PaperCell, draw: int) -> Line:
    """Return the part of a line that identifies it."""
    sizes = run.config.model
    return {
        "table": cell.pattern, "dataset": cell.dataset, "pattern": cell.pattern, "train_rate": cell.rate,
        "test_rate": cell.rate, "variant": "full", "seed": run.seed, "recipe": run.recipe_name,
        "d_model": run.d_model, "layers": sizes.layers, "large_kernel": sizes.large_kernel,
        "segments": list(SEGMENTS) if cell.pattern == "block" else None, "draw": draw,
    }  # fmt: skip


def machines(trained_on: str) -> str:
    """Describe the machine that scores, and that of the training if it is another one."""
    here = machine()
    return here if trained_on in ("", here) else f"{here}; trained on {trained_on}"


def line_of(trained: TrainedCascade, cell: PaperCell, draw: int, progress: ProgressLine) -> Line:
    """Score one draw of a cell and make its line; `parts_mse` has the error of each answer alone."""
    cells = HiddenCells(cell.dataset, cell.pattern, cell.rate, draw, trained.run.every)
    tallies = score(trained, cells, progress)
    own = tallies.pop("blend")
    figure = published.glaim(cell.pattern, cell.dataset, cell.rate, shifted=False)
    values: Line = {
        **identified(trained.run, cell, draw), "mse": own.mse, "mae": own.mae,
        "paper_mse": None if figure is None else figure.mse, "paper_mae": None if figure is None else figure.mae,
        "epochs": trained.last.epoch, "best_epoch": trained.epoch, "seconds": round(trained.last.seconds, 1),
        "finished": trained.finished, "machine": machines(trained.machine),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"), "command": trained.run.command, "test_rates": [cell.rate],
    }  # fmt: skip
    for name, bar in baselines(cells).items():
        values["windows"] = bar.windows
        values |= {f"{name}_mse": bar.mse, f"{name}_mae": bar.mae}
    extra = {
        "draw": draw, "digest": trained.forms.whole.digest[:16],
        "blend": {name: [round(weight, 4) for weight in each] for name, each in trained.blend.weights.items()},
        "parts_mse": {name: tally.mse for name, tally in tallies.items()},
    }  # fmt: skip
    return {key: values[key] for key in lines.KEYS} | extra


def work(
    wanted: Sequence[PaperCell], draws: int, root: Path, results: Path, say: Say, runs: Sequence[Run], *,
    score_only: bool = False,
) -> None:  # fmt: skip
    """Train each data set's network and score the cells that have no line of this state of it."""
    progress = ProgressLine(say)
    for run in runs:
        trained = train(run, root, say, score_only=score_only)
        for draw in range(draws):
            for cell in [cell for cell in wanted if cell.dataset == run.dataset]:
                kept = {lines.identity(line): line for line in lines.read(results)}
                line = kept.get(lines.identity(identified(run, cell, draw)))
                state = (trained.forms.whole.digest[:16], trained.last.epoch, trained.epoch, trained.run.command)
                if line is not None and (line["digest"], line["epochs"], line["best_epoch"], line["command"]) == state:
                    moved = shifted(line)
                    if kept.get(lines.identity(moved)) != moved:
                        lines.put(results, [moved])
                    continue
                line = line_of(trained, cell, draw, progress)
                lines.put(results, [line, shifted(line)])
                alone = ", ".join(f"{name} {error:.4f}" for name, error in line["parts_mse"].items())
                say(
                    f"{cell.dataset}/{cell.pattern}/{cell.rate:g}, draw {draw}: "
                    f"{tables.errors(line['mse'], line['mae'])}, paper "
                    f"{tables.errors(line['paper_mse'], line['paper_mae'])}; {alone}"
                )


@exits_with_errors
def main(arguments: Sequence[str]) -> int:
    """Run the command line; return 0, 2 for bad input, 130 or 143 when stopped."""
    parser = subcommand.parser(CASCADE, __doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, help="draws of the masks (default %(default)s)")
    parser.add_argument("--d-model", type=int, default=PAPER_WIDTH, help="hidden dimension (default %(default)s)")
    parser.add_argument("--epochs", type=int, default=0, help=f"of a trial, instead of {EPOCHS}; marked in the lines")
    parser.add_argument("--seed", type=int, default=SEED, help="random seed (default %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda, of training and scoring (default %(default)s)")
    parser.add_argument("--score-only", action="store_true", help="score the checkpoint as it is")
    parser.add_argument("--runs", type=Path, default=ROOT, help="checkpoints (default %(default)s)")
    parser.add_argument("--results", type=Path, default=lines.RESULTS, help=lines.HELP)
    given = subcommand.parsed(parser, arguments)
    given.results = lines.file_in(given.results)
    known_device(given.device)
    keep_memory()
    wanted = cells_of(given.only)
    runs = [
        Run(name, given.d_model, given.epochs, given.seed, given.every, given.device)
        for name in dict.fromkeys(cell.dataset for cell in wanted)
    ]
    return subcommand.until_stopped(
        lambda: work(
            wanted, given.draws, given.runs, given.results, lambda text: print(text, flush=True), runs,
            score_only=given.score_only,
        ),
        given.results,
    )  # fmt: skip
