"""Rows of the output topic become figures: each cell once, from when its group was there, in bounded memory."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.times import zone_of
from glaim_stream.core.vocabulary import FINAL, FIRST_CORRECTION, Method, Status
from glaim_stream.operate.completeness.counts import counted
from glaim_stream.operate.completeness.days import Days
from glaim_stream.operate.completeness.figures import FILLED_BY, SensorDays, summed
from glaim_stream.operate.completeness.rows import TopicRows
from tests.operate.completeness.topic_rows import (
    START_MS,
    STEP_MS,
    Row,
    catalogue,
    message,
    no_rows,
    sums_of,
    sums_of_messages,
)

DAY_MS = 24 * STEP_MS
RowsOf = Callable[..., TopicRows]


@pytest.fixture
def rows_of() -> Iterator[RowsOf]:
    """Makes the rows of messages that Kafka stamped at START_MS."""
    with ExitStack() as stack:

        def made(rules: Catalogue, *messages: bytes, **bounds: Any) -> TopicRows:
            topic = stack.enter_context(no_rows(rules, **bounds))
            for each in messages:
                topic.add(each, START_MS)
            return topic

        yield made


def total(found: SensorDays) -> dict[str, Any]:
    return {name: value for name, value in found.total.items() if value}


def test_cells_by_hand() -> None:
    """Hours 0 to 5 of p1: observed, observed and doubted, model after a null, null, late after a guess, no row."""
    first = message(
        Row("p1", 0, delay_ms=4000), Row("p1", 1, status=Status.UNCERTAIN_SENSOR_NOT_ACCURATE, delay_ms=6000),
        Row("p1", 2, Method.NONE), Row("p1", 3, Method.NONE), Row("p1", 4, Method.LAST_VALUE), Row("p2", 5),
    )  # fmt: skip
    second = message(Row("p1", 2, Method.MODEL, FINAL), Row("p1", 4, Method.OBSERVED, FIRST_CORRECTION, delay_ms=-8000))
    sums = sums_of_messages(catalogue(), first, second, second)  # a worker sent the second one again
    assert total(sums["p1", "flow"]) == {
        "expected": 6, "arrived": 3, "good": 2, "late": 1, "model": 1, "null": 2, "without_row": 1,
        "delays": 3, "delay_ms": 4000 + 6000 - 8000 + 3 * 0 - sum((0, 1, 4)) * STEP_MS, "longest_gap": 2,
    }  # fmt: skip
    assert total(sums["p2", "flow"]) == {
        "expected": 1, "arrived": 1, "good": 1, "delays": 1, "delay_ms": -5 * STEP_MS,
    }  # fmt: skip


def test_the_order_of_deliveries_does_not_matter() -> None:
    rng = np.random.default_rng(4)
    rows = [
        Row(f"p{group}", step, Method(int(rng.integers(1, 7))), revision, sensor)
        for group in range(3) for step in range(60) for sensor in ("flow", "temp")
        for revision in range(int(rng.integers(0, 4)))
    ]  # fmt: skip
    rules = catalogue(sensors=[{"id": "flow"}, {"id": "temp"}])
    found = []
    for order in (np.arange(len(rows)), rng.permutation(len(rows))):
        parts = np.array_split(order, 7)
        messages = [message(*(rows[place] for place in part.tolist())) for part in (*parts, parts[0], parts[3])]
        sums_of_order = sums_of_messages(rules, *messages, since_ms=START_MS + 2 * STEP_MS)
        found.append({key: (each.figures.tolist(), each.longest_gap) for key, each in sums_of_order.items()})
        for each in sums_of_order.values():
            sums = summed(each.figures)
            methods = sum(sums[name] for name in FILLED_BY)
            assert sums["arrived"] + methods + sums["null"] == sums["expected"]
    assert found[0] == found[1]
    assert len(found[0]) == 6


def test_a_group_that_falls_silent_owes_rows_up_to_the_newest_of_the_topic() -> None:
    rows = [Row("p1", step) for step in range(12)] + [Row("p2", step) for step in range(6, 30)]
    sums = sums_of_messages(catalogue(), message(*rows), zone="Europe/Berlin")
    p1 = sums["p1", "flow"].figures
    assert p1[["expected", "arrived", "without_row", "longest_gap"]].tolist() == [(23, 12, 11, 11), (7, 0, 7, 7)]
    assert total(sums["p2", "flow"])["expected"] == 24  # from its first row on
    assert sums["p1", "flow"].longest_gap == 18


def test_a_model_owes_rows_only_behind_its_own_lateness() -> None:
    rules = catalogue().model_dump()
    rules["models"].append({**rules["models"][0], "name": "slow", "lateness_s": 6 * 3600})
    rules["groups"].insert(0, {"model": "slow", "pattern": "ps*"})
    rows = [*(Row("p1", step) for step in range(24)), *(Row("ps", step) for step in range(18))]
    sums = sums_of_messages(catalogue().model_validate(rules), message(*rows))
    assert [each.total["without_row"] for each in sums.values()] == [0, 0]


@pytest.mark.parametrize(("hours_behind", "without_row"), [(1, 0), (48, 0), (49, 49)])
def test_a_partition_that_is_a_little_behind_owes_nothing_yet(
    rows_of: RowsOf, hours_behind: int, without_row: int
) -> None:
    """48 steps are the silence after which a group counts as dark."""
    topic = rows_of(catalogue())
    topic.add(message(*(Row("p1", step) for step in range(60))), START_MS, 0)
    topic.add(message(*(Row("p2", step) for step in range(60 - hours_behind))), START_MS, 1)
    sums = sums_of(topic)
    assert [each.total["without_row"] for each in sums.values()] == [0, without_row]


@pytest.mark.parametrize(
    ("days_before", "expected"),
    [(None, 6), (3, 24)],  # it was never there before its first row, or it was, three days before the range
)
def test_a_group_that_was_there_before_is_expected_from_the_beginning(
    rows_of: RowsOf, days_before: int | None, expected: int
) -> None:
    topic = rows_of(catalogue(), since_ms=START_MS, until_ms=START_MS + DAY_MS)
    if days_before is not None:  # as an event of the outage topic says
        topic.met(np.array([topic.index.group("p1")]), np.array([START_MS - days_before * DAY_MS]))
    topic.add(message(*(Row("p1", step) for step in range(18, 24)), Row("p2", 23)), START_MS)
    sums = sums_of(topic, since_ms=START_MS, until_ms=START_MS + DAY_MS)
    assert (sums["p1", "flow"].total["expected"], sums["p1", "flow"].total["arrived"]) == (expected, 6)


@pytest.mark.parametrize(("days_before", "there"), [(2, True), (8, False)])
def test_a_group_without_a_row_counts_for_a_week(rows_of: RowsOf, days_before: int, there: bool) -> None:
    topic = rows_of(catalogue(), since_ms=START_MS)
    topic.met(np.array([topic.index.group("p1")]), np.array([START_MS - days_before * DAY_MS]))
    topic.add(message(Row("p2", 0), Row("p2", 11)), START_MS)
    sums = sums_of(topic, since_ms=START_MS)
    assert (("p1", "flow") in sums) is there
    if there:
        assert total(sums["p1", "flow"]) == {"expected": 12, "null": 12, "without_row": 12, "longest_gap": 12}


def test_a_group_that_the_catalogue_names_and_that_never_sent_is_expected(rows_of: RowsOf) -> None:
    topic = rows_of(catalogue(ids=["p-absent"]), message(Row("p2", 0), Row("p2", 11)))
    topic.index.group("p-absent")
    assert total(sums_of(topic)["p-absent", "flow"])["without_row"] == 12


def test_a_slow_sensor_owes_one_reading_for_each_of_its_intervals() -> None:
    rules = catalogue(sensors=[{"id": "flow"}, {"id": "lab", "cadence_s": 6 * 3600}])
    rows = [Row("p1", step) for step in range(24)]
    rows += [Row("p1", 3, sensor="lab"), Row("p1", 4, sensor="lab"), Row("p1", 11, Method.LAST_VALUE, sensor="lab")]
    rows += [Row("p1", 17, Method.NONE, sensor="lab"), Row("p1", 20, sensor="lab")]
    lab = sums_of_messages(rules, message(*rows))["p1", "lab"]
    assert lab.cell_ms == 6 * STEP_MS
    found = total(lab)
    assert [found[name] for name in ("expected", "arrived", "last_value", "null", "longest_gap")] == [4, 2, 1, 1, 2]


def test_late_readings_are_cells_and_counted_once(rows_of: RowsOf) -> None:
    topic = rows_of(catalogue(), message(Row("p1", 0), Row("p1", 1, Method.MODEL), Row("p1", 2)))
    group, sensor = np.full(5, topic.index.group("p1")), np.zeros(5, np.int64)
    steps = np.array([1, 1, 2, -3, 1])  # twice in the topic, of a cell that has a reading, and before its first row
    topic.add_late(group, sensor, START_MS + steps * STEP_MS + 60_000)
    found = total(sums_of(topic)["p1", "flow"])
    assert (found["late"], found["too_late"], found["model"], found["arrived"]) == (1, 1, 1, 2)


def test_what_retention_removed_is_not_counted_as_missing(rows_of: RowsOf) -> None:
    rows = [Row("p1", step) for step in range(5, 24)] + [Row("p2", step) for step in range(10, 24)]
    topic = rows_of(catalogue(), message(*rows), since_ms=START_MS)
    topic.met(np.array([topic.index.group("p2")]), np.array([START_MS]))
    sums = sums_of(topic, since_ms=START_MS, retained_ms=START_MS + 10 * STEP_MS)
    assert [each.total["without_row"] for each in sums.values()] == [0, 0]
    assert [each.total["expected"] for each in sums.values()] == [14, 14]


def test_rows_of_others_are_counted_apart(rows_of: RowsOf) -> None:
    topic = rows_of(catalogue(), message(Row("p1", 0), Row("q1", 0), Row("p1", 0, sensor="other")))
    assert (topic.rows, topic.foreign) == (1, 2)


def peak_bytes(hours: int) -> int:
    """The most memory that a report on 300 groups takes, beside their messages and the database."""
    messages = [message(*(Row(f"p{number}", step) for number in range(300))) for step in range(hours)]
    tracemalloc.start()
    sums = sums_of_messages(catalogue(), *messages)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {each.total["arrived"] for each in sums.values()} == {hours}
    return peak


def test_memory_does_not_grow_with_the_rows() -> None:
    """45,000 and 90,000 rows of the same groups."""
    assert peak_bytes(300) < 1.2 * peak_bytes(150)


def test_rows_beyond_the_databases_memory_lie_on_disk() -> None:
    """Three million rows of 34 bytes, sorted in 100 MB."""
    steps, sensors = 60_000, 50
    with no_rows(catalogue(sensors=[{"id": f"s{row}"} for row in range(sensors)]), memory="100MB") as topic:
        group = topic.index.group("p1")
        for sensor in range(sensors):
            step = np.random.default_rng(sensor).permutation(steps)
            constants = {
                "series": group * sensors + sensor,
                "revision": 0,
                "method": int(Method.OBSERVED),
                "delay_ms": 5.0,
            }
            columns = {name: np.full(steps, value) for name, value in constants.items()}
            topic.database.add("topic", {**columns, "cell": step, "step": step, "good": step % 2 == 0})
        spans = topic.make_cells({group: (0, steps * STEP_MS)})
        found, _ = counted(topic.database, spans, Days(zone_of("UTC"), 0, steps * STEP_MS))
    assert {(each.total["arrived"], each.total["good"]) for each in found} == {(steps, steps // 2)}
    assert len(found) == sensors
