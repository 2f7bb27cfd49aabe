"""Trains a network on the readings of a file in a process of its own: `python -m training.fit` on a copy of them.

The copy has neutral names and even times, so that nothing about it is guessed. Readings that a 32-bit number would not
tell apart lose their mean.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError

if TYPE_CHECKING:
    from glaim_stream.tables import Form, Group

NEEDED = ("training", "torch", "tqdm")
_NAME = "fill"
_RESERVED = 0.12  # of the time, for the fill itself
_LATE = 1.1  # of the time that is left to the training; a training beyond it is ended
_LEAST_MINUTES = 0.2  # of a training
_WINDOWS = (48, 24)  # steps; both sides of a hole are known, so short windows do
_NARROW = 1e4  # times a sensor's deviation; 32 bits have seven digits
_SHOWN = (
    "no network",
    "epoch",
    "found",
    "chosen",
    "the closed form",
    "scoring",
    "on validation",
    "the network",
    "measuring",
    "note",
)
_NONE, _NOT_EXPORTED = "no network", "not exported"
_REFUSED = 3  # exit code of a training whose network was not exported


@dataclass
class Training:
    """A training that `fill --minutes` asks for; a `Trainer` of glaim_stream.tables.

    minutes: of the whole command.
    began_s: time.monotonic() at its start.
    say: receives lines on the progress.
    folder: for the copy and the model, which must stay until the file is filled.
    outcome: why the network fills, or does not.
    """

    minutes: float
    began_s: float
    say: Callable[[str], object]
    folder: Path
    outcome: str = ""
    _why: str = "its time was over"

    def __call__(self, groups: Sequence[Group], sensors: Sequence[str]) -> Form | None:
        """Train; return the network if training exported it.

        Raises:
            SettingsError: the training failed, or there is no time for it.
        """
        from glaim_stream.tables import NetworkForm

        left = (1 - _RESERVED) * self.minutes - (time.monotonic() - self.began_s) / 60
        if left < _LEAST_MINUTES:
            raise SettingsError(
                f"expected more than --minutes {self.minutes:g}: the closed form and the fill need "
                f"{self.minutes - left:.1f} minutes of them"
            )
        self.say(f"training a network for {left:.1f} minutes, scores included; the closed form is fitted")
        centre, step_ms = _centre(groups), int(groups[0].times_ms[1] - groups[0].times_ms[0])
        window = _window(groups)
        _write(groups, centre, self.folder / "readings.parquet", step_ms)
        code, last = self._run(_command(self.folder, left, len(sensors), len(groups) > 1, window, step_ms), left)
        model = self.folder / "models" / _NAME
        if code in (0, None) and (model / "contract.json").is_file():
            self.outcome = "the trained network beat the closed form in training, and fills"
            return NetworkForm.load(model, sensors, step_ms, centre)
        if code not in (0, _REFUSED, None):
            raise SettingsError(f"the training failed: {last}; without --minutes the closed form fills")
        self.outcome = f"the trained network does not fill: {self._why}"
        return None

    def _run(self, command: list[str], minutes: float) -> tuple[int | None, str]:
        """The exit code of the training, None where its time was over, and its last line."""
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
            errors="replace",
        )  # fmt: skip
        last = ["no word"]

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                last[0] = line.strip() or last[0]
                if line.startswith(_NONE):
                    self._why = line.strip().partition(": ")[2]
                elif _NOT_EXPORTED in line:
                    self._why = "it did not beat the closed form"
                if line.startswith(_SHOWN):
                    self.say(f"  {line.rstrip()}")

        reader = Thread(target=read, daemon=True)
        reader.start()
        code: int | None
        try:
            code = process.wait(timeout=60 * minutes * _LATE)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        reader.join(timeout=10)
        return code, last[0].removeprefix("error: ")


@contextmanager
def training(minutes: float, say: Callable[[str], object]) -> Iterator[Training]:
    """A training with a folder that is removed in the end.

    Raises:
        SettingsError: what training needs is not installed.
    """
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        raise SettingsError(
            f"--minutes trains a network and needs the extra `training`, found no {', '.join(absent)}: pip install "
            "'glaim-stream[training]'; without --minutes the closed form fills"
        )
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="glaim-fill-") as folder:
        yield Training(minutes, began_s, say, Path(folder))


def _command(folder: Path, minutes: float, sensors: int, grouped: bool, window: int, step_ms: int) -> list[str]:
    settings: dict[str, Any] = {
        "data.sensors": [f"s{place}" for place in range(sensors)],
        "data.only_sentinels": True,
        "data.step_s": step_ms / 1000,
        "model.window": window,
        "export.emitted_steps": window,
        **({"data.group": "group"} if grouped else {}),
    }
    command = [
        sys.executable, "-m", "training.fit", "--data", str(folder / "readings.parquet"), "--name", _NAME,
        "--time", "time", "--minutes", f"{minutes:.3f}", "--masks", "block",
        "--out", str(folder / "run"), "--model-repo", str(folder / "models"),
    ]  # fmt: skip
    for name, value in settings.items():
        command += ["--set", f"{name}={json.dumps(value)}"]
    return command


def _window(groups: Sequence[Group]) -> int:
    """The longest window of which two fit into the 15 % of rows that validate, and that test."""
    rows = max(len(each.times_ms) for each in groups)
    return next((steps for steps in _WINDOWS if 0.15 * rows >= 2 * steps), _WINDOWS[-1])


def _centre(groups: Sequence[Group]) -> NDArray[np.float64]:
    """What is taken off each sensor [C]: 0, or the mean of readings that hardly vary beside their size."""
    values = np.concatenate([each.values for each in groups], axis=1)
    with np.errstate(all="ignore"):
        mean, deviation, largest = (each(values, axis=1) for each in (np.nanmean, np.nanstd, _largest))
    return np.where(largest > _NARROW * deviation, mean, 0.0)


def _largest(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    return np.asarray(np.nanmax(np.abs(values), axis=axis))


def _write(groups: Sequence[Group], centre: NDArray[np.float64], path: Path, step_ms: int) -> None:
    """A table with a row for each step of each group; groups end together, whatever their times."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    end = max(len(each.times_ms) for each in groups)
    first_ms = -(-946_684_800_000 // step_ms)  # of the year 2000, in steps
    times = [(first_ms + end - len(each.times_ms) + np.arange(len(each.times_ms))) * step_ms for each in groups]
    values = np.concatenate([each.values for each in groups], axis=1) - centre[:, None]
    columns: dict[str, Any] = {"time": pa.array(np.concatenate(times)).cast(pa.timestamp("ms", "UTC"))}
    columns["group"] = [f"g{number}" for number, each in enumerate(groups) for _ in each.times_ms]
    for place, row in enumerate(values):
        columns[f"s{place}"] = pa.array(row, mask=np.isnan(row))
    pq.write_table(pa.table(columns), path)
