"""Error of a learned closed form against the hours since a stranger's first reading, on Beijing's air.

    GLAIM_DATA=../shared/data python -m benchmarks.newcomer

A stream of twelve stations begins at several times of the test part, which the shipped network has not seen. After some
hours the form is fitted to all rows since the first one, as a worker does for a model with `learn: true`, and scored on
the windows that end in the next 48 hours, beside interpolation, last value and the network, which was trained on three
years. All fill the same hidden cells of these 48 hours, among a window's newest 16 steps, which the network emits.
Errors are mean absolute ones in deviations of each sensor. Before two windows of rows, 192 hours, interpolation fills.

A worker blends the form with interpolation by their recent errors: `blend` does so, with the worker's own probes since
the first form was placed, which the forms of 2, 4 and 8 windows answered in their turn as a worker's do; `learned` is
the form alone. A worker also tries a form before it places it, from three windows on, which is not done here.

A point takes 20 to 80 s, of the fits and the network. Each is kept in build/newcomer.jsonl, so that an interrupted
run of the same commit continues.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported: one core

import argparse
import json
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.edge.experts import Weights, expert_weights
from benchmarks.edge.sources import scale_of
from glaim_stream.blend.mixture import blend
from glaim_stream.core.contract import Contract, read_contract
from glaim_stream.form.baselines import interpolation
from glaim_stream.form.fit import fit
from glaim_stream.form.form import ClosedForm
from glaim_stream.form.hiding import CASES, hidden_cells
from glaim_stream.form.kinds import carried_value
from glaim_stream.form.series import Bools, Doubles, Ints, Series, Windows
from glaim_stream.operate.learn.trial import MOST_WINDOWS
from glaim_stream.windows.probes import age_class, gap_ages, places
from training import closed_form
from training.closed_form import TimedFill
from training.config import data_path, read
from training.data.series import Floats, split
from training.data.tables import load

HOURS = (12, 24, 48, 96, 192, 240, 288, 384, 480, 576, 720)
_PLACED = (2, 4, 8)  # windows of rows at which a worker learns
_SCORED_HOURS = 48
_METHODS = ("blend", "learned", "interpolation", "last_value", "network")
_FOLDER, _CONFIG = Path("model_repo/beijing-air"), Path("training/configs/beijing-air.toml")
_POINTS = Path("build/newcomer.jsonl")

Sums = dict[str, tuple[float, int]]  # absolute errors by method, over so many hidden cells


def stream(start: int) -> Series:
    """The test part from a row on."""
    config = read(_CONFIG)
    part = split(load(config.data, data_path(config.data.file)), config.data, config.model.window).test
    values = part.values[:, :, start:].astype(np.float64)
    seen = np.isfinite(values)
    return Series(np.where(seen, values, 0.0), seen, int(part.times_ms[start]), round(part.step_s * 1000))


def windows_after(series: Series, hour: int, contract: Contract) -> Windows:
    """Windows that end in the hours to come; where the stream had not begun, they have no readings."""
    steps = contract.window
    padding = ((0, 0), (0, 0), (steps, 0))
    padded = Series(
        np.pad(series.values, padding), np.pad(series.observed, padding),
        series.start_ms - steps * series.step_ms, series.step_ms,
    )  # fmt: skip
    return padded.rows(hour + 1, hour + steps + _SCORED_HOURS).windows(steps, MOST_WINDOWS)


def in_turn(fills: Mapping[int, TimedFill], series: Series) -> TimedFill:
    """Let each window be filled by the newest form that was placed before its newest step, given by hour."""
    hours = sorted(fills)
    since_ms = series.start_ms + np.array(hours) * series.step_ms

    def fill(values: Floats, observed: Bools, end_ms: Ints) -> Floats:
        form, filled = np.searchsorted(since_ms, end_ms, side="right") - 1, np.empty_like(values)
        for each in np.unique(form).tolist():
            rows = form == each
            filled[rows] = fills[hours[each]](values[rows], observed[rows], end_ms[rows])
        return filled

    return fill


def weights_after(series: Series, hour: int, contract: Contract, forms: Mapping[int, ClosedForm]) -> dict[int, Weights]:
    """Weights of the experts in each of the hours to come, by row of the series.

    Args:
        series: from its first reading on.
        hour: at which the newest form is placed.
        contract: of the model.
        forms: by the hour at which each is placed; the probes begin with the first one.
    """
    known = series.rows(0, hour + _SCORED_HOURS)
    scale = scale_of(contract)
    values = scale.apply(np.where(known.observed, known.values, np.nan))
    names = tuple(f"station-{number}" for number in range(len(values)))
    closed = in_turn({each: closed_form.fill_of(form, scale) for each, form in forms.items()}, series)
    steps = np.arange(hour, known.steps)
    return expert_weights(values, contract.window, names, None, steps, closed, known.times_ms, min(forms))


def blended(
    line: Doubles, learned: Doubles, seen: Bools, scored: Bools, weights: dict[int, Weights], row: Ints
) -> Doubles:
    """Blend interpolation and form in the scored cells of windows [n, C, T] whose newest steps are rows [n]."""
    window, sensor, place = np.nonzero(scored)
    lag = seen.shape[2] - 1 - place
    age, where = age_class(gap_ages(seen[window, sensor], lag)), places(seen, window, sensor, lag)
    answers = np.stack([np.full(len(lag), np.nan), line[scored], learned[scored]], axis=1)  # in the order of `Expert`
    share = np.zeros(answers.shape)
    for step in np.unique(row).tolist():
        mine = row[window] == step
        share[mine] = weights[step].of(sensor[mine], age[mine], where[mine], np.isfinite(answers[mine]))
    out = line.copy()
    out[scored] = blend(answers, share)
    return out


def errors_at(
    series: Series, hour: int, contract: Contract, network: torch.jit.ScriptModule, forms: Mapping[int, ClosedForm]
) -> dict[str, Sums]:
    """Sums of the errors in deviations, by case and method; `forms` by the hour at which each is placed."""
    windows, emitted = windows_after(series, hour, contract), contract.emitted_steps
    times_ms = windows.end_ms[:, None] - series.step_ms * np.arange(contract.window - 1, -1, -1)
    unseen = (times_ms >= series.start_ms + hour * series.step_ms)[:, None, :]
    unit = np.array([sensor.std for sensor in contract.sensors])[:, None]
    form = forms.get(hour)
    weights = weights_after(series, hour, contract, forms) if forms else {}
    row = (windows.end_ms - series.start_ms) // series.step_ms
    found = {}
    for case in CASES:
        hidden = hidden_cells(case, windows.observed) & unseen
        hidden[:, :, :-emitted] = False
        seen = windows.observed & ~hidden
        values = np.where(seen, windows.values, 0.0)
        last, line = carried_value(values, seen), interpolation(values, seen)
        with torch.no_grad():
            answer = network(torch.from_numpy(values.astype(np.float32)), torch.from_numpy(seen)).numpy()
        scored = hidden & np.isfinite(last)
        learned = mixed = line
        if form is not None:
            mean = form.fill(values, seen, windows.end_ms, with_deviation=False).mean
            learned = np.where(np.isfinite(mean), mean, line)
            mixed = blended(line, learned, seen, scored, weights, row)
        methods = {"last_value": last, "interpolation": line, "learned": learned, "blend": mixed, "network": answer}
        newest = scored[:, :, -emitted:]
        found[case] = {
            name: _sum(np.abs((each[..., -emitted:] - windows.values[..., -emitted:]) / unit)[newest])
            for name, each in methods.items()
        }
    return found


def measured(hours: tuple[int, ...], starts: int, kept: Points) -> dict[str, dict[str, dict[str, float]]]:
    """Mean absolute errors by hour, case and method, over streams that begin at several times."""
    contract = read_contract(_FOLDER)
    network = torch.jit.load(str(_FOLDER / str(contract.version) / "model.pt")).eval()
    whole = stream(0)
    begins = np.linspace(0, whole.steps - max(hours) - _SCORED_HOURS, starts).astype(int).tolist()
    found: dict[str, list[dict[str, Sums]]] = {str(hour): [] for hour in hours}
    for begin in begins:
        series = whole.rows(begin, whole.steps)
        form_at = lru_cache(partial(_form, series, contract=contract))
        for hour in hours:

            def point(
                series: Series = series, hour: int = hour, form_at: Callable[[int], ClosedForm] = form_at
            ) -> dict[str, Sums]:
                placed = [contract.window * windows for windows in _PLACED]
                forms = {each: form_at(each) for each in (*placed, hour) if placed[0] <= each <= hour}
                return errors_at(series, hour, contract, network, forms)

            found[str(hour)].append(kept.get(begin, hour, point))
    return {hour: {case: _means([part[case] for part in parts]) for case in CASES} for hour, parts in found.items()}


class Points:
    """The points of one commit that are measured, in a file."""

    def __init__(self, file: Path, commit: str) -> None:
        self._file, self._commit = file, commit
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
        self._found: dict[tuple[int, int], dict[str, Sums]] = {
            (line["begin"], line["hour"]): line["errors"] for line in lines if line["commit"] == commit
        }

    def get(self, begin: int, hour: int, measure: Callable[[], dict[str, Sums]]) -> dict[str, Sums]:
        """Return a point, which is measured if the file does not have it, and print it."""
        start_s, key = time.monotonic(), (begin, hour)
        if key not in self._found:
            self._found[key] = measure()
            line: dict[str, Any] = {"commit": self._commit, "begin": begin, "hour": hour, "errors": self._found[key]}
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a") as file:
                file.write(json.dumps(line) + "\n")
        newest = _means([self._found[key]["newest_all"]])
        print(f"begin {begin}, {hour} h, {time.monotonic() - start_s:.0f} s: newest steps of all {newest}", flush=True)
        return self._found[key]


def _form(series: Series, hour: int, contract: Contract) -> ClosedForm:
    seen = series.rows(0, hour)
    return fit(
        seen.values, seen.observed, start_ms=seen.start_ms, step_ms=seen.step_ms, sensors=contract.sensor_ids,
        steps=contract.window, timezone="Asia/Shanghai",
    ).form  # fmt: skip


def _sum(errors: NDArray[np.float64]) -> tuple[float, int]:
    return float(errors.sum()), len(errors)


def _means(parts: list[Sums]) -> dict[str, float]:
    """Means by method, where anything was hidden."""
    totals = {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}
    return {name: round(float(total / count), 4) for name, (total, count) in totals.items() if count}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.newcomer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=4, help="times at which a stream begins (default: %(default)s)")
    parser.add_argument("--hours", type=int, nargs="+", default=list(HOURS), help="hours since the first reading")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    command = f"python -m benchmarks.newcomer --starts {given.starts} --hours {' '.join(map(str, given.hours))}"
    origin = machine.describe(command)
    found = measured(tuple(given.hours), given.starts, Points(_POINTS, str(origin["git_commit"])))
    machine.append("newcomer", origin | {"mae_by_hours": found})
    table = Table("hours", *CASES, title=" / ".join(_METHODS))
    for hour, cases in found.items():
        cells = [" / ".join(f"{errors.get(name, np.nan):.3f}" for name in _METHODS) for errors in cases.values()]
        table.add_row(hour, *cells)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
