"""The audit of the in-memory pipeline's output: clean if unchanged, and exact after one change."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.catalogue import Catalogue, parse_catalogue
from glaim_stream.core.vocabulary import UPGRADED
from glaim_stream.decode import Decoder, positions_of
from glaim_stream.decode.dead_letters import letters_of
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.operate.audit.commits import GroupCommit
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.outages import OutageEvent, read_outages
from glaim_stream.operate.audit.output_rows import OutputReader, OutputRows
from glaim_stream.operate.audit.report import Findings
from glaim_stream.output import Method
from glaim_stream.pipeline import Pipeline
from tests.operate.audit.partition_topics import Letters, PartitionTopics, audit_partition

STEP_MS = 60_000
START_MS = 1_767_225_600_000
NOW_MS = START_MS + 10**9


@dataclass
class Record:
    offset: int
    value: bytes | None
    key: bytes | None = b"g1"
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    timestamp: int = -1


@dataclass
class Case:
    """A partition whose input was processed by the worker's pipeline."""

    columns: ModelColumns
    given: PartitionTopics

    def audit(self, **changes: Any) -> Findings:
        return audit_partition(replace(self.given, **changes), self.columns)

    def rows(self, keep: Callable[[OutputRows], Any]) -> OutputRows:
        return self.given.rows.where(keep(self.given.rows))

    def appended(self, chosen: Any, **changes: Any) -> OutputRows:
        rows = self.given.rows
        more = replace(rows.where(chosen), **changes)
        return OutputRows(*(np.concatenate([getattr(rows, n), getattr(more, n)]) for n in OutputRows.__slots__))


def catalogue(**rules: Any) -> Catalogue:
    model = {
        "name": "m", "step_s": 60, "window": 16, "revise_after": 3, "max_gap": 6, "lateness_s": 60,
        "sensors": [{"id": "a", "max": 1000, "resolution": 0.01}, {"id": "b", "resolution": 0.01}], **rules,
    }  # fmt: skip
    return parse_catalogue({"models": [model], "groups": [{"model": "m", "pattern": "g*"}]}, source="test")


def reading(group: str, sensor: str, ts_ms: int, value: float | None, quality: str = "good") -> bytes:
    return json.dumps({"group": group, "sensor": sensor, "ts": ts_ms, "value": value, "quality": quality}).encode()


def stream(steps: int = 60, seed: int = 1) -> list[bytes]:
    """Two groups of two sensors with holes, an outage, nulls, and late, too-late, rejected and malformed records."""
    rng = np.random.default_rng(seed)
    out = []
    for step in range(steps):
        for group in ("g1", "g2"):
            for sensor in ("a", "b"):
                if rng.random() < 0.25 or (group == "g2" and 20 <= step < 45):
                    continue
                ts_ms = START_MS + step * STEP_MS + int(rng.integers(0, STEP_MS))
                quality = "Uncertain" if step % 7 == 0 else "good"
                out.append(reading(group, sensor, ts_ms, round(float(rng.normal()), 3), quality))
                if rng.random() < 0.1:
                    out.append(reading(group, sensor, ts_ms - int(rng.integers(0, 6 * STEP_MS)), 7.5))
        if step % 17 == 16:
            out += [
                b"{",
                reading("x", "a", START_MS, 1.0),
                reading("g1", "a", START_MS + step * STEP_MS, 5000.0),
                reading("g1", "a", START_MS, 1.0) if step > 30 else reading("g1", "b", START_MS + step * STEP_MS, None),
            ]
    return out


