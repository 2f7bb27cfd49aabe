"""A run's records beside its checkpoints: curves.csv, log.jsonl, and TensorBoard's events on request.

Both files are rewritten after every epoch from the checkpoint's history, so they agree with the checkpoint even after a
crash and a resume; a run has a few hundred epochs, and a line is 200 bytes.
"""

from __future__ import annotations

import csv
import io
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from training.checkpoint import Checkpoint
from training.errors import ConfigError
from training.runtime import machine

Row = Mapping[str, float]  # one epoch: epoch, loss, validation_mse, validation_mae, learning_rate, seconds


def command_line(program: str = "", words: Sequence[str] | None = None) -> str:
    """Return a command without the folders of the machine: absolute paths are cut to the file name.

    Without arguments, it is the command of this process.
    """
    if not program:
        module = getattr(sys.modules.get("__main__"), "__spec__", None)
        program = f"python -m {module.name.removesuffix('.__main__')}" if module else Path(sys.argv[0]).name or "python"
    given = sys.argv[1:] if words is None else words
    return f"{program} {shlex.join(Path(word).name if Path(word).is_absolute() else word for word in given)}".strip()


def nothing(_: Row) -> None:
    """Ignore an epoch: the default listener."""


class RunLog:
    """curves.csv (one line for each epoch) and log.jsonl (a header object, then one object for each epoch) of a run."""

    def __init__(self, directory: Path, state: Checkpoint, command: str = "") -> None:
        self.directory = directory
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        before = log_header(directory) if state.history or state.batch else {}
        self._header: dict[str, Any] = {
            "record": "run",
            "config": json.loads(state.config),
            "command": command or command_line(),
            "machine": machine(),
            "git_commit": state.git_commit,
            "source": state.source,
            "source_sha256": state.source_sha256,
            "sensors": state.sensors,
            "started": before.get("started", now),
            "resumed": [*before.get("resumed", []), now] if before else [],
        }

    def write(self, state: Checkpoint) -> None:
        """Write both files from the state, atomically."""
        lines = [self._header]
        best = float("inf")
        for row in state.history:
            better = row["validation_mse"] < best
            best = min(best, row["validation_mse"])
            lines.append({"record": "epoch", **row, "best": better, "best_mse": best})
        _replace(self.directory / "log.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
        if state.history:
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, list(state.history[0]))
            writer.writeheader()
            writer.writerows(state.history)
            _replace(self.directory / "curves.csv", text.getvalue())


def log_header(directory: Path) -> dict[str, Any]:
    """Read the first object of the log.jsonl of a run; empty if there is none."""
    try:
        with (directory / "log.jsonl").open() as file:
            found = json.loads(file.readline())
    except (OSError, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _replace(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="") as file:
        file.write(text)
    partial.replace(path)


def tensorboard(directory: Path) -> Callable[[Row], None]:
    """Return a function that writes an epoch's numbers as TensorBoard events.

    Raises:
        ConfigError: the package is absent.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            "--tensorboard needs the package tensorboard, found none: pip install tensorboard (curves.csv and "
            "log.jsonl are written without it)"
        ) from error
    writer = SummaryWriter(str(directory))

    def write(row: Row) -> None:
        for name, number in row.items():
            if name != "epoch":
                writer.add_scalar(name, number, int(row["epoch"]))
        writer.flush()

    return write
