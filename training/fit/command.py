"""Train a GLAIM imputer on a file of sensor readings, score it, and export it for Triton.

    python -m training.fit training/configs/plant-pump.toml
    python -m training.fit mine.csv --minutes 10
    python -m training.fit mine.csv --model gaussian
    python -m training.fit training/configs/plant-pump.toml --model habits
    python -m training.fit training/configs/beijing-air.toml --resume
    python -m training.fit training/configs/beijing-air.toml --seeds 2021,2022,2023
    torchrun --nproc-per-node 2 -m training.fit training/configs/beijing-air.toml --device cuda

The file is one that `glaim-stream fill` reads, and is read in the same way: wide (a row a time, a column a sensor;
`<group>.<sensor>` columns hold many groups) or long (a reading a row: time, sensor, value, and possibly group, as
`glaim-stream dump` writes). Empty cells and numbers that mean no value are real gaps: the model takes them as missing,
and they enter no loss and no score.

A file without a configuration needs no other setting: time column, layout and groups are found out and reported;
network and number of steps follow from the size of the data, the speed of the machine and --minutes. Given settings are
kept; --print-config > mine.toml saves the result. The closed form and the forms of folds count in --minutes: fewer
folds are fitted where four do not fit in, and no network is trained where not even two do. groups.yaml in the run's
directory is the catalogue with which a worker serves the model.

The rows are split in time order into training, validation and test. The mask patterns of the run hide observed cells,
and the loss covers those cells alone. After every epoch the model is validated on gaps that never change; the best
weights are kept, and training stops when they no longer improve. Then the test part is scored beside the closed form,
linear interpolation, last value and mean, and the model is exported.

The closed form (a Gaussian conditional mean) comes first: it is fitted from the training part and written to
gaussian.npz in the model's folder seconds after the start, so there is something to serve while the network trains. A
network for a file without a configuration begins as the closed form and learns to correct it; afterwards it keeps of
its correction what validation gains by, for each sensor and distance from an observation. The network is exported only
if it beats the closed form on validation, in the geometric mean over all cases and both errors; otherwise the closed
form stays what is served, the command says so, and the exit code is 0. Then the test part decides, beside the better of
interpolation and last value: the network is refused if its errors are higher in the geometric mean over all cases,
squared and absolute, or if both are higher by 5 % or more in a single case. So a network that loses some cases by less
is exported, with a note on each, and one that loses a single case clearly is refused however many it wins.
--model gaussian stops after the closed form. --model habits fits nothing: it learns from the training part what is
usual of the sensors and writes that beside the closed form that is there, which keeps its bits.

Files:

    build/runs/<name>/             the run; another directory with --out
        last.pt, best.pt           checkpoints, loaded without running code
        curves.csv, log.jsonl      one line an epoch; the log begins with the configuration, command and machine
        <name>.md, <name>.json     the scores; also in the directory that --results names
        report.html, report.json   the run as a page
        gaussian.npz               the closed form
        groups.yaml                a catalogue of the exported model for the worker
        tensorboard/               the same curves as events, with --tensorboard
        seed-<N>/, seeds.md        with --seeds: each run, and mean and deviation of their scores
    model_repo/<name>/             what Triton serves; another repository with --model-repo

last.pt is written after every epoch and every few minutes within one (train.checkpoint_minutes). SIGTERM or Ctrl-C
finishes the iteration, writes it and ends with exit code 143 or 130. --resume continues from there: on a CPU the
weights end up the same to the bit as without the stop. A directory with a run is not overwritten without --fresh.

If the configuration or the data cannot be used, nothing is written: a message on standard error states what was
expected and what was found, and the exit code is 2. It is 3 if neither the network nor the closed form beats
interpolation and last value on validation, or if the network beats the closed form there and the test part refuses it;
it is not exported then.

A configuration is TOML with the sections [data], [model], [masks], [train], [export] and [tune]; every setting can also
be given as --set section.key=value. --print-config lists the settings and their defaults. Several processes, as started
by torchrun, share each batch, so the recipe stays the same. python -m training.fit.tune searches for better settings.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glaim_stream.core.errors import GlaimError, listed
from training import checkpoint as checkpoints
from training import config as configs
from training.autoconfig import MINUTES, next_steps
from training.checkpoint import Checkpoint
from training.config import RunConfig
from training.data import GroupSeries, load, split
from training.errors import ConfigError, DataError, ExportRefused, NetworkTooSlow, exits_with_errors, print_error
from training.evaluate import evaluate_form, evaluate_run, markdown, write_report
from training.export import export_run, rehearse
from training.fit import distributed, logs, loop, seeds
from training.fit.budget import MOST, TimeBudget, spent
from training.fit.closed_form import Exported, compare, fit_and_export, replay_lines, write_catalogue
from training.fit.distributed import say
from training.fit.habits import add_habits
from training.fit.options import parser, read_config
from training.report import write_page
from training.runtime import Interrupted, known_device

_SCORED_LATE = 600  # windows of a case, where the closed form has used up the time
_PICTURED = 300  # windows of a case on the page, at most


def goes_on(directory: Path, config: RunConfig, given: argparse.Namespace) -> bool:
    """Whether to resume the run in a directory; an existing run is never overwritten without --fresh.

    Raises:
        ConfigError: there is a run, and neither --resume nor --fresh was given.
    """
    last = directory / "last.pt"
    if given.resume and not last.is_file():
        say(f"nothing to resume in {directory}: starting from the beginning")
    if given.fresh or not last.is_file():
        return False
    if not given.resume:
        state = checkpoints.load(last)
        why = loop.ended(state, config.train)
        raise ConfigError(
            f"{directory} holds a run that is {f'finished ({why})' if why else 'not finished'} after {state.epoch} "
            "epochs: continue with --resume, train from the start with --fresh (its checkpoints are removed), or give "
            "another --out"
        )
    return True


def train(
    config: RunConfig, directory: Path, series: GroupSeries, given: argparse.Namespace, command: str,
    until_s: float | None = None,
) -> Checkpoint:  # fmt: skip
    """Train one run; return its best checkpoint, with the epochs and seconds of the whole training."""
    parts = split(series, config.data, config.model.window)
    resume = goes_on(directory, config, given)
    first = distributed.world().first
    created = not directory.exists()
    listen = logs.tensorboard(directory / "tensorboard") if given.tensorboard and first else logs.nothing
    directory.mkdir(parents=True, exist_ok=True)
    try:
        best = loop.train_network(
            config,
            series,
            parts,
            directory,
            resume=resume,
            say=say,
            command=command,
            on_epoch=listen,
            until_s=until_s,
        )
    except GlaimError:
        if first and created and not any(directory.iterdir()):
            directory.rmdir()
        raise
    state = checkpoints.load(directory / "last.pt")
    return dataclasses.replace(best, seconds=state.seconds, epoch=state.epoch)


def score(
    best: Checkpoint, base: Exported | None, directory: Path, path: Path, given: argparse.Namespace, command: str,
    most: int = MOST,
) -> dict[str, Any]:  # fmt: skip
    """Score a run on at most so many windows of each case of the test part, and print a summary of the report."""
    say(f"scoring the test part, on up to {most:,} windows of each case")
    report = evaluate_run(best, data=path, most=most, form=None if base is None else base.form)
    if base is not None:
        base.form.save(directory)
    show(report, directory, given, command)
    return report


def show(report: dict[str, Any], directory: Path, given: argparse.Namespace, command: str) -> None:
    """Write a report and print its summary."""
    for target in {directory, given.results or directory}:
        write_report(report, command, target)
    print(markdown(report, command).split("\n## ", 2)[1])


def _read(config: RunConfig) -> GroupSeries:
    """Read the data, and report what was left out."""
    series = load(config.data, configs.data_path(config.data.file))
    if series.stray:
        say(f"left out: {series.stray} rows of {series.source} whose times lie far from all others")
    if series.withheld:
        each = listed([f"{sensor} {count:,}" for sensor, count in series.withheld.items()])
        say(f"left out: cells of {series.source} that are doubtful or no number, by sensor: {each}")
    if series.doubted:
        say(
            f"left out: {series.doubted} readings of {series.source} that stand apart from those around them; "
            "--no-plausibility keeps them"
        )
    return series


def fit_gaussian(config: RunConfig, given: argparse.Namespace, command: str) -> None:
    """Fit, score and export the closed form alone."""
    series = _read(config)
    base = fit_and_export(config, series, given.model_repo or "", say, export=not given.no_export)
    if base is None:
        raise DataError("there is no closed form, and --model gaussian asks for no network")
    finish_form(base, config, series, given, command)


def finish_form(
    base: Exported, config: RunConfig, series: GroupSeries, given: argparse.Namespace, command: str, most: int = MOST
) -> None:
    """Score the closed form on at most so many windows of each case, and print what puts it to work."""
    directory: Path = given.out or Path("build") / "runs" / config.name
    base.form.save(directory)
    show(evaluate_form(base.form, base.seconds, config, series, most=most), directory, given, command)
    if base.folder is not None:
        for line in write_catalogue(config, series, base.folder, directory):
            say(line)
        for line in replay_lines(config, base.folder.parent, directory, "gaussian"):
            say(line)


def fit(config: RunConfig, given: argparse.Namespace, command: str, budget: TimeBudget) -> None:
    """Train, score and export; nothing is written before the data has been read."""
    path = configs.data_path(config.data.file)
    series = _read(config)
    directory: Path = given.out or Path("build") / "runs" / config.name
    runs = seeds.runs(config, given.seeds, directory) if given.seeds else {directory: config}
    if not given.resume:
        for place, run in runs.items():
            goes_on(place, run, given)  # raises before the first run costs time
    if not given.no_export:
        rehearse(config, series, given.model_repo or "")
    base = None
    if os.environ.get("RANK", "0") == "0":
        base = fit_and_export(config, series, given.model_repo or "", say, export=not given.no_export)
    try:
        until_s = budget.training_ends_s()
        if until_s is not None:
            left_s = until_s - time.monotonic()
            say(f"the closed form is ready after {budget.spent_s():.0f} s; training ends in {left_s:.0f} s")
        with distributed.together(config.train.device) as world:
            trained = {place: train(run, place, series, given, command, until_s) for place, run in runs.items()}
    except NetworkTooSlow as slow:
        if base is None:
            raise
        say(str(slow))
        finish_form(base, config, series, given, command, _SCORED_LATE)
        return
    if not world.first:
        return
    if given.seeds:
        directory = seeds.summarise(trained, directory, path, command, say, None if base is None else base.form)
    best = trained[directory]
    most = budget.windows(best, None if base is None else base.form, series)
    began_s = time.monotonic()
    report = score(best, base, directory, path, given, command, most)
    most = budget.fewer(most, time.monotonic() - began_s)
    pictured = min(_PICTURED, max(_PICTURED // 10, most // 20))
    if given.no_export:
        write_report_page(directory, path, None, report, command, pictured)
        return
    if base is not None and not given.force_export:
        found = compare(best, base.form, series, most)
        say(found.verdict())
        if found.network >= 1:
            if found.form >= 1:
                write_report_page(directory, path, None, report, command, pictured)
                raise ExportRefused(
                    f"neither the network nor the closed form beats the baselines on validation: the closed form's "
                    f"error is {found.form:.2f} times theirs. The network is not exported"
                )
            say(f"the network does not beat the closed form and is not exported: {base.folder} serves the closed form")
            write_report_page(directory, path, None, report, command, pictured)
            if base.folder is not None:
                for line in write_catalogue(config, series, base.folder, directory):
                    say(line)
                for line in replay_lines(config, base.folder.parent, directory, "gaussian"):
                    say(line)
            return
    say("measuring residuals and exporting")
    repository = given.model_repo or ""
    try:
        exported = export_run(
            best, report, data=path, directory=repository, most=min(600, max(60, most // 10)),
            force=given.force_export, say=say,
        )  # fmt: skip
    except ExportRefused:  # the page shows the reason
        write_report_page(directory, path, None, report, command, pictured)
        raise
    say(f"wrote {exported}")
    write_report_page(directory, path, exported, report, command, pictured)
    for line in next_steps(exported, series.groups, directory, config.data):
        say(line)
    for line in replay_lines(config, exported.parent, directory, "local"):
        say(line)


def write_report_page(
    directory: Path, data: Path, exported: Path | None, report: dict[str, Any], command: str, windows: int
) -> None:
    """Write the report page of a run on so many windows of a case, with the exported intervals if there are any."""
    page = write_page(
        directory, data=data, contract=exported, evaluation=report, command=command, windows=windows
    )  # fmt: skip
    say(f"wrote {page}")


@exits_with_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    began_s = time.monotonic()
    given = parser(__doc__).parse_args(arguments)
    if given.config is not None and given.config.suffix != ".toml" and given.data is None:
        given.data, given.config = str(given.config), None
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            config = read_config(given)
        except NetworkTooSlow as slow:
            print_error(str(slow)) if given.print_config else say(str(slow))
            given.model = "gaussian"
            config = read_config(given)
        if given.print_config:
            print(config.to_toml(), end="")
            return 0
        if given.model == "glaim":
            known_device(config.train.device)  # before the closed form and the measurement of a step
        command = logs.command_line("python -m training.fit", words)
        if given.lose and given.model != "habits":
            raise ConfigError("--lose is for --model habits; the data of a fit are taken as they are")
        if given.even_stamps and given.model != "habits":
            raise ConfigError("--even-stamps is for --model habits; a fit judges no clocks")
        if given.model == "gaussian":
            fit_gaussian(config, given, command)
        elif given.model == "habits":
            if given.no_export:
                raise ConfigError("--model habits writes habits beside a closed form, --no-export forbids it")
            repository = given.model_repo or ""
            add_habits(config, _read(config), repository, say, lose=given.lose, even_stamps=given.even_stamps)
        else:
            budget = TimeBudget(_minutes_of(given), began_s)
            fit(config, given, command, budget)
            if budget.minutes:
                say(spent(given.out or Path("build") / "runs" / config.name, budget))
    except Interrupted as stop:
        return _end(str(stop), 128 + (stop.signal or signal.SIGINT))
    except KeyboardInterrupt:
        return _end("stopped; continue with --resume", 130)
    return 0


def _minutes_of(given: argparse.Namespace) -> float:
    """The minutes of the whole run; 0 where its steps are stated, or were chosen by a former start."""
    stated = given.config is not None or given.resume or given.seeds
    if stated or (not given.minutes and (given.epochs or any(each.startswith("train.") for each in given.set))):
        return 0.0
    return float(given.minutes or MINUTES)


def _end(message: str, code: int) -> int:
    """Print a message on standard error and return the exit code."""
    print_error(message)
    return code


if __name__ == "__main__":
    sys.exit(main())
