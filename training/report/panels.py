"""A chart of one sensor in one window: observed, hidden and filled values over time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from glaim_stream.core.drawing import (
    KEY_BAND,
    ChartSize,
    Curves,
    key_circle,
    key_line,
    legend,
    number,
    sensor_chart,
    time_marks,
)

_SIZE = ChartSize(520, 190, 68)


def panel(example: Mapping[str, Any]) -> str:
    """Draw an example of training.report.examples as SVG."""
    observed, model, lower, upper, straight, truth = (
        np.array(example[name], float) for name in ("observed", "model", "lower", "upper", "interpolation", "hidden")
    )
    label = (
        f"{example['group']} {example['sensor']}, {example['rule']}: observed, hidden and imputed values over time; "
        f"mean absolute error {number(example['mae_unit'])} {example['unit']}"
    )
    tips = [f"truth {number(a, 4)}, model {number(b, 4)}" for a, b in zip(truth, model, strict=True)]
    marks = time_marks(example["first_ms"], example["last_ms"], len(observed), 6)
    return sensor_chart(Curves(observed, model, lower, upper, straight, truth), _SIZE, marks, label, tips)


def key() -> str:
    """Draw the legend of all panels."""
    return legend(
        [
            (key_line("observed"), "observed"),
            (key_circle("truth"), "hidden from every method: the truth"),
            (key_line("filled"), "model"),
            (KEY_BAND, "its 90 % interval"),
            (key_line("straight"), "linear interpolation"),
        ]
    )
