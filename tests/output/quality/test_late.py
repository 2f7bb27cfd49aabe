"""What late readings say about the values that were published before them."""

from collections import defaultdict

import numpy as np
import pytest

from glaim_stream.core.times import moment_ms
from glaim_stream.core.vocabulary import FIRST_CORRECTION
from glaim_stream.output.quality.late import LateReadings
from glaim_stream.output.records import Method, Rows
from glaim_stream.windows import STRETCH
from tests.output.quality.streams import Partition, documents, pipeline_of
from tests.pipeline.form_streams import Offset, records
from tests.support import Record, json_record

DELAY = 4  # steps


def with_late(steps: int) -> list[Record]:
    """Of the readings of every fifth step, one comes `DELAY` steps later."""
    topic = records(steps, constant=False)
    held: dict[int, list[Record]] = defaultdict(list)
    out: list[Record] = []
    newest = 0
    for record in topic:
        step = int(str(record.value).split('"ts": ')[1].split(",")[0].rstrip("}'")) // 1000
        if step > newest:
            for due in [each for each in sorted(held) if each + DELAY <= step]:
                out += held.pop(due)
            newest = step
        if step > 20 and step % 5 == 0 and '"sensor": "s2"' in str(record.value):
            held[step].append(record)
        else:
            out.append(record)
    return [json_record(offset, **_document(record)) for offset, record in enumerate(out)]


def _document(record: Record) -> dict[str, object]:
    import json

    found: dict[str, object] = json.loads(record.value or b"")
    return found


async def test_late_readings_judge_the_newest_value_that_was_published() -> None:
    partition = await Partition(pipeline_of(Offset(20.0))).feed(with_late(400))
    rows = partition.every_row()
    newest: dict[tuple[int, int, int], tuple[float, float, float]] = {}
    errors: dict[tuple[int, int], list[float]] = defaultdict(list)
    held: dict[tuple[int, int], list[bool]] = defaultdict(list)
    for row in range(len(rows)):
        cell = (int(rows.group[row]), int(rows.sensor[row]), int(rows.ts_ms[row]))
        if not rows.observed[row] and np.isfinite(rows.value[row]):
            newest[cell] = (float(rows.value[row]), float(rows.lower[row]), float(rows.upper[row]))
        elif rows.revision[row] == FIRST_CORRECTION and cell in newest:
            value, lower, upper = newest[cell]
            key = (cell[0], cell[2] // 1000 // STRETCH)
            errors[key].append(abs(value - float(rows.value[row])))
            held[key].append(lower <= rows.value[row] <= upper)
    found = documents(partition.records, "late")
    assert len(found) >= 9
    for document in found.values():
        code = partition.pipeline.index.known(document["group"])
        assert code is not None
        key = (code, moment_ms(document["from"]) // (1000 * STRETCH))
        published = [each["methods"]["published"] for each in document["sensors"]]
        assert sum(each["count"] for each in published) == len(errors[key]) > 3
        total = sum(each["count"] * each["mae"] for each in published)
        assert total == pytest.approx(sum(errors[key]), rel=1e-7)
        covered = sum(each["intervals"] * each["coverage"] for each in document["sensors"])
        assert covered == pytest.approx(sum(held[key]))
        assert "regret" not in document


async def test_a_successor_publishes_no_late_record_that_could_be_smaller() -> None:
    topic = with_late(500)
    ended = len(topic) // 2
    first = await Partition(pipeline_of(Offset(20.0))).feed(topic[:ended])
    begin = first.windows.rebuild_from(ended)
    successor = await (await first.rebuilt(topic[begin:ended])).feed(topic[ended:])
    whole = documents((await Partition(first.pipeline).feed(topic)).records, "late")
    both = documents(first.records, "late") | documents(successor.records, "late")
    assert both.items() <= whole.items()
    assert len(documents(successor.records, "late")) > 3


def row(step: int, value: float, *, observed: bool = False, revision: int = 0, status: int = 0) -> Rows:
    one = np.ones(1)
    return Rows(
        group=np.zeros(1, np.int32), sensor=np.zeros(1, np.int32), ts_ms=np.array([step * 1000]),
        event_time_ms=np.array([step * 1000]), value=value * one, observed=np.array([observed]),
        method=np.array([Method.OBSERVED if observed else Method.MODEL], np.int8), status=np.array([status], np.uint32),
        lower=(value - 1) * one, upper=(value + 1) * one, gap_age=np.ones(1, np.int32),
        revision=np.array([revision], np.int16), final=np.array([False]), version=np.zeros(1, np.int32),
    )  # fmt: skip


def fed(most: int, *, gap: int, status: int = 0) -> LateReadings:
    """Estimates of the steps 0 to 299, and for those of a stretch a reading `gap` steps later."""
    late = LateReadings(window=12, step_ms=1000, sensors=1, most=most)
    for step in range(300):
        late.add(row(step, 5.0))
        if 2 * STRETCH <= step - gap < 3 * STRETCH:
            late.add(row(step - gap, 7.5, observed=True, revision=FIRST_CORRECTION, status=status))
    return late


def test_a_stretch_is_over_once_no_reading_can_come_for_it() -> None:
    late = fed(1000, gap=3)
    assert late.take_until(3 * STRETCH + 11) == []
    (stretch,) = late.take_until(3 * STRETCH + 12)
    assert (stretch.index, len(stretch.cells)) == (2, STRETCH)
    assert set(stretch.cells.errors[:, -1].tolist()) == {2.5}
    assert not stretch.cells.held.any()


def test_what_is_remembered_is_bounded_and_a_stretch_that_lost_estimates_is_left_out() -> None:
    late = fed(5, gap=3)
    assert sum(len(codes) for codes in late.group_codes()) <= 5 + STRETCH
    assert late.take_until(300) == []


def test_a_doubted_reading_is_no_truth() -> None:
    from glaim_stream.core.vocabulary import Status

    assert fed(1000, gap=3, status=int(Status.UNCERTAIN_SENSOR_NOT_ACCURATE)).take_until(300) == []


def test_a_correction_between_two_estimates_is_none_of_them() -> None:
    """Both were published together, as the final row of one step and the first one of a later step."""
    late = LateReadings(window=12, step_ms=1000, sensors=1)
    late.add(row(0, 5.0))
    both = [row(7, 5.0), row(9, 5.0)]
    late.add(Rows(*(np.concatenate([getattr(each, name) for each in both]) for name in Rows.__slots__)))
    late.add(row(8, 7.5, observed=True, revision=FIRST_CORRECTION))
    late.add(row(9, 7.5, observed=True, revision=FIRST_CORRECTION))
    (stretch,) = late.take_until(STRETCH + 12)
    assert stretch.cells.step.tolist() == [9]