def case(
    values: list[bytes], *, batches: int = 7, commit: int | None = -1, times_ms: list[int] | None = None, **rules: Any
) -> Case:
    """Process the records with the worker's pipeline; `commit` -1 stands for the commit of the worker."""
    chosen = catalogue(**rules)
    records = [
        Record(offset, value, timestamp=-1 if times_ms is None else times_ms[offset])
        for offset, value in enumerate(values)
    ]
    pipeline = Pipeline(chosen, {}, Ladder([Interpolation()], batch=64, in_flight=4))
    windows = pipeline.windows()
    columns = ModelColumns(chosen, {})
    output = OutputReader(columns)
    letters = Letters()
    outages: set[OutageEvent] = set()
    for part in np.array_split(np.arange(len(records)), batches):
        batch = [records[row] for row in part]
        applied = pipeline.apply(windows, batch, now_ms=NOW_MS)
        for message in pipeline.messages(asyncio.run(pipeline.fill(applied.closed))):
            output.add(message.value)
        outages |= read_outages([each.value for each in pipeline.announcements(applied.outages)], columns)
        for offset in {reject.offset for reject in applied.rejects}:
            rejects = [reject for reject in applied.rejects if reject.offset == offset]
            (letter,) = letters_of(records[offset], rejects, topic="in", partition=0)
            positions = positions_of(letter.headers)
            if positions is None:
                letters.whole[offset] = rejects[0].cause
            else:
                letters.single.update({(offset, position): rejects[0].cause for position in positions.tolist()})
    readings, rejects = Decoder(columns.index).decode(records, now_ms=NOW_MS)
    committed = GroupCommit(len(records), windows.rebuild_from(len(records))) if commit == -1 else None
    return Case(
        columns,
        PartitionTopics(0, 0, len(records), True, readings, rejects, letters, output.rows(), committed, None, outages),
    )


def broken(audit: Findings) -> dict[str, int]:
    return {name: finding.count for name, finding in audit.problems.items() if finding.count}


@pytest.fixture(scope="module")
def good() -> Case:
    return case(stream())


@pytest.mark.parametrize("bucket", ["last", "mean"])
@pytest.mark.parametrize("revise_after", [0, 3])
@pytest.mark.parametrize("lateness_s", [0, 60, 150])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_output_of_the_pipeline_is_clean(bucket: str, revise_after: int, lateness_s: float, seed: int) -> None:
    made = case(stream(seed=seed), bucket=bucket, revise_after=revise_after, lateness_s=lateness_s)
    audit = made.audit()
    assert broken(audit) == {}
    assert audit.counts["found"] > 100
    assert audit.counts["found"] + audit.counts["open"] == audit.counts["keys"]
    assert audit.counts["dead_letters"] > 5


@pytest.mark.parametrize("least", [0, -180])
def test_means_of_directions_are_expected_as_the_windows_make_them(least: int) -> None:
    values = [
        json.dumps(read | {"value": read["value"] * 100 % 360 + least}).encode()
        for read in (json.loads(each) for each in stream() if each != b"{")
        if read["value"] is not None
    ]
    sensors = [{"id": "a", "unit": "deg", "min": least, "max": least + 360}, {"id": "b"}]
    made = case(values, bucket="mean", sensors=sensors)
    assert broken(made.audit()) == {}
    rows = made.given.rows
    value = rows.value.copy()
    value[np.flatnonzero(rows.observed & (rows.sensor == 0) & (rows.revision == 0))[40]] += 0.001
    assert broken(made.audit(rows=replace(rows, value=value))) == {"wrong": 1}


@pytest.mark.parametrize("lateness_s", [0, 60, 150])
@pytest.mark.parametrize("revise_after", [0, 2])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_output_for_a_slow_sensor_is_clean(lateness_s: float, revise_after: int, seed: int) -> None:
    sensors = [{"id": "a", "max": 1000, "resolution": 0.01}, {"id": "b", "resolution": 0.01, "cadence_s": 180}]
    made = case(stream(seed=seed), sensors=sensors, lateness_s=lateness_s, revise_after=revise_after)
    audit = made.audit()
    assert broken(audit) == {}
    rows = made.given.rows
    holes = ~rows.observed & (rows.sensor == 1)
    assert holes.any()
    assert ((rows.step[holes] + 1) % 3 == 0).all()
    judged = holes & rows.final & (rows.revision == int(revise_after > 0)) & (rows.gap_age <= 6)
    reported = 0
    for row in np.flatnonzero(judged).tolist():
        same = (rows.group == rows.group[row]) & (rows.sensor == 1) & (rows.step == rows.step[row])
        reported += broken(made.audit(rows=rows.where(~same))) == {"holes_absent": 1}
    assert reported > 0


