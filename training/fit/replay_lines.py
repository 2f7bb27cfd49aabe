"""The command that fills the training file with its new model: the file's form as flags, so that nothing is guessed."""

from __future__ import annotations

import shlex
from pathlib import Path

from training.config import RunConfig, data_path

_LONG_NAMES = {"group": "group", "sensor": "sensor", "value": "value"}  # the columns that `glaim-stream replay` expects


def replay_lines(config: RunConfig, repository: Path, directory: Path, imputer: str) -> list[str]:
    """Return the lines that name the command, or why there is none.

    Args:
        config: The run.
        repository: The model repository that holds the model.
        directory: The run's directory, with groups.yaml.
        imputer: The worker's imputer for the model, `local` or `gaussian`.
    """
    data = config.data
    columns = {"group": data.group, "sensor": data.sensor, "value": data.value} if data.layout == "long" else {}
    renamed = [name for role, name in columns.items() if name and name != _LONG_NAMES[role]]
    if renamed or (data.layout == "wide" and data.group) or not data.time:
        return []  # it reads no such file
    flags = ["--time", data.time]
    if data.separator and data.separator != ".":
        flags += ["--separator", data.separator]
    if not data.separator and not data.group:
        flags += ["--name", data.group_name]
    for value in (*(f"{number:g}" for number in data.sentinels), *data.no_value):
        flags += ["--missing", value]
    for name, given, default in (
        ("--timezone", data.timezone, "UTC"), ("--date-order", data.date_order, ""), ("--decimal", data.decimal, ""),
    ):  # fmt: skip
        if given != default:
            flags += [name, given]
    file = data_path(data.file)
    command = [
        "glaim-stream", "replay", str(file), *flags, "--imputer", imputer,
        "--catalogue", str(directory / "groups.yaml"), "--model-repository", str(repository),
        "--out", str(directory / "filled.parquet"),
    ]  # fmt: skip
    return ["or fill the file itself:", f"  {shlex.join(command)}"]
