"""The load for the run with a real model: groups with the sensors of the model's contract."""

from __future__ import annotations

from pathlib import Path

from benchmarks.load import Load
from glaim_stream.models.contract import read_contract

MODEL = "plant-pump"
_READINGS = 150_000
_GROUPS = 40


def whole_load(repository: Path) -> Load:
    """Single readings around the mean of each sensor."""
    contract = read_contract(repository / MODEL)
    return Load(
        _READINGS,
        groups=_GROUPS,
        sensors=tuple(sensor.id for sensor in contract.sensors),
        means=tuple(sensor.mean for sensor in contract.sensors),
        model=MODEL,
        step_ms=round(contract.step_s * 1000),
    )
