"""The configuration of a data file that comes alone: guesses its layout, chooses a recipe and reports every choice.

Settings from the command line are never changed; the others follow from the file. `--print-config` prints the result as
a configuration that repeats the run.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glaim_stream.core.contract import read_contract
from glaim_stream.files import name_of_file, note
from training import checkpoint as checkpoints
from training.autoconfig.catalogue_entry import entry
from training.autoconfig.recipe import MINUTES, choose, window_of
from training.config import RunConfig, build, data_path
from training.data import DataSpec, WindowSet, load, read, split
from training.errors import ConfigError
from training.network import GLAIMConfig, build_network
from training.runtime import known_device

_MEASURED_S = 1.0  # seconds of each minute to measure the time of a step of a network
Say = Callable[[str], None]
Tables = Mapping[str, Any]


def configure(
    stated: Tables,
    say: Say,
    *,
    minutes: float = 0.0,
    out: Path | None = None,
    resume: bool = False,
    network: bool = True,
) -> RunConfig:
    """Make the configuration of a file that comes without one.

    Args:
        stated: Settings of the command line, as nested tables, `data.file` among them.
        say: Receives each guess as a line.
        minutes: Training time; 0 for the default, or for the time that the given number of steps takes.
        out: The run's directory, if it is not build/runs/<name>.
        resume: Take the settings of the checkpoint in that directory: a step time measured again would differ.
        network: Choose its size and its steps by the speed of the machine, which takes seconds.

    Raises:
        DataError: the file cannot be read or understood.
        ConfigError: a given setting cannot be used.
    """
    path = data_path(str(stated.get("data", {}).get("file", "")))
    named = {"name": re.sub(r"[^A-Za-z0-9_.-]+", "-", path.stem).strip("-.") or "run", **stated}
    last = (out or Path("build") / "runs" / str(named["name"])) / "last.pt"
    if resume and last.is_file():
        return build(_over(json.loads(checkpoints.load(last).config), named))
    given = build(named)  # check the given settings before reading the file
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "several processes would each measure and choose their own configuration: make one first in a single "
            "process with --print-config > mine.toml, and start them with it"
        )
    if minutes < 0:
        raise ConfigError(f"expected --minutes above 0, found {minutes:g}")
    if network:
        known_device(given.train.device)
    found = guess_layout(path, given.data, stated.get("data", {}))
    for line in found.messages:
        say(f"guessed: {line}")
    for line in found.warnings:
        say(f"warning: {line}")
    tables = _recipe(
        found.spec, path, given, stated, minutes or MINUTES, say,
        steps=not _stated_steps(stated, minutes), network=network,
    )  # fmt: skip
    guessed = {name: value for name, value in dataclasses.asdict(found.spec).items() if value != _plain(name)}
    return build(_over(_over(tables, {"data": guessed}), named))


@dataclasses.dataclass(frozen=True)
class Guess:
    """The layout of a file; `messages` tell what was found out, `warnings` are for a person to check."""

    spec: DataSpec
    messages: tuple[str, ...]
    warnings: tuple[str, ...]


def guess_layout(path: Path, given: DataSpec, stated: Collection[str]) -> Guess:
    """Find out the settings that were not given, so that a configuration states them all.

    Args:
        path: The file; its stem names a single group.
        given: The settings so far.
        stated: Names of the settings in `given` that a person gave; they are never changed.

    Raises:
        DataError: the file cannot be read, or can be read in two ways.
    """
    form = read(given, path).form
    separator = form.name_separator
    taken: dict[str, tuple[float, ...]] = {}
    for column, numbers in form.taken.items():
        sensor = column.split(separator, 1)[1] if separator else column
        new = [each for each in numbers if each not in given.sentinels]
        taken[sensor] = tuple(dict.fromkeys([*taken.get(sensor, ()), *new]))
    found: dict[str, Any] = {
        "time": form.time,
        "date_order": form.date_order,
        "no_value": tuple(dict.fromkeys(chain.from_iterable(form.words.values()))),
        "group": form.group,
        "sensor": form.sensor,
        "value": form.value,
        "separator": separator,
        "sensor_sentinels": {sensor: numbers for sensor, numbers in taken.items() if numbers},
        "plausibility": True,
    }
    messages = list(form.notes)
    if form.layout == "wide" and not separator:
        found |= {"sensors": form.sensors, "units": dict(form.units)}
    if not (form.group or separator) and "group_name" not in stated:
        found["group_name"] = name_of_file(path.name)
        messages.append(f"it names no groups: all of it belongs to the group {found['group_name']!r}")
    spec = dataclasses.replace(given, **{name: value for name, value in found.items() if name not in stated})
    maybe = {note(each): each for each in form.sentinels if not each.taken}
    warnings = [text for text, each in maybe.items() if each.value not in given.sensor_sentinels.get(each.column, ())]
    return Guess(spec, tuple(each for each in messages if each not in maybe), tuple(warnings))


def next_steps(exported: Path, groups: Sequence[str], directory: Path, data: DataSpec) -> list[str]:
    """Write groups.yaml into a run's directory; return the commands that put the exported model to work."""
    contract = read_contract(exported)
    catalogue = directory / "groups.yaml"
    catalogue.write_text(entry(contract, groups, data.bucket, data.directions))
    common = f"--catalogue {catalogue} --model-repository {exported.parent}"
    return [
        f"wrote {catalogue}; check its comments, then",
        f"  glaim-stream check {common}",
        f"  glaim-stream worker --imputer local {common}   # or --triton HOST:PORT for --imputer local",
    ]


