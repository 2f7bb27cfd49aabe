"""The load that every benchmarked engine receives: the worker's decoder accepts all of it, in every shape."""

from typing import get_args

import pytest
import yaml

from benchmarks.load import Shape, TopicLoad
from glaim_stream.core.catalogue import parse_catalogue
from glaim_stream.imputers import Ladder, LastValue
from glaim_stream.pipeline import Pipeline
from tests.support import Record


@pytest.mark.parametrize("shape", get_args(Shape))
def test_no_reading_of_any_shape_is_rejected_or_late(shape: Shape) -> None:
    load = TopicLoad(20_000, shape=shape, groups=20)
    pipeline = Pipeline(
        parse_catalogue(yaml.safe_load(load.catalogue), source="load"), {}, Ladder([LastValue()], batch=8)
    )
    windows = [pipeline.windows() for _ in range(load.partitions)]
    messages = list(load.messages())
    newest_ms = 1_800_000_000_000
    count = 0
    for partition, partition_windows in enumerate(windows):
        mine = [each for each in messages if each.partition == partition]
        records = [Record(each.value, n, each.key, each.headers, newest_ms) for n, each in enumerate(mine)]
        applied = pipeline.apply(partition_windows, records, now_ms=newest_ms)
        assert applied.rejects == []
        assert applied.superseded == 0
        assert all((closed.revision < 2).all() for closed in applied.closed), (
            "no reading may arrive after its step has closed"
        )
        count += applied.readings - applied.dropouts  # a null in a wide table means that there is no value
    assert count == sum(each.readings for each in messages)
    assert 20_000 <= count < 20_000 + 1100
    assert [each.step for each in messages if shape != "batch"] == sorted(
        each.step for each in messages if shape != "batch"
    )
