"""The file of results: one JSON object per line, one line for each place in a table, the newest only."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from training.errors import ConfigError

# What is measured elsewhere than for this repository's pages leaves the checkout clean.
RESULTS = Path("build/results")
NAME = "paper.jsonl"
HELP = f"folder of {NAME} and its page, or a .jsonl file (default %(default)s)"

# Keys of every line, in the order of writing; `paper_*` is null if the paper has no such cell. Lines of the closed form
# also have `draw` (0: that of the tables), `digest` and `choices` (alternatives compared on validation windows). Those
# of the network over it have `draw`, the form's `digest`, `blend` (weights of its answers) and `parts_mse` (their
# errors).
KEYS = (
    "table", "dataset", "pattern", "train_rate", "test_rate", "variant", "seed", "mse", "mae", "paper_mse", "paper_mae",
    "epochs", "seconds", "machine", "date", "command", "recipe", "d_model", "layers", "large_kernel",
    "interpolation_mse", "interpolation_mae", "last_value_mse", "last_value_mae", "windows", "best_epoch", "finished",
    "test_rates", "segments",
)  # fmt: skip
IDENTITY = (
    "table", "dataset", "pattern", "train_rate", "test_rate", "variant", "seed", "recipe", "d_model", "layers",
    "large_kernel", "segments", "draw",
)  # fmt: skip

Line = dict[str, Any]


def file_in(results: Path, name: str = NAME) -> Path:
    """The file of result lines that `--results` names: a folder, in which it is called `name`, or a file."""
    return results if results.suffix == ".jsonl" else results / name


def identity(line: Mapping[str, Any], keys: Sequence[str] = IDENTITY) -> str:
    """Return the key by which two lines are of the same cell, as text."""
    return json.dumps([line.get(name) for name in keys])


def read(path: Path) -> list[Line]:
    """Read all lines; none if there is no file yet.

    Raises:
        ConfigError: a line is not a JSON object.
    """
    if not path.is_file():
        return []
    lines = []
    for number, text in enumerate(path.read_text().splitlines(), start=1):
        try:
            line = json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{path}, line {number}: expected a JSON object, found {text[:60]!r}") from error
        if not isinstance(line, dict):
            raise ConfigError(f"{path}, line {number}: expected a JSON object, found {type(line).__name__}")
        lines.append(line)
    return lines


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Allow one writer at a time, also among processes; the folder is the lock, so no lock file remains."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def put(path: Path, new: Sequence[Mapping[str, Any]], keys: Sequence[str] = IDENTITY) -> None:
    """Add lines; each replaces an older one with the same `keys`. The file is replaced atomically."""
    with _locked(path):
        fresh = {identity(line, keys): dict(line) for line in new}
        kept = [fresh.pop(identity(line, keys), line) for line in read(path)]
        kept += fresh.values()
        partial = path.with_suffix(".partial")
        with partial.open("w") as file:
            file.writelines(json.dumps(line) + "\n" for line in kept)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
