"""Writes report.html and report.json of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glaim_stream.core.contract import read_contract
from training import checkpoint as checkpoints
from training.checkpoint import Checkpoint
from training.report.measure import measure
from training.report.page import page

PAGE, NUMBERS = "report.html", "report.json"


def write_page(
    directory: Path, *, data: Path | None = None, contract: Path | None = None,
    evaluation: Mapping[str, Any] | None = None, command: str = "", windows: int = 300,
) -> Path:  # fmt: skip
    """Write the report of a run beside its checkpoints; return the page's path.

    Args:
        directory: Holds best.pt, and last.pt, whose history reaches to the end of training.
        data: The data file, if it has moved since the training.
        contract: The exported model's directory, whose intervals are checked on the test part. By default the residual
            quantiles are measured here, on fewer windows.
        evaluation: The report of `training.evaluate.evaluate_run` on best.pt. By default `<name>.json` in the
            directory, if it belongs to this checkpoint; else the cases are scored here.
        command: The command of the run, for the header; by default the one in `<name>.json`.
        windows: Most test windows for each case.

    Raises:
        ConfigError: there is no checkpoint, or this version cannot read it.
        ContractError: the contract has other sensors.
        DataError: the data cannot be read or differ from those of the run.
    """
    state = checkpoints.load(directory / "best.pt")
    last = directory / "last.pt"
    history = checkpoints.load(last).history if last.is_file() else state.history
    quantiles = None
    if contract is not None:
        promised = read_contract(contract)
        promised.require_sensors(state.sensors)
        quantiles = promised.residual_quantiles
    found = dict(evaluation) if evaluation is not None else scores_of(directory, state)
    report = measure(state, history, data=data, evaluation=found, quantiles=quantiles, windows=windows)
    report["command"] = command or (found or {}).get("command", "")
    (directory / NUMBERS).write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    target = directory / PAGE
    target.write_text(page(report), encoding="utf-8")
    return target


def scores_of(directory: Path, state: Checkpoint) -> dict[str, Any] | None:
    """Read the scores in the directory, if they belong to this checkpoint."""
    file = directory / f"{json.loads(state.config)['name']}.json"
    if not file.is_file() or file.stat().st_mtime < (directory / "best.pt").stat().st_mtime:
        return None
    found: dict[str, Any] = json.loads(file.read_text())
    same = found.get("best_epoch") == state.best_epoch and found.get("data", {}).get("sha256") == state.source_sha256
    return found if same and "cases" in found else None