def test_a_timestamp_ahead_of_its_record_does_not_make_rows_missing() -> None:
    """Timestamps of g2 are four minutes ahead: by them, all readings of g1 would be far too late."""
    values = []
    times = []
    for step in range(40):
        for group, ahead in (("g1", 0), ("g2", 240_000)):
            values.append(reading(group, "a", START_MS + step * STEP_MS + ahead, float(step)))
            times.append(START_MS + step * STEP_MS)
    made = case(values, times_ms=times, lateness_s=0)
    audit = made.audit()
    assert broken(audit) == {}
    assert not (made.given.rows.revision > 2).any()
    assert audit.counts["found"] > 60


def test_each_dropped_observed_row_is_reported(good: Case) -> None:
    rows = good.given.rows
    for row in np.flatnonzero(rows.observed)[::11].tolist():
        same = (rows.group == rows.group[row]) & (rows.sensor == rows.sensor[row]) & (rows.step == rows.step[row])
        audit = good.audit(rows=rows.where(~same))
        assert broken(audit) == {"missing": 1}
        first = audit.problems["missing"].first[0]
        assert (first.group, first.sensor) == good.columns.names(int(rows.group[row]), int(rows.sensor[row]))
        assert first.ts_ms == int(rows.step[row]) * STEP_MS


def test_each_dropped_hole_is_reported(good: Case) -> None:
    rows = good.given.rows
    key = np.stack([rows.group, rows.sensor, rows.step])
    within = ~rows.observed & (rows.gap_age <= 6) & (rows.gap_age > 0)
    tried = 0
    for row in np.flatnonzero(within)[::7].tolist():
        same = (key == key[:, [row]]).all(axis=0)
        if rows.observed[same].any():
            continue
        tried += 1
        audit = good.audit(rows=rows.where(~same))
        # If the last reading before the hole was late, the row is not required.
        assert broken(audit) in ({"holes_absent": 1}, {}), row
        if broken(audit):
            assert audit.problems["holes_absent"].first[0].ts_ms == int(rows.step[row]) * STEP_MS
    assert tried > 5


def test_a_provisional_row_without_a_final_one_is_reported(good: Case) -> None:
    rows = good.given.rows
    row = int(np.flatnonzero(rows.final & ~rows.observed & (rows.revision == 1))[0])
    keep = np.ones(len(rows), np.bool_)
    keep[row] = False
    audit = good.audit(rows=rows.where(keep))
    assert broken(audit) == {"holes_not_final": 1}
    assert audit.problems["holes_not_final"].first[0].ts_ms == int(rows.step[row]) * STEP_MS


def test_a_wrong_value_is_reported_with_both_values(good: Case) -> None:
    rows = good.given.rows
    row = int(np.flatnonzero(rows.observed & (rows.revision == 0))[40])
    value = rows.value.copy()
    value[row] += 0.001
    audit = good.audit(rows=replace(rows, value=value))
    assert broken(audit) == {"wrong": 1}
    assert "input gives" in audit.problems["wrong"].first[0].detail


@pytest.mark.parametrize("bucket", ["last", "mean"])
def test_a_wrong_event_time_or_quality_is_reported(bucket: str) -> None:
    made = case(stream(), bucket=bucket)
    rows = made.given.rows
    assert broken(made.audit()) == {}
    assert set(rows.quality[rows.observed].tolist()) == {0, 1}
    row = int(np.flatnonzero(rows.observed & (rows.revision == 0))[40])
    for name in ("event_time_ms", "quality"):
        column = getattr(rows, name).copy()
        column[row] += 1
        assert broken(made.audit(rows=replace(rows, **{name: column}))) == {"wrong": 1}
        duplicated = made.appended([row], **{name: column[[row]]})
        assert broken(made.audit(rows=duplicated)) == {"conflicting": 1, "wrong": 1}


def test_a_later_unobserved_row_for_an_observed_step_is_wrong(good: Case) -> None:
    rows = good.given.rows
    row = np.flatnonzero(rows.observed)[[40]]
    more = good.appended(row, observed=np.array([False]), revision=rows.revision[row] + 1)
    assert broken(good.audit(rows=more)) == {"wrong": 1}


