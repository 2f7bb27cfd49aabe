"""The catalogue entry (`groups.yaml`) with which a worker serves a model, written from its contract."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import yaml

from glaim_stream.models.contract import Contract, SensorContract

REVISE_AFTER, MAX_GAP = 8, 48  # steps, where the window has room for them


def entry(contract: Contract, groups: Sequence[str], bucket: str = "last") -> str:
    """Return a catalogue for one model, as YAML with comments on the settings to check.

    Args:
        contract: Contract of the exported model.
        groups: The groups in its training data; a pattern can replace them.
        bucket: Value of a step with several readings in the training data: `last` or `mean`.
    """
    after = min(REVISE_AFTER, contract.emitted_steps - 1, max(0, contract.window // 4 - 1))
    gap = max(1, min(MAX_GAP, contract.window // 2, contract.window - after - 1))
    sensors = "\n".join(_sensor(sensor) for sensor in contract.sensors)
    ids = "\n".join(f"      - {_text(group)}" for group in groups)
    return f"""# Written from the contract of {contract.name}, version {contract.version}. Check what has a comment.
models:
  - name: {_text(contract.name)}
    step_s: {contract.step_s:g}
    window: {contract.window}
    bucket: {bucket}              # of several readings in a step: last or mean, as in training
    lateness_s: 0             # assumes readings in the order of time; set what your network needs
    revise_after: {after}           # steps of right context before a hole gets its final value
    max_gap: {gap}               # a sensor silent for more steps yields null
    idle_timeout_s: {max(5.0, 1.5 * contract.step_s):g}        # wall time without a reading after which a step closes
    # min and max reject readings and bound filled values. The data shows only the usual range: set the physical limits
    # of the instrument or the machine, as in {{id: flow, unit: m3/h, min: 0, max: 400}}.
    sensors:
{sensors}

groups:
  - model: {_text(contract.name)}
    ids:                      # or, for groups that were not in the training data: pattern: "pump-*"
{ids}
"""


def _sensor(sensor: SensorContract) -> str:
    unit = f", unit: {_text(sensor.unit)}" if sensor.unit else ""
    return f"      - {{id: {_text(sensor.id)}{unit}}}   # in training {sensor.minimum:.6g} to {sensor.maximum:.6g}"


def _text(text: str) -> str:
    """Return the text unchanged if YAML reads it back as the same text, else quoted."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", text) and yaml.safe_load(text) == text
    return text if plain else json.dumps(text, ensure_ascii=False)
