"""The table of revisions scores the cells that every column has, and puts each in the right row."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.revisions import HOUR_MS, MODEL, Revisions, table
from deploy.cache import CHECKOUT
from glaim_stream.core.contract import read_contract
from glaim_stream.feed.dropouts import Hidden
from glaim_stream.feed.sources import Source


def test_errors_cover_only_the_cells_that_every_method_filled() -> None:
    std = read_contract(CHECKOUT / "model_repo" / MODEL).sensors[0].std
    sensor = read_contract(CHECKOUT / "model_repo" / MODEL).sensors[0].id
    times = np.arange(4) * HOUR_MS
    source = Source([("a", sensor)], np.zeros(4, np.int32), times, np.array([1.0, 2.0, 3.0, 4.0]))
    hidden = Hidden(np.array([True, True, True, False]), np.array([0, 1, 0, -1], np.int8))
    answers = {name: Revisions() for name in ("local", "last_value", "interpolation")}
    for step, gap_age in ((0, 1), (1, 2)):
        cell = ("a", sensor, step * HOUR_MS)
        truth = step + 1.0
        for revision, off in ((0, 4.0), (1, 2.0)):
            answers["local"].estimates[cell, revision] = (truth + off * std, gap_age)
        answers["last_value"].estimates[cell, 0] = (truth - std, gap_age)
        answers["interpolation"].estimates[cell, 1] = (truth, gap_age)
    answers["local"].estimates[("a", sensor, 2 * HOUR_MS), 0] = (1e9, 3)  # no other method filled this cell
    lines, result = table(source, hidden, answers)
    assert set(result) == {"all", "single readings lost", "one sensor silent", "silent for 1 h", "silent for 2 to 3 h"}
    assert result["all"] == pytest.approx(
        {"cells": 2, "provisional": 4, "final": 2, "last value": 1, "interpolation": 0}, abs=1e-3
    )
    assert result["one sensor silent"]["cells"] == 1
    assert lines[2].endswith("| -50 % |")
