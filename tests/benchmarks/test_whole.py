"""The errors of the whole: on readings that were left out, on what every way estimated, against the plant's truth."""

import asyncio

import pytest
import yaml

from benchmarks.left_out import Estimates, common, estimates, mean_error
from benchmarks.load import FIRST_STEP_MS
from benchmarks.whole import PlantLoad
from glaim_stream.core.catalogue import parse_catalogue
from glaim_stream.imputers import Ladder, LastValue
from glaim_stream.pipeline import Pipeline
from tests.support import Record

NOW_MS = 1_800_000_000_000
LOAD = PlantLoad(3_000, groups=2, partitions=1)
SENSORS = list(LOAD.sensors)


def test_estimates_are_the_filled_values_of_readings_that_were_not_sent() -> None:
    pipeline = Pipeline(parse_catalogue(yaml.safe_load(LOAD.catalogue), source="load"), {}, Ladder([LastValue()]))
    sent = list(LOAD.messages())
    records = [Record(each.value, n, each.key, each.headers, NOW_MS) for n, each in enumerate(sent)]
    applied = pipeline.apply(pipeline.windows(), records, now_ms=NOW_MS)
    messages = [each.value for each in pipeline.messages(asyncio.run(pipeline.fill(applied.closed)))]
    found = estimates(messages, step_ms=LOAD.step_ms, from_step=0)
    assert len(found) > 100
    later = {key: value for key, value in found.items() if key[2] >= 20}
    assert later == estimates(messages, step_ms=LOAD.step_ms, from_step=20) != found
    truth = LOAD.truth(sent[-1].step + 1)
    present = {
        (name, sensor, (time_ms - FIRST_STEP_MS) // LOAD.step_ms)
        for _, time_ms, rows in LOAD._steps()
        for name, readings in rows
        for sensor, _ in readings
    }
    for (name, sensor, step, revision), value in found.items():
        assert (name, sensor, step) not in present
        if revision == 0 and (name, sensor, step - 1) in present:
            assert value == truth[LOAD.names.index(name), SENSORS.index(sensor), step - 1]


def test_errors_are_those_of_the_estimates_of_every_way_in_standard_deviations() -> None:
    truth = LOAD.truth(50)
    scale = truth.std(axis=(0, 2))
    cells = [(group, sensor, step) for group in range(2) for sensor in range(len(SENSORS)) for step in range(10)]

    def way(deviations: float, extra: int) -> Estimates:
        found = {
            (LOAD.names[group], SENSORS[sensor], step, 0): truth[group, sensor, step] + deviations * scale[sensor]
            for group, sensor, step in cells
        }
        return found | {(LOAD.names[0], SENSORS[0], extra, 1): 1e9}

    near, far = way(0.5, 11), way(-2.0, 12)
    keys = common([near, far])
    assert len(keys) == len(cells)
    assert [mean_error(each, keys, truth, LOAD.names, SENSORS) for each in (near, far)] == pytest.approx([0.5, 2.0])
    assert mean_error(near, [], truth, LOAD.names, SENSORS) is None