def _recipe(
    spec: DataSpec,
    path: Path,
    given: RunConfig,
    stated: Tables,
    minutes: float,
    say: Say,
    *,
    steps: bool,
    network: bool = True,
) -> Tables:
    """Choose the recipe's tables by the size of the data."""
    series = load(spec, path)
    window = given.model.window if "window" in stated.get("model", {}) else window_of(series.rows)
    shares = (
        spec if {"split", "rows"} & set(stated.get("data", {})) else dataclasses.replace(spec, split=(0.7, 0.15, 0.15))
    )
    train = split(series, shares, window).train
    windows = len(WindowSet(train.values, window, given.train.stride, given.train.minimum_observed))
    missing = float(np.mean(~np.isfinite(series.values)))
    say(
        f"found: {len(series.groups)} group(s) of {len(series.sensors)} sensors, {series.rows} steps of "
        f"{series.step_s:g} s, {missing:.1%} missing; {windows} windows to train on"
    )

    def step_time(model: Mapping[str, Any], batch: int) -> float:
        wanted = {**model, **stated.get("model", {})}
        batch = stated.get("train", {}).get("batch_size", batch)
        most_s = min(AT_MOST_S, _MEASURED_S * minutes)
        return seconds_per_step(wanted, len(series.sensors), batch, given.train.threads, given.train.device, most_s)

    cuda = given.train.device.startswith("cuda")
    chosen = choose(
        series.rows, windows, window, len(series.sensors), step_time, minutes=minutes, cuda=cuda,
        steps=steps and network, stated=stated.get("model", {}),
    )  # fmt: skip
    if network:
        say(f"chosen: {chosen.summary}; deployment masks")
    return chosen.tables


def _stated_steps(stated: Tables, minutes: float) -> bool:
    return not minutes and bool({"epochs", "iterations"} & set(stated.get("train", {})))


def _plain(name: str) -> Any:
    return getattr(DataSpec(), name)


def _over(below: Tables, above: Tables) -> dict[str, Any]:
    """Merge nested tables, setting by setting; those of `above` win."""
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping) and key in _SECTIONS
        merged[key] = {**merged[key], **value} if both else value
    return merged


_SECTIONS = ("data", "model", "masks", "train", "export", "tune")


STEPS, AT_MOST_S = 6, 4.0


def seconds_per_step(
    model: Mapping[str, Any], sensors: int, batch: int, threads: int, device: str, at_most_s: float = AT_MOST_S
) -> float:
    """Return the median seconds of a forward and a backward pass with an update, on random windows.

    Args:
        model: The settings of [model].
        sensors: C, number of sensors.
        batch: Windows per step.
        threads: Number of CPU threads.
        device: "cpu" or "cuda".
        at_most_s: Seconds of the measurement, beyond which no further step begins.
    """
    config = GLAIMConfig(**{**model, "num_variables": sensors})
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            network = build_network(config).to(device)
            values = torch.randn(batch, sensors, config.window, device=device)
            observed = torch.rand(values.shape, device=device) > 0.3
        optimiser = torch.optim.Adam(network.parameters(), lr=1e-6)
        spent: list[float] = []
        while len(spent) < STEPS and sum(spent) < at_most_s:
            began = time.perf_counter()
            given = values * observed
            if config.own_form:  # the form of a fold fills a training window
                with torch.no_grad():
                    given = network.form(given, observed)
            loss = (network(given, observed) - values)[~observed].square().mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            float(loss.detach())  # waits for a GPU
            spent.append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(before)
    later = sorted(spent[1:] or spent)  # the first step also prepares kernels
    return later[len(later) // 2]
