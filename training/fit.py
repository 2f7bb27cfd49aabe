"""Train a GLAIM imputer on a file of sensor readings, score it, and export it for Triton.

    python -m training.fit training/configs/plant-pump.toml
    python -m training.fit --data mine.csv --time timestamp --name mine --set train.epochs=20
    python -m training.fit training/configs/beijing-air.toml --resume

The file is CSV, TSV or Parquet, wide (a row a time, a column a sensor; `<group>.<sensor>` columns pool many groups
with --separator .) or long (a row a reading: time, sensor, value, and perhaps group). Empty cells and declared
sentinels are real gaps: the model sees them as missing, no loss or score touches them.

The rows are cut in time order into training, validation and test. Cells that were observed are hidden by the mask
patterns of the run, and the loss is on those cells alone. After every epoch the model is validated on gaps that never
change; the best weights are kept, and training stops when they get no better. Then the test part is scored beside
linear interpolation, last value and mean, and the model is exported.

What is written:

    build/runs/<name>/             the run; another directory with --out
        last.pt, best.pt           checkpoints: go on with --resume; loaded without running code
        curves.csv                 one line an epoch
        <name>.md, <name>.json     the scores; also in the directory that --results names
    model_repo/<name>/             what Triton serves; another repository with --model-repo

Nothing is written when the configuration or the data cannot be used: a sentence on standard error says what was
expected and what was found, and the exit code is 2. A model that does not beat the baselines is trained, scored and not
exported: exit code 3, and what was served before stays; --force-export overrules it.

A configuration is TOML with the sections [data], [model], [masks], [train] and [export]; every setting of them can be
given on the command line as --set section.key=value. The settings and their defaults: --show-config.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from glaim_stream.errors import GlaimError
from training import checkpoint as checkpoints
from training import config as configs
from training import loop
from training.checkpoint import Checkpoint
from training.config import RunConfig
from training.data import load, split
from training.errors import ExportRefused
from training.evaluate import evaluate_run, markdown, write_report
from training.export import export_run

SHORTCUTS = {
    "name": "name",
    "data": "data.file",
    "layout": "data.layout",
    "time": "data.time",
    "separator": "data.separator",
    "group": "data.group",
    "sensor": "data.sensor",
    "value": "data.value",
    "masks": "masks.pattern",
    "epochs": "train.epochs",
    "d_model": "model.d_model",
    "device": "train.device",
    "seed": "train.seed",
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m training.fit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("config", nargs="?", type=Path, help="TOML file of the run")
    data = made.add_argument_group("data")
    data.add_argument("--data", help="file; a bare name is also looked for in the folder that GLAIM_DATA names")
    data.add_argument("--layout", choices=["wide", "long"], help="default wide")
    data.add_argument("--time", help="time column: timestamps, ISO 8601 text or epoch ms (default time)")
    data.add_argument("--separator", help="wide: splits <group><separator><sensor> column names")
    data.add_argument("--group", help="long: group column, when there are several groups")
    data.add_argument("--sensor", help="long: sensor column (default sensor)")
    data.add_argument("--value", help="long: value column (default value)")
    run = made.add_argument_group("run")
    run.add_argument("--name", help="name of the run and of the model")
    run.add_argument(
        "--masks", help="random, block, tail_one, tail_several, tail_all, silent or deployment (default block)"
    )
    run.add_argument("--epochs", help="at most so many (default 300)")
    run.add_argument("--d-model", dest="d_model", help="width of the network (default 128)")
    run.add_argument("--device", help="cpu or cuda (default cpu)")
    run.add_argument("--seed", help="default 2021")
    run.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="any setting; may be repeated"
    )
    files = made.add_argument_group("files")
    files.add_argument("--out", type=Path, help="directory of the run (default build/runs/<name>)")
    files.add_argument("--results", type=Path, help="a second directory for the scores")
    files.add_argument("--model-repo", help="model repository to export to (default: export.directory, model_repo)")
    files.add_argument("--resume", action="store_true", help="go on from last.pt")
    files.add_argument("--no-export", action="store_true", help="train and score only")
    files.add_argument(
        "--force-export", action="store_true", help="export even a model that does not beat the baselines"
    )
    files.add_argument("--show-config", action="store_true", help="print the configuration as JSON and end")
    return made


def read_config(given: argparse.Namespace) -> RunConfig:
    """The run's configuration: file, then shortcuts, then --set."""
    overrides = [f"{key}={json.dumps(value) if not value.lstrip('-').isdigit() else value}"
                 for name, key in SHORTCUTS.items() if (value := getattr(given, name)) is not None]  # fmt: skip
    return configs.read(given.config, [*overrides, *given.set])


def write_curves(state: Checkpoint, path: Path) -> None:
    """curves.csv: one line an epoch."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(state.history[0]))
        writer.writeheader()
        writer.writerows(state.history)


def fit(config: RunConfig, given: argparse.Namespace, command: str) -> None:
    """Train, score, export; nothing is written before the data has been read and understood."""
    path = configs.data_path(config.data.file)
    series = load(config.data, path)
    parts = split(series, config.data, config.model.window)
    directory: Path = given.out or Path("build") / "runs" / config.name
    created = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    try:
        best = loop.run(config, series, parts, directory, resume=given.resume, say=say)
    except GlaimError:
        if created and not any(directory.iterdir()):
            directory.rmdir()
        raise
    state = checkpoints.load(directory / "last.pt")
    write_curves(state, directory / "curves.csv")
    best = dataclasses.replace(best, seconds=state.seconds, epoch=state.epoch)
    say("scoring the test part")
    report = evaluate_run(best, data=path)
    for target in {directory, given.results or directory}:
        write_report(report, command, target)
    print(markdown(report, command).split("\n## ", 2)[1])
    if not given.no_export:
        say("measuring residuals and exporting")
        place = given.model_repo or ""
        say(f"wrote {export_run(best, report, data=path, directory=place, force=given.force_export, say=say)}")


def say(text: str) -> None:
    """A line at once, also into a file."""
    print(text, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns 0, or 2 with a sentence on standard error."""
    given = parser().parse_args(arguments)
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Results are published: the file's name is enough, the folders of the machine that ran it are nobody's business.
    words = [Path(word).name if Path(word).is_absolute() else word for word in words]
    try:
        config = read_config(given)
        if given.show_config:
            print(json.dumps(dataclasses.asdict(config), indent=2))
            return 0
        fit(config, given, f"python -m training.fit {shlex.join(words)}")
    except ExportRefused as refused:
        print(f"refused: {refused}", file=sys.stderr)
        return refused.exit_code
    except GlaimError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; go on with --resume", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
