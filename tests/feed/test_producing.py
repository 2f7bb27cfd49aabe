"""The producer without a broker: which messages are sent when, and the report."""

import numpy as np
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.feed.formats import InputFormat
from glaim_stream.feed.messages import Plan, plan_messages
from glaim_stream.feed.producing import ProduceReport, dry_run, message_slices, paced_slices, produce
from glaim_stream.feed.sources import Source

T0 = 1_486_000_800_000


def source(*times_ms: int, cells: tuple[int, ...] | None = None) -> Source:
    """Readings of three sensors in two groups; all of sensor a of group g unless `cells` is given."""
    count = len(times_ms)
    return Source(
        [("g", "a"), ("g", "b"), ("h", "a")],
        np.zeros(count, np.int32) if cells is None else np.array(cells, np.int32),
        np.array(times_ms, np.int64) + T0,
        np.arange(count, dtype=np.float64),
    )


def singles(*times_ms: int) -> Plan:
    return plan_messages(source(*times_ms), InputFormat.SINGLE)


def test_slices_hold_two_thousand_readings_each() -> None:
    assert message_slices(singles()) == []
    assert message_slices(singles(0)) == [(0, 1)]
    assert message_slices(singles(*range(2000))) == [(0, 2000)]
    assert message_slices(singles(*range(4001))) == [(0, 2000), (2000, 4000), (4000, 4001)]


def test_slices_do_not_divide_messages() -> None:
    """Messages of 1,500 readings start at readings 0, 1,500 and 3,000."""
    plan = plan_messages(source(*range(4000)), InputFormat.BATCH, batch=1500)
    assert message_slices(plan) == [(0, 2), (2, 3)]


def test_a_paced_slice_holds_the_readings_due_within_a_tick() -> None:
    assert paced_slices(singles(), 1.0) == []
    assert paced_slices(singles(0, 19, 20, 39, 40), 1.0) == [(0, 2), (2, 4), (4, 5)]
    assert paced_slices(singles(0, 39, 40), 2.0) == [(0, 2), (2, 3)]
    assert paced_slices(singles(0, 0, 1), 0.001) == [(0, 2), (2, 3)], "a tick is at least a millisecond"


def test_a_dry_run_counts_what_would_be_sent() -> None:
    given = source(0, 5, 9, cells=(0, 1, 2))
    null = np.array([False, True, False])
    report = dry_run(given, InputFormat.STEP, null=null)
    size = sum(len(f'{{"group":"{g}","ts":{T0 + t},"values":{{"{s}":{v}}}}}') for g, s, t, v in
               (("g", "a", 0, "0"), ("g", "b", 5, "null"), ("h", "a", 9, "2")))  # fmt: skip
    assert report == ProduceReport(3, 1, 3, size, 2, T0, T0 + 9, 0.0, 0, "")
    assert report.readings_per_second == 0.0
    assert dry_run(source(), InputFormat.SINGLE) == ProduceReport(0, 0, 0, 0, 0, 0, 0, 0.0, 0, "")


def test_the_rate_is_readings_per_second() -> None:
    assert ProduceReport(30, 0, 1, 1, 1, 0, 0, 1.5, 0).readings_per_second == 20.0


@pytest.mark.parametrize(("batch", "speed"), [(0, None), (1, 0.0), (1, -1.0)])
def test_arguments_out_of_range_are_rejected_before_anything_is_sent(batch: int, speed: float | None) -> None:
    with pytest.raises(SettingsError, match="a batch of 1 or more and a speed above 0"):
        produce(Settings(kafka="127.0.0.1:1"), source(0), batch=batch, speed=speed)


def test_a_batch_is_closed_when_it_is_full_and_sent_when_its_last_reading_is_due() -> None:
    plan = plan_messages(source(0, 1, 2, 3), InputFormat.BATCH, batch=3)
    assert plan.starts.tolist() == [0, 3, 4]
    assert plan.due_ms.tolist() == [T0 + 2, T0 + 3]


@pytest.mark.parametrize("input_format", [InputFormat.BATCH, InputFormat.ARROW])
def test_a_batch_ends_where_a_reading_of_another_group_comes_next(input_format: InputFormat) -> None:
    given = source(0, 1, 2, 3, 4, 4, 4, cells=(0, 2, 0, 0, 2, 0, 2))
    plan = plan_messages(given, input_format, batch=2)
    assert plan.starts.tolist() == [0, 1, 2, 4, 5, 7]
    assert plan.source.cell.tolist() == [0, 2, 0, 0, 0, 2, 2], "at one time, group by group"
    assert plan.source.value.tolist() == [0, 1, 2, 3, 5, 4, 6], "of two readings at one time the later one stays last"
    assert plan.source.time_ms.tolist() == sorted(plan.source.time_ms.tolist())
    apart = plan_messages(given, input_format, batch=3, by_group=True)
    assert apart.starts.tolist() == [0, 3, 4, 7]
    assert apart.source.value.tolist() == [0, 2, 3, 5, 1, 4, 6]


def test_a_step_is_one_time_of_one_group() -> None:
    given = source(0, 0, 0, 1, cells=(0, 1, 2, 0))
    plan = plan_messages(given, InputFormat.STEP)
    assert plan.starts.tolist() == [0, 2, 3, 4]
    assert plan.due_ms.tolist() == [T0, T0, T0 + 1]
