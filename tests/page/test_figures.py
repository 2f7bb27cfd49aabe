"""The figures of the page, from counters that a test sets and a clock that it moves."""

import pytest
from prometheus_client import Histogram

from glaim_stream.core import metrics
from glaim_stream.page.figures import RECENT_S, Accuracy, Throughput

BUCKETS_S = metrics._LATENCY_BUCKETS_S


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 5000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock, and metrics without what other tests of this process have counted."""
    latency = Histogram("latency", "As that of the worker", buckets=BUCKETS_S, registry=None)
    monkeypatch.setattr(metrics, "output_latency_seconds", latency)
    for metric in (
        metrics.rows, metrics.dead_letters, metrics.consumer_lag_records, metrics.newest_event_seconds,
        metrics.score_error, metrics.score_questions, metrics.score_intervals, metrics.score_intervals_holding,
    ):  # fmt: skip
        metric.clear()
    return Clock()


def observe(*latencies_s: float) -> None:
    for latency_s in latencies_s:
        metrics.output_latency_seconds.observe(latency_s)


def test_rates_are_what_was_counted_over_the_time_that_passed(clock: Clock) -> None:
    throughput = Throughput(clock)
    assert throughput.read()["per_s"] == {"readings": None, "rows": None}
    metrics.readings.inc(1200)
    metrics.rows.labels("observed").inc(1100)
    metrics.rows.labels("model").inc(400)
    clock.now_s += 0.9
    assert throughput.read()["per_s"] == {"readings": None, "rows": None}, "too short to tell"
    clock.now_s += 3.1
    assert throughput.read()["per_s"] == {"readings": 300.0, "rows": 375.0}


def test_rates_forget_what_is_longer_ago_than_ten_seconds(clock: Clock) -> None:
    throughput = Throughput(clock)
    found = []
    for second in range(40):
        found.append(throughput.read()["per_s"]["readings"])
        clock.now_s += 1
        metrics.readings.inc(100 if second < 20 else 7)
    assert found[1:21] == [100.0] * 20
    assert found[25] == pytest.approx((5 * 100 + 5 * 7) / 10)
    assert found[30:] == [7.0] * 10


def test_rates_are_right_when_they_are_read_often_and_after_a_pause(clock: Clock) -> None:
    throughput = Throughput(clock)
    for _ in range(200):
        throughput.read()
        clock.now_s += 0.2
        metrics.readings.inc(10)
    assert throughput.read()["per_s"]["readings"] == pytest.approx(50.0)
    clock.now_s += 3600  # no browser was connected
    assert throughput.read()["per_s"]["readings"] == pytest.approx(0.0, abs=0.2)


def test_totals_and_filled_rows_are_those_of_the_counters(clock: Clock) -> None:
    throughput = Throughput(clock)
    before = throughput.read()["total"]
    metrics.readings.inc(10)
    metrics.late_readings.inc(2)
    metrics.worker_faults.inc(1)
    for cause, count in (("json", 3), ("unknown_sensor", 4)):
        metrics.dead_letters.labels(cause).inc(count)
    for method, count in (("observed", 50), ("model", 20), ("interpolation", 6), ("none", 3)):
        metrics.rows.labels(method).inc(count)
    metrics.rows.labels("last_value")  # a series that counts nothing yet
    found = throughput.read()
    added = {name: total - before[name] for name, total in found["total"].items()}
    assert added == {"readings": 10, "rows": 79, "dead_letters": 7, "late": 2, "faults": 1}
    assert found["filled"] == {"observed": 50, "model": 20, "interpolation": 6, "none": 3}


def test_the_lag_is_that_of_all_partitions(clock: Clock) -> None:
    throughput = Throughput(clock)
    assert throughput.read()["lag_records"] == 0
    for partition, lag in enumerate([5, 0, 1000]):
        metrics.consumer_lag_records.labels(str(partition)).set(lag)
    metrics.input_partitions.set(6)
    found = throughput.read()
    assert (found["lag_records"], found["partitions_of_topic"]) == (1005, 6)


def test_the_slowest_partition_is_behind_the_clock_also_while_nothing_arrives(clock: Clock) -> None:
    wall = Clock()
    throughput = Throughput(clock, wall)
    assert throughput.read()["behind_s"] is None
    for partition, behind_s in enumerate([2.5, 70.0, 0.25]):
        metrics.newest_event_seconds.labels(str(partition)).set(wall.now_s - behind_s)
    assert throughput.read()["behind_s"] == 70.0
    wall.now_s += 600
    assert throughput.read()["behind_s"] == 670.0


def test_latencies_are_interpolated_within_their_buckets(clock: Clock) -> None:
    throughput = Throughput(clock)
    assert throughput.read()["latency_ms"] == {"p50": None, "p99": None}
    observe(*[0.02] * 90, *[0.7] * 10)
    found = throughput.read()["latency_ms"]
    assert found["p50"] == pytest.approx(10 + 15 * 50 / 90), "between 10 and 25 ms"
    assert found["p99"] == pytest.approx(500 + 500 * 9 / 10), "between 500 ms and 1 s"


@pytest.mark.parametrize("at", range(len(BUCKETS_S)))
def test_a_latency_lies_in_the_bucket_of_what_was_measured(clock: Clock, at: int) -> None:
    low, high = (0.0, *BUCKETS_S)[at : at + 2]
    observe(*[low + 0.6 * (high - low)] * 40)
    found = Throughput(clock).read()["latency_ms"]
    assert 1000 * low < found["p50"] < found["p99"] < 1000 * high


def test_a_latency_beyond_the_buckets_is_at_least_the_last_one(clock: Clock) -> None:
    observe(0.02, 300.0, 300.0)
    assert Throughput(clock).read()["latency_ms"] == {"p50": 60_000.0, "p99": 60_000.0}


def test_latencies_are_those_of_the_last_ten_seconds_alone(clock: Clock) -> None:
    throughput = Throughput(clock)
    observe(*[20.0] * 1000)
    assert throughput.read()["latency_ms"]["p50"] > 10_000, "since the start, until there is something to compare"
    for _ in range(12):
        clock.now_s += 1
        observe(*[0.02] * 3)
        latest = throughput.read()["latency_ms"]
    assert latest["p50"] == pytest.approx(17.5)
    assert latest["p99"] < 25
    for _ in range(12):
        clock.now_s += 1
        latest = throughput.read()["latency_ms"]
    assert latest == {"p50": None, "p99": None}, "nothing was acknowledged of late"


def score(sensor: str, position: str, *, count: int, **errors: float) -> None:
    metrics.score_questions.labels("m", sensor, position).inc(count)
    for method, error in errors.items():
        metrics.score_error.labels("m", sensor, method, position).inc(error)


def test_errors_are_means_over_the_hidden_readings_by_place(clock: Clock) -> None:
    accuracy = Accuracy(clock)
    score("s0", "edge", count=4, model=2.0, blend=1.0)
    score("s0", "row_edge", count=6, model=3.0, blend=4.0)
    score("s0", "interior", count=5, model=10.0)
    metrics.score_questions.labels("other", "s0", "edge").inc(100)
    found = accuracy.read("m")
    assert found["since_start"]
    assert found["errors"] == {
        "first": {"s0": {"count": 10, "model": 0.5, "blend": 0.5}},
        "final": {"s0": {"count": 5, "model": 2.0}},
    }


def test_coverage_is_the_share_of_intervals_that_hold(clock: Clock) -> None:
    assert Accuracy(clock).read("m")["coverage"] is None
    for position, judged, held in (("edge", 30, 27), ("interior", 10, 5)):
        metrics.score_intervals.labels("m", position).inc(judged)
        metrics.score_intervals_holding.labels("m", position).inc(held)
    found = Accuracy(clock).read("m")
    assert (found["coverage"], found["judged"]) == (0.8, 40)


def test_errors_are_those_of_the_last_ten_minutes_once_there_are_as_many(clock: Clock) -> None:
    accuracy = Accuracy(clock)
    for _ in range(30):
        accuracy.read("m")
        score("s0", "edge", count=10, model=50.0)
        clock.now_s += 60
    for _ in range(int(RECENT_S / 60) + 4):
        accuracy.read("m")
        score("s0", "edge", count=10, model=1.0)
        clock.now_s += 60
    found = accuracy.read("m")
    assert not found["since_start"]
    assert found["errors"]["first"]["s0"]["model"] == pytest.approx(0.1)
    assert 100 <= found["errors"]["first"]["s0"]["count"] <= 130


def test_a_model_that_no_browser_shows_is_forgotten(clock: Clock) -> None:
    accuracy = Accuracy(clock)
    score("s0", "edge", count=10, model=50.0)
    for _ in range(8):
        accuracy.read("m")
        clock.now_s += RECENT_S
    assert not accuracy.read("m")["since_start"]
    accuracy.keep({"another"})
    assert accuracy.read("m")["errors"]["first"]["s0"] == {"count": 10, "model": 5.0}
