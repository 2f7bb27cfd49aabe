"""The catalogue entry (`groups.yaml`) with which a worker serves a model, written from its contract."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import yaml

from glaim_stream.core.contract import Contract

REVISE_AFTER, MAX_GAP = 8, 48  # steps, where the window has room for them


class Shown(NamedTuple):
    """A sensor as a catalogue shows it, with its range in training."""

    id: str
    unit: str
    minimum: float
    maximum: float
    direction: bool = False


def entry(contract: Contract, groups: Sequence[str], bucket: str = "last", directions: Collection[str] = ()) -> str:
    """Return a catalogue for one model, as YAML with comments on the settings to check.

    Args:
        contract: Contract of the exported model.
        groups: The groups in its training data; a pattern can replace them.
        bucket: Value of a step with several readings in the training data: `last` or `mean`.
        directions: Sensors whose readings are directions in degrees.
    """
    sensors = [
        Shown(each.id, each.unit, each.minimum, each.maximum, each.id in directions) for each in contract.sensors
    ]
    origin = f"the contract of {contract.name}, version {contract.version}"
    return catalogue(
        contract.name, contract.step_s, contract.window, contract.emitted_steps, sensors, groups, bucket, origin
    )


def catalogue(
    name: str, step_s: float, window: int, emitted_steps: int, shown: Sequence[Shown], groups: Sequence[str],
    bucket: str, origin: str,
) -> str:  # fmt: skip
    """Return a catalogue for one model, written from `origin`; see `entry`."""
    after = min(REVISE_AFTER, emitted_steps - 1, max(0, window // 4 - 1))
    gap = max(1, min(MAX_GAP, window // 2, window - after - 1))
    sensors = "\n".join(_sensor(sensor) for sensor in shown)
    ids = "\n".join(f"      - {_text(group)}" for group in groups)
    return f"""# Written from {origin}. Check what has a comment.
models:
  - name: {_text(name)}
    step_s: {step_s:g}
    window: {window}
    bucket: {bucket}              # of several readings in a step: last or mean, as in training
    lateness_s: 0             # assumes readings in the order of time; set what your network needs
    revise_after: {after}           # steps of right context before a hole gets its final value
    max_gap: {gap}               # a sensor silent for more steps yields null
    idle_timeout_s: {max(5.0, 1.5 * step_s):g}        # wall time without a reading after which a step closes
    # min and max reject readings and bound filled values. The data shows only the usual range: set the physical limits
    # of the instrument or the machine, as in {{id: flow, unit: m3/h, min: 0, max: 400}}.
    sensors:
{sensors}

groups:
  - model: {_text(name)}
    ids:                      # or, for groups that were not in the training data: pattern: "pump-*"
{ids}
"""


def _sensor(sensor: Shown) -> str:
    unit = f", unit: {_text(sensor.unit)}" if sensor.unit else ""
    if sensor.direction and sensor.minimum < 0:
        unit = f"{unit or ', unit: deg'}, min: -180, max: 180"  # without a unit, these limits mark no direction
    elif sensor.direction:
        unit += ", min: 0, max: 360"
    return f"      - {{id: {_text(sensor.id)}{unit}}}   # in training {sensor.minimum:.6g} to {sensor.maximum:.6g}"


def _text(text: str) -> str:
    """Return the text unchanged if YAML reads it back as the same text, else quoted."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", text) and yaml.safe_load(text) == text
    return text if plain else json.dumps(text, ensure_ascii=False)