def test_identical_duplicates_are_counted_but_are_no_error(good: Case) -> None:
    audit = good.audit(rows=good.appended(slice(None)))
    assert broken(audit) == {}
    assert audit.counts["identical_duplicates"] == len(good.given.rows)


def test_imputed_duplicates_may_differ_by_one_unit_of_the_resolution(good: Case) -> None:
    rows = good.given.rows
    final = np.flatnonzero(rows.final & ~rows.observed & ~np.isnan(rows.value))[[3]]
    near = good.appended(final, value=rows.value[final] + np.float64(0.01))
    assert broken(good.audit(rows=near)) == {}
    far = good.appended(final, value=rows.value[final] + np.float64(0.03))
    assert broken(good.audit(rows=far)) == {"conflicting": 1}


def test_a_provisional_row_may_differ_because_the_clock_closed_its_step(good: Case) -> None:
    rows = good.given.rows
    provisional = np.flatnonzero(~rows.final)[[3]]
    audit = good.audit(rows=good.appended(provisional, value=rows.value[provisional] + np.float64(1)))
    assert broken(audit) == {}
    assert audit.counts["closed_by_clock_duplicates"] == 1


def test_duplicates_of_another_imputer_after_a_restart_are_counted_separately(good: Case) -> None:
    rows = good.given.rows
    final = np.flatnonzero(rows.final & ~rows.observed & ~np.isnan(rows.value))[[3]]
    more = good.appended(final, value=rows.value[final] + np.float64(1), method=np.array([1], np.int8))
    audit = good.audit(rows=more)
    assert broken(audit) == {}
    assert audit.counts["other_method_duplicates"] == 1


def blended_twice(case: Case, revision: int, *, fallback: bool) -> Findings:
    """Fill one hole twice by a blend, with values 1 apart; with `fallback`, a fallback fills another hole."""
    rows = case.given.rows
    filled = ~rows.observed & ~np.isnan(rows.value)
    method = np.where(filled, np.int8(Method.BLEND), rows.method)
    final = np.flatnonzero(rows.final & filled)[[3, 3]]
    if fallback:
        method[np.flatnonzero(filled)[0]] = Method.LAST_VALUE
    again = replace(rows, method=method).where(np.append(np.arange(len(rows)), final))
    again.method[len(rows) :] = Method.BLEND
    again.revision[len(rows) :] = revision
    again.value[-1] += 1
    return case.audit(rows=again)


def test_an_upgrade_may_differ_from_its_duplicate(good: Case) -> None:
    audit = blended_twice(good, UPGRADED, fallback=False)
    assert broken(audit) == {}
    assert audit.counts["other_method_duplicates"] == 1


def test_blends_may_differ_only_near_a_fallback_value(good: Case) -> None:
    assert broken(blended_twice(good, 1, fallback=False)) == {"conflicting": 1}
    assert broken(blended_twice(good, 1, fallback=True)) == {}


def test_an_observed_row_that_contradicts_its_duplicate_is_conflicting(good: Case) -> None:
    rows = good.given.rows
    row = np.flatnonzero(rows.observed)[[40]]
    audit = good.audit(rows=good.appended(row, value=rows.value[row] + np.float64(1)))
    assert broken(audit) == {"conflicting": 1, "wrong": 1}


def test_an_observed_row_without_a_reading_is_invented(good: Case) -> None:
    rows = good.given.rows
    row = np.flatnonzero(rows.observed)[[40]]
    more = good.appended(row, step=rows.step[row] - 5000)
    assert broken(good.audit(rows=more)) == {"invented": 1}
    assert broken(good.audit(rows=more, complete=False)) == {}


def test_each_dropped_dead_letter_is_reported(good: Case) -> None:
    letters = good.given.letters
    assert len(letters.whole) == 3
    for offset in letters.whole:
        rest = Letters({k: v for k, v in letters.whole.items() if k != offset}, letters.single)
        audit = good.audit(letters=rest)
        assert broken(audit) == {"missing_dead_letters": 1}
        assert audit.problems["missing_dead_letters"].first[0].offset == offset
    for place in letters.single:
        rest = Letters(letters.whole, {k: v for k, v in letters.single.items() if k != place})
        audit = good.audit(letters=rest)
        assert broken(audit) == {"missing_dead_letters": 1}
        assert audit.problems["missing_dead_letters"].first[0].offset == place[0]


