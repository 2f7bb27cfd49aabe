"""The options of `python -m training.fit`, and the configuration of a run that follows from them."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from glaim_stream.files import ORDERS
from training import config as configs
from training.autoconfig import configure
from training.config import RunConfig
from training.errors import ConfigError, print_error
from training.fit import seeds
from training.fit.distributed import say

SHORTCUTS = {
    "name": "name",
    "data": "data.file",
    "time": "data.time",
    "separator": "data.separator",
    "group": "data.group",
    "sensor": "data.sensor",
    "value": "data.value",
    "bucket": "data.bucket",
    "timezone": "data.timezone",
    "date_order": "data.date_order",
    "decimal": "data.decimal",
    "masks": "masks.pattern",
    "epochs": "train.epochs",
    "d_model": "model.d_model",
    "device": "train.device",
    "seed": "train.seed",
}


def parser(description: str | None) -> argparse.ArgumentParser:
    """Build the command line parser with the description of its help."""
    made = argparse.ArgumentParser(
        prog="python -m training.fit", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("config", nargs="?", type=Path, help="TOML file of the run, or a file of readings, as --data")
    data = made.add_argument_group("data")
    data.add_argument("--data", help="file; a bare name is also looked for in the folder that GLAIM_DATA names")
    data.add_argument("--time", help="time column: timestamps, text, epoch ms or seconds (default: found out)")
    data.add_argument("--separator", help="between group and sensor in column names (default: found out)")
    data.add_argument("--group", help="column that names the group of a row (default: found out)")
    data.add_argument("--sensor", help="column of the sensor of a row that is one reading (default: found out)")
    data.add_argument("--value", help="column of its value (default: found out)")
    data.add_argument("--bucket", choices=["last", "mean"], help="value of a step with several readings (default last)")
    data.add_argument(
        "--missing", action="append", default=[], metavar="VALUE",
        help="number or text (Bad) that means no value; may be repeated",
    )  # fmt: skip
    data.add_argument("--timezone", help="time zone of times that name none (default UTC)")
    data.add_argument(
        "--date-order", dest="date_order", choices=ORDERS, help="of dates such as 1/2/2026 (default: detected)"
    )
    data.add_argument("--decimal", choices=[".", ","], help="decimal sign of a text file (default: found out)")
    data.add_argument(
        "--no-plausibility", action="store_true", help="keep readings that stand apart from those around them"
    )
    run = made.add_argument_group("run")
    run.add_argument(
        "--model", choices=["glaim", "gaussian", "habits"], default="glaim",
        help="gaussian: only the closed form, without a network; habits: only what is usual of the sensors, for the "
        "closed form that is there (default %(default)s)",
    )  # fmt: skip
    run.add_argument(
        "--lose", type=_share, default=0.0, metavar="SHARE",
        help="with --model habits: leave out this share of the readings first, one at a time, where complete data are "
        "to serve a stream that loses some (default 0)",
    )  # fmt: skip
    run.add_argument(
        "--even-stamps", action="store_true",
        help="with --model habits: the sensors of the stream stamp at even distances, so a clock that does not is "
        "faulty; without it clocks are not judged, as rows of a file have no stamps of their own",
    )  # fmt: skip
    run.add_argument("--name", help="name of the run, of the model, and of the group of a file that names none")
    run.add_argument(
        "--masks", help="random, block, tail_one, tail_several, tail_all, silent or deployment (default block)"
    )
    run.add_argument(
        "--minutes",
        type=_minutes,
        default=0.0,
        help="time of the whole run on data without a configuration, scores included (default 10)",
    )
    run.add_argument("--epochs", help="most epochs (default 300)")
    run.add_argument("--d-model", dest="d_model", help="width of the network (default 128)")
    run.add_argument("--device", help="cpu or cuda (default cpu)")
    run.add_argument("--seed", help="default 2021")
    run.add_argument(
        "--seeds",
        type=seeds.parse,
        default=(),
        metavar="N,N,...",
        help="one run for each seed; the best one is exported",
    )
    run.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="any setting; may be repeated"
    )
    files = made.add_argument_group("files")
    files.add_argument("--out", type=Path, help="directory of the run (default build/runs/<name>)")
    files.add_argument("--results", type=Path, help="a second directory for the scores")
    files.add_argument("--model-repo", help="model repository to export to (default: export.directory, model_repo)")
    before = files.add_mutually_exclusive_group()
    before.add_argument("--resume", action="store_true", help="continue from last.pt, or start if there is none")
    before.add_argument("--fresh", action="store_true", help="train from the start; existing checkpoints are removed")
    files.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events (needs that package)")
    files.add_argument("--no-export", action="store_true", help="train and score only")
    files.add_argument(
        "--force-export", action="store_true", help="export even a model that does not beat the baselines"
    )
    files.add_argument("--print-config", action="store_true", help="print the resulting configuration as TOML and exit")
    return made


def _minutes(text: str) -> float:
    """Parse minutes above 0."""
    return _number(text, lambda minutes: 0 < minutes < math.inf, "minutes above 0")


def _share(text: str) -> float:
    """Parse a share from 0 to below 1."""
    return _number(text, lambda share: 0 <= share < 1, "a share from 0 to below 1")


def _number(text: str, fits: Callable[[float], bool], expected: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not fits(number):
        raise argparse.ArgumentTypeError(f"expected {expected}, found {text}")
    return number


def _missing(values: Sequence[str]) -> dict[str, list[float] | list[str]]:
    """The settings for texts that stand for no value: numbers and other texts apart."""
    numbers, texts = [], []
    for text in values:
        try:
            numbers.append(float(text))
        except ValueError:
            texts.append(text)
    found: dict[str, list[float] | list[str]] = {"data.sentinels": numbers, "data.no_value": texts}
    return {name: each for name, each in found.items() if each}


def read_config(given: argparse.Namespace) -> RunConfig:
    """Read the run's configuration: file, then shortcuts, then --set; without a file the rest is chosen."""
    overrides = [f"{key}={value if isinstance(value, str) and value.lstrip('-').isdigit() else json.dumps(value)}"
                 for name, key in SHORTCUTS.items() if (value := getattr(given, name)) is not None]  # fmt: skip
    overrides += [f"{key}={json.dumps(value)}" for key, value in _missing(given.missing).items()]
    if given.no_plausibility:
        overrides.append("data.plausibility=false")
    if given.config is None and given.name:
        overrides.append(f"data.group_name={json.dumps(given.name)}")
    overrides += given.set
    if given.config is None and given.data:
        return configure(
            configs.stated(None, overrides), print_error if given.print_config else say,
            minutes=given.minutes, out=given.out, resume=given.resume, network=given.model == "glaim",
        )  # fmt: skip
    if given.minutes:
        raise ConfigError(
            "--minutes is for data without a configuration; a configuration states its own number of steps"
        )
    return configs.read(given.config, overrides)
