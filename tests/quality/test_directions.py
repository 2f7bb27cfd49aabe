"""A wind direction around north in the stream: its errors and intervals go the shorter way."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.imputers.closed_form import ClosedFormImputer
from glaim_stream.imputers.form_expert import FormExpert
from glaim_stream.imputers.gaussian.fit import fit
from glaim_stream.imputers.gaussian.kinds import Kind
from glaim_stream.imputers.ladder import Ladder
from glaim_stream.imputers.simple import Interpolation
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.records import Method, Rows
from tests.pipeline.form_streams import NOW_MS, RULES
from tests.quality.streams import Partition, documents
from tests.support import contract, json_record

ROWS, TRAINING = 4000, 2500
LAG = 4  # steps after which a late reading comes
Doubles = NDArray[np.float64]


def weather() -> Doubles:
    """Three numbers, and a direction that turns around north by about 40 degrees."""
    rng = np.random.default_rng(3)
    around = np.zeros((4, ROWS))
    for step in range(1, ROWS):
        around[:, step] = 0.9 * around[:, step - 1] + rng.normal(0, [1.0, 1.0, 1.0, 17.0])
    return np.vstack([20.0 + around[:3], np.round(around[3], 1)[None] % 360.0])


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> FormExpert:
    values = weather()[None, :, :TRAINING]
    repository: Path = tmp_path_factory.mktemp("models")
    fitted = fit(values, np.isfinite(values), start_ms=0, step_ms=1000, sensors=("s0", "s1", "s2", "s3"), steps=12)
    assert fitted.form.kinds[3] is Kind.ANGLE
    (repository / "m").mkdir()
    fitted.form.save(repository / "m")
    return FormExpert(ClosedFormImputer(repository, RULES.models))


async def fed(expert: FormExpert) -> Partition:
    """Every fourth reading of the direction is missing; every second of these comes later."""
    values, out, held = weather(), [], defaultdict(list)
    for step in range(TRAINING, ROWS):
        for sensor in range(4):
            reading = {"group": "g", "sensor": f"s{sensor}", "ts": step * 1000, "value": float(values[sensor, step])}
            if sensor < 3 or step % 4:
                out.append(reading)
            elif step % 8:
                held[step + LAG].append(reading)
        out += held[step]
    pipeline = Pipeline(
        RULES, {"m": contract(4, window=12)}, Ladder([Interpolation()]), form_expert=expert, score_share=1.0,
        adaptive_intervals=True, quality=True,
    )  # fmt: skip
    return await Partition(pipeline, NOW_MS).feed([json_record(at, **each) for at, each in enumerate(out)])


async def test_errors_and_intervals_of_a_direction_around_north(expert: FormExpert) -> None:
    partition = await fed(expert)
    rows = Rows(*(np.concatenate([getattr(part, name) for part in partition.rows]) for name in Rows.__slots__))
    filled = (rows.sensor == 3) & (rows.method == Method.GAUSSIAN) & (rows.ts_ms >= (TRAINING + 200) * 1000)
    value, lower, upper = rows.value[filled], rows.lower[filled], rows.upper[filled]
    truth = weather()[3, rows.ts_ms[filled] // 1000]
    assert filled.sum() > 300
    off = np.abs((value - truth + 180.0) % 360.0 - 180.0)
    assert np.abs(value - truth).mean() > 3 * off.mean(), "without north in it, this test shows nothing"

    assert ((lower <= value) & (value <= upper)).all()
    assert ((lower >= 0.0) & (upper <= 360.0)).all()
    assert ((lower <= truth) & (truth <= upper)).mean() > 0.85
    narrow = upper - lower < 180.0
    assert narrow.mean() > 0.2, "an interval that does not reach north tells something"
    assert ((lower <= truth) & (truth <= upper))[narrow].mean() > 0.8

    for source in ("hidden", "late"):
        maes, counts = [], []
        for document in documents(partition.records, source).values():
            for figures in (each for each in document["sensors"] if each["sensor"] == "s3"):
                counts.append(figures["methods"]["published"]["count"])
                maes.append(figures["methods"]["published"]["mae"])
        assert sum(counts) > 100
        assert np.average(maes, weights=counts) < 2 * off.mean()  # of hidden cells, some are of a silent group