def test_a_commit_beyond_the_input_is_reported(good: Case) -> None:
    end = good.given.end
    assert broken(good.audit(commit=GroupCommit(end + 5, good.given.commit.rebuild_from))) == {
        "committed_beyond_input": 5
    }


def test_a_rebuild_offset_that_is_one_too_high_is_reported(good: Case) -> None:
    commit = good.given.commit
    audit = good.audit(commit=GroupCommit(commit.offset, commit.rebuild_from + 1))
    assert broken(audit) == {"rebuild_too_late": 1}
    assert audit.problems["rebuild_too_late"].first[0].offset == commit.rebuild_from


def test_a_commit_ahead_of_the_output_makes_rows_missing(good: Case) -> None:
    half = case(stream()[:120])
    rows = half.given.rows
    audit = good.audit(rows=rows)
    assert broken(audit)["missing"] > 20
    assert "holes_absent" in broken(audit)


def test_rows_of_uncommitted_readings_are_pending_and_not_missing(good: Case) -> None:
    half = case(stream()[:120])
    audit = good.audit(rows=half.given.rows, commit=half.given.commit, letters=half.given.letters)
    assert broken(audit) == {}
    assert audit.counts["pending"] > 20


def test_without_a_commit_everything_is_audited(good: Case) -> None:
    assert broken(good.audit(commit=None)) == {}
    nothing = good.given.rows.where(np.zeros(len(good.given.rows), np.bool_))
    assert good.audit(commit=None, rows=nothing).problems["missing"].count > 100


def test_only_steps_with_a_reading_below_the_limit_are_audited(good: Case) -> None:
    nothing = good.given.rows.where(np.zeros(len(good.given.rows), np.bool_))
    few, all_ = good.audit(rows=nothing, judge_until=20), good.audit(rows=nothing)
    assert 0 < few.problems["missing"].count <= 20 < all_.problems["missing"].count


def test_an_empty_partition_is_clean() -> None:
    audit = case([b"{"]).audit()
    assert broken(audit) == {}
    assert case([b"{"]).audit(letters=Letters()).problems["missing_dead_letters"].count == 1


def test_a_message_without_the_schema_is_counted_as_unreadable() -> None:
    reader = OutputReader(ModelColumns(catalogue(), {}))
    reader.add(b"hello")
    assert (reader.unreadable, len(reader.rows())) == (1, 0)


@pytest.mark.slow  # quicker: the output of the pipeline, with fewer readings
def test_a_million_readings_take_seconds() -> None:
    from glaim_stream.core.readings import Readings

    columns = ModelColumns(catalogue(window=96, revise_after=8, max_gap=48), {})
    groups, steps = 100, 5000
    for group in range(groups):
        columns.index.group(f"g{group}")
    count = groups * 2 * steps
    index = np.arange(count)
    step, cell = index // (groups * 2), index % (groups * 2)
    seen = np.random.default_rng(0).random(count) > 0.1
    base = START_MS // STEP_MS
    ints = np.zeros(count, np.int32)
    group, sensor = (cell // 2).astype(np.int32), (cell % 2).astype(np.int32)
    value = index.astype(np.float64)
    parts = (ints, group, sensor, (step + base) * STEP_MS, value, index, ints, ints.astype(np.int8), index, ints > 0)
    readings = Readings(*parts).where(seen)
    ones, bytes_ = np.ones(count, np.bool_), ints.astype(np.int8)
    rows = OutputRows(
        ints, group, sensor, step + base, value, seen, ones, bytes_, ints, ints, (step + base) * STEP_MS, bytes_,
        np.zeros(count, np.bool_), ints,
    )  # fmt: skip
    start_s = time.process_time()
    audit = audit_partition(PartitionTopics(0, 0, count, True, readings, [], Letters(), rows, None), columns)
    assert broken(audit) == {}
    assert audit.counts["found"] > 0.89 * count
    assert time.process_time() - start_s < 20  # about 1 s of one core
