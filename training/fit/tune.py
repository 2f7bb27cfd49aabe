"""Search for better settings of a run with Optuna, which is an extra: pip install optuna.

    python -m training.fit.tune training/configs/beijing-air.toml --trials 20
    python -m training.fit.tune mine.toml --search model.d_model=32,64,128 train.learning_rate=1e-4..1e-2
    python -m training.fit build/tune/mine/best.toml

The settings to search are in the configuration; the command line adds to them:

    [tune]
    trials = 20
    [tune.search]
    "model.d_model" = [32, 64, 128]            # choices
    "train.learning_rate" = "1e-4..1e-2"       # bounds; logarithmic, the upper one is ten times the lower or more
    "model.layers" = "1..3"                    # whole numbers, both bounds included

Each trial trains the run with its settings and is scored by the best validation MSE; a trial that is worse than the
median of the others after as many epochs is stopped. The test part is never used. The sampler is TPE with the run's
seed.

Files: build/tune/<name>/study.db, the trials, from which the same command continues after a stop; best.toml, the whole
run with the best settings, for training.fit; trial-<N>/, the records of each trial.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from training import config as configs
from training.config import RunConfig, toml_value
from training.data import GroupSeries, load, split
from training.errors import ConfigError, TrainingError, exits_with_errors
from training.fit import loop
from training.fit.logs import Row
from training.runtime import Interrupted

Choice = str | tuple[Any, ...]
STARTUP_TRIALS = 5  # trials drawn at random, before TPE and the median have enough data


def space(config: RunConfig, given: Sequence[str]) -> dict[str, Choice]:
    """Return the choices, or bounds as text, of each setting: from [tune.search], then from the command line.

    Raises:
        ConfigError: no setting is given, the run does not have it, or it does not take a value.
    """
    found: dict[str, Choice] = dict(config.tune.search)
    for text in given:
        name, separator, values = text.partition("=")
        if not separator:
            raise ConfigError(f"expected a search like model.d_model=32,64 or train.ema=0.9..0.999, found {text!r}")
        found[name] = values if ".." in values else tuple(toml_value(part.strip()) for part in values.split(","))
    if not found:
        raise ConfigError("nothing to search for: give --search or [tune.search]")
    for name, choice in found.items():
        for value in bounds(name, choice) if isinstance(choice, str) else choice:
            settled(config, {name: value})
    return found


def bounds(name: str, text: str) -> tuple[float, float]:
    """Parse bounds like "1e-4..1e-2": two numbers, both int or both float."""
    low, _, high = (toml_value(part.strip()) if part != ".." else part for part in text.partition(".."))
    if not all(isinstance(number, (int, float)) for number in (low, high)) or not low < high:
        raise ConfigError(f"expected two numbers like 1e-4..1e-2 for {name}, found {text!r}")
    return (low, high) if isinstance(low, int) and isinstance(high, int) else (float(low), float(high))


def settled(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """Replace some settings of a run, with all checks."""
    tables = json.loads(config.to_json())
    for name, value in settings.items():
        section, dot, key = name.partition(".")
        if not dot or section not in configs.SECTIONS:
            raise ConfigError(f"expected a setting like train.learning_rate, found {name!r}")
        tables[section][key] = value
    return configs.build(tables)


def suggest(trial: Any, choices: Mapping[str, Choice]) -> dict[str, Any]:
    """Draw one value for each setting by the sampler of an Optuna trial."""
    found: dict[str, Any] = {}
    for name, choice in choices.items():
        if not isinstance(choice, str):
            found[name] = trial.suggest_categorical(name, list(choice))
            continue
        low, high = bounds(name, choice)
        logarithmic = low > 0 and high >= 10 * low
        kind = trial.suggest_int if isinstance(low, int) else trial.suggest_float
        found[name] = kind(name, low, high, log=logarithmic)
    return found


def search(
    config: RunConfig, series: GroupSeries, choices: Mapping[str, Choice], trials: int, directory: Path
) -> RunConfig:
    """Try settings until `trials` are done, including earlier sessions; return the best run, also in best.toml.

    Raises:
        ConfigError: Optuna is absent.
        TrainingError: no trial was completed.
    """
    optuna = _optuna()
    directory.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name=config.name,
        storage=f"sqlite:///{directory / 'study.db'}",
        load_if_exists=True,
        direction="minimize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=1),
    )

    def attempt(trial: Any) -> float:
        run = settled(config, suggest(trial, choices))
        print(f"trial {trial.number}: {trial.params}", flush=True)
        place = directory / f"trial-{trial.number}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()

        def report(row: Row) -> None:
            trial.report(row["validation_mse"], int(row["epoch"]))
            if trial.should_prune():
                raise optuna.TrialPruned

        try:
            best = loop.train_network(run, series, split(series, run.data, run.model.window), place, on_epoch=report)
        except TrainingError as error:  # settings that fail to train are pruned
            print(f"trial {trial.number}: {error}", flush=True)
            raise optuna.TrialPruned from error
        return best.best_score

    over = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    while (done := len(study.get_trials(deepcopy=False, states=over))) < trials:
        # Seeded by the number of finished trials, so that a stopped search continues as if it had not been stopped.
        study.sampler = optuna.samplers.TPESampler(seed=config.train.seed + done, n_startup_trials=STARTUP_TRIALS)
        study.optimize(attempt, n_trials=1)
    if not study.get_trials(deepcopy=False, states=over[:1]):
        raise TrainingError(f"none of {trials} trials was completed; they are in {directory / 'study.db'}")
    best = dataclasses.replace(settled(config, study.best_params), name=config.name)
    heading = f"# Trial {study.best_trial.number} of {trials}: validation MSE {study.best_value:.6g}\n"
    (directory / "best.toml").write_text(heading + best.to_toml())
    return best


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ConfigError("training.fit.tune needs the package optuna, found none: pip install optuna") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@exits_with_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m training.fit.tune", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path, help="TOML file of the run")
    parser.add_argument(
        "--trials", type=int, help="number of trials, earlier sessions included (default: tune.trials, 20)"
    )
    parser.add_argument("--search", nargs="+", default=[], metavar="SETTING=VALUES", help="a,b,c or low..high")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="any setting")
    parser.add_argument("--out", type=Path, help="directory of the search (default build/tune/<name>)")
    given = parser.parse_args(arguments)
    try:
        config = configs.read(given.config, given.set)
        choices = space(config, given.search)
        series = load(config.data, configs.data_path(config.data.file))
        directory = given.out or Path("build") / "tune" / config.name
        search(config, series, choices, given.trials or config.tune.trials, directory)
    except (Interrupted, KeyboardInterrupt):
        print("stopped; the same command continues after the last finished trial", file=sys.stderr)
        return 130
    print(f"python -m training.fit {directory / 'best.toml'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
