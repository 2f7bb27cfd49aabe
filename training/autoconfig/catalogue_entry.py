"""What a worker needs to serve a model: an entry of `groups.yaml`, written from its contract."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import yaml

from glaim_stream.models.contract import Contract, SensorContract

REVISE_AFTER, MAX_GAP = 8, 48  # steps, where the window has room for them


def entry(contract: Contract, groups: Sequence[str], bucket: str = "last") -> str:
    """A whole catalogue for one model, as YAML with what to look at in comments.

    Args:
        contract: Of the exported model.
        groups: The groups in its training data; a pattern can take their place.
        bucket: What stood for a step with several readings there: the last one, or their mean.
    """
    after = min(REVISE_AFTER, contract.emitted_steps - 1, max(0, contract.window // 4 - 1))
    gap = max(1, min(MAX_GAP, contract.window // 2, contract.window - after - 1))
    sensors = "\n".join(_sensor(sensor) for sensor in contract.sensors)
    ids = "\n".join(f"      - {_text(group)}" for group in groups)
    return f"""# Written from the contract of {contract.name}, version {contract.version}. Look at what is commented.
models:
  - name: {_text(contract.name)}
    step_s: {contract.step_s:g}
    window: {contract.window}
    bucket: {bucket}              # of several readings in a step the last one stands, or their mean: as in training
    lateness_s: 0             # readings come in the order of time; set what your network needs
    revise_after: {after}           # a hole's final value comes after so many steps of right context
    max_gap: {gap}               # a sensor silent for more steps yields null: never invent for ever
    idle_timeout_s: {max(5.0, 1.5 * contract.step_s):g}        # of wall time: so long without a reading closes a step
    # min and max refuse a reading and bound what is filled in. The data only shows what was usual: set what the
    # instrument or the machine can do at all, as in {{id: flow, unit: m3/h, min: 0, max: 400}}.
    sensors:
{sensors}

groups:
  - model: {_text(contract.name)}
    ids:                      # or, for groups that the training did not know: pattern: "pump-*"
{ids}
"""


def _sensor(sensor: SensorContract) -> str:
    unit = f", unit: {_text(sensor.unit)}" if sensor.unit else ""
    return f"      - {{id: {_text(sensor.id)}{unit}}}   # in training {sensor.minimum:.6g} to {sensor.maximum:.6g}"


def _text(text: str) -> str:
    """As it is where YAML reads the same text back, else in quotes."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", text) and yaml.safe_load(text) == text
    return text if plain else json.dumps(text, ensure_ascii=False)
