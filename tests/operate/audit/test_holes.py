"""The rules for holes: for each an input that just breaks it and one that just complies."""

from glaim_stream.operate.audit.arrivals import Arrivals
from glaim_stream.operate.audit.chunks import Bounds
from glaim_stream.operate.audit.expected import expected_rows
from glaim_stream.operate.audit.holes import Speakers, check_finals, check_silence, slow_sensors_heard
from glaim_stream.operate.audit.output_rows import OutputRows
from glaim_stream.operate.audit.report import Findings
from tests.operate.audit.tables import ALL, G1, G2, STEP_MS, arrived, key_of, keys_of, no_rows, output, row

SLOW = 2  # the sensor that reports every third step


def finals(arrivals: Arrivals, *given: OutputRows) -> list[int | None]:
    """Start times of the steps that lack a final row."""
    rows = output(*given)
    keys = keys_of(rows, arrivals)
    found = check_finals(
        slow_sensors_heard(arrivals, keys), arrivals.closed_at_commit, rows, key_of(rows, keys), keys, examples=99
    )
    assert found.count == len(found.first)
    return [each.ts_ms for each in found.first]


def test_a_final_row_is_due_revise_after_steps_after_its_step_closed() -> None:
    """Steps below 10 are closed; revise_after is 2, so the final row of step 7 is due and that of step 8 is not."""
    arrivals = arrived((G1, 0, 10 * STEP_MS, 1.0))
    assert finals(arrivals, row(7, 0.0, final=False), row(8, 0.0, final=False)) == [7 * STEP_MS]
    assert finals(arrivals, row(7, 0.0, final=False), row(7, 0.0, revision=1)) == []
    assert finals(arrivals, row(7, 0.0, final=False), row(7, 0.0, sensor=1, revision=1)) == [7 * STEP_MS]
    assert finals(arrivals, row(7, 0.0, final=False, observed=True)) == []


def test_a_slow_sensor_with_a_reading_on_time_needs_no_final_row() -> None:
    """The wall clock published a hole at step 5 before the reading of step 4 arrived; steps 3 to 5 are one interval."""
    hole = row(5, 0.0, sensor=SLOW, final=False)
    reading, clock = (G1, SLOW, 4 * STEP_MS, 1.0), (G2, 0, 10 * STEP_MS, 1.0)
    assert finals(arrived(reading, clock), hole) == []
    assert finals(arrived(clock), hole) == [5 * STEP_MS]
    assert finals(arrived((G1, SLOW, 6 * STEP_MS, 1.0), clock), hole) == [5 * STEP_MS]


def test_a_reading_of_a_slow_sensor_is_on_time_until_its_interval_closes() -> None:
    def steps(*given: tuple[int, int, int, float]) -> list[int]:
        arrivals = arrived(*given)
        keys = keys_of(no_rows(), arrivals)
        found = slow_sensors_heard(arrivals, keys)
        assert (keys.cell(found) == SLOW).all()
        return keys.step(found).tolist()

    assert steps((G1, SLOW, 3 * STEP_MS, 1.0), (G1, SLOW, 8 * STEP_MS, 1.0)) == [5, 8]
    late = (G1, SLOW, 4 * STEP_MS, 1.0)
    assert steps((G2, 0, 5 * STEP_MS, 1.0), late) == [5]
    assert steps((G2, 0, 6 * STEP_MS, 1.0), late) == []
    assert steps((G1, 0, 4 * STEP_MS, 1.0)) == [], "not a slow sensor"
    assert steps((G1, SLOW, 4 * STEP_MS, float("nan"))) == []


def silence(arrivals: Arrivals, *given: OutputRows, committed: int = ALL) -> Findings:
    rows = output(no_rows(), *given)
    keys = keys_of(rows, arrivals)
    return check_silence(
        expected_rows(arrivals, keys), Speakers.none(), arrivals.closed_at_commit, key_of(rows, keys), keys,
        bounds=Bounds(), committed=committed, examples=99,
    )  # fmt: skip


def absent(found: Findings) -> list[int]:
    finding = found.problems["holes_absent"]
    assert finding.count == len(finding.first)
    return [int(each.ts_ms or 0) // STEP_MS for each in finding.first]


def test_the_max_gap_steps_after_a_reading_need_rows() -> None:
    """Readings at 5 and, on time, at 12: max_gap is 5, so 6 to 10 are holes and 11 needs no row."""
    arrivals = arrived((G1, 0, 5 * STEP_MS, 1.0), (G1, 0, 12 * STEP_MS, 1.0))
    found = silence(arrivals)
    assert found.counts == {"silent_steps": 5}
    assert absent(found) == [6, 7, 8, 9, 10]
    assert absent(silence(arrivals, row(7, 0.0))) == [6, 8, 9, 10]
    assert absent(silence(arrivals, row(7, 0.0, sensor=1))) == [6, 7, 8, 9, 10]


def test_silence_ends_at_the_next_reading() -> None:
    arrivals = arrived((G1, 0, 5 * STEP_MS, 1.0), (G1, 0, 7 * STEP_MS, 1.0), (G1, 0, 8 * STEP_MS, 1.0))
    assert absent(silence(arrivals)) == [6]


def test_silence_ends_at_the_last_closed_step() -> None:
    arrivals = arrived((G1, 0, 5 * STEP_MS, 1.0), (G2, 1, 7 * STEP_MS, 1.0))
    assert absent(silence(arrivals)) == [6]


def test_another_sensors_reading_does_not_end_silence() -> None:
    """Sensor b starts earlier, and its key follows the key of sensor a."""
    clock = (G2, 0, 20 * STEP_MS, 1.0)
    arrivals = arrived((G1, 1, 4 * STEP_MS, 1.0), (G1, 0, 5 * STEP_MS, 1.0), clock)
    assert absent(silence(arrivals)) == [6, 7, 8, 9, 10, 5, 6, 7, 8, 9]


def test_only_readings_on_time_and_below_the_commit_require_rows() -> None:
    clock, reading = (G2, 0, 6 * STEP_MS, 1.0), (G1, 0, 5 * STEP_MS, 1.0)
    end = (G2, 0, 9 * STEP_MS, 1.0)
    rows = [row(7, 0.0, group=G2), row(8, 0.0, group=G2)]
    assert absent(silence(arrived(reading, clock, end), *rows)) == [6, 7, 8]
    assert absent(silence(arrived(clock, reading, end), *rows)) == []
    assert absent(silence(arrived(reading, clock, end), *rows, committed=1)) == [6, 7, 8]
    assert absent(silence(arrived(clock, end, reading), *rows, committed=2)) == []
    arrivals = arrived(reading, clock, end)
    assert absent(silence(arrivals, *rows, committed=0)) == []


def test_a_slow_sensor_has_one_hole_in_an_interval() -> None:
    """The intervals are 3 to 5 and 6 to 8: for a reading anywhere in the first one, the hole is at 8."""
    for step_of_reading in (3, 4, 5):
        arrivals = arrived((G1, SLOW, step_of_reading * STEP_MS, 1.0), (G2, 0, 30 * STEP_MS, 1.0))
        found = silence(arrivals, *(row(step, 0.0, group=G2) for step in range(31, 36)))
        assert absent(found) == [8]


def test_without_readings_there_is_no_silence() -> None:
    assert silence(arrived()).counts == {"silent_steps": 0}
