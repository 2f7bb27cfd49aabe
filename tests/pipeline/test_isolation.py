"""Records applied one part at a time, so that one that fails does not cost the others."""

from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.pipeline.isolation import Isolation
from glaim_stream.pipeline.pipeline import Pipeline
from tests.support import catalogue, json_record

NOW_MS = 10**9


def test_what_the_records_caused_is_returned_once() -> None:
    pipeline = Pipeline(catalogue(sensors=1), {}, Ladder([Interpolation()]))
    isolation = Isolation(pipeline, pipeline.windows())
    counts = []
    for offset in range(3):
        record = json_record(offset, group="g0", sensor="s0", ts=offset * 1000, value=offset)
        assert list(isolation.attempts([record], now_ms=NOW_MS)) == [None]
        counts.append(isolation.take_applied().readings)
    assert counts == [1, 1, 1]
    assert isolation.take_applied().readings == 0
