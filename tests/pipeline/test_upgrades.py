"""Upgrades: model or first closed form replaces final rows of a fallback once, while half of their window is held."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.blend import Scores
from glaim_stream.core.errors import ImputerAbsent, ImputerError
from glaim_stream.core.vocabulary import UPGRADED, Method
from glaim_stream.imputers import BlendedRung, Imputed, Interpolation, Ladder, WindowImputer, Windows
from glaim_stream.output import METHODS, Rows
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import PartitionWindows, upgrades
from tests.pipeline.form_streams import Form
from tests.support import Neighbours, Record, catalogue, json_record

NOW_MS = 10**9
RULES = catalogue(sensors=3, window=24, revise_after=2, max_gap=8)
Row = tuple[str, int, int, int, str, bool]  # group, sensor, step, revision, method, final


class Interruptible(Neighbours):
    """Neighbours while it is available, else a fallback; records the windows that it receives."""

    def __init__(self) -> None:
        self.available = True
        self.fallback: WindowImputer = Interpolation()
        self.received: list[Windows] = []

    async def impute(self, windows: Windows) -> Imputed:
        self.received.append(windows)
        return await (super().impute(windows) if self.available else self.fallback.impute(windows))


class ByForm(Interpolation):
    """Interpolation in the name of the closed form."""

    async def impute(self, windows: Windows) -> Imputed:
        answer = await super().impute(windows)
        return replace(answer, method=np.full_like(answer.method, Method.GAUSSIAN))


class Partition:
    """One partition that is fed batch by batch."""

    def __init__(self, *, groups: int = 2, pipeline: Pipeline | None = None) -> None:
        self.imputer = Interruptible()
        self.pipeline = pipeline or Pipeline(RULES, {}, self.imputer, upgrades=True)
        self.rows: list[Rows] = []
        self.windows: PartitionWindows = self.pipeline.windows()
        self.scores: Scores = self.pipeline.scores()
        self.groups = groups
        self._offset = 0

    async def run(self, steps: Sequence[int], *, silent: Sequence[int] = ()) -> list[Row]:
        """Feed all sensors, except the first one at the `silent` steps, and return the rows."""
        records: list[Record] = []
        for step in steps:
            for group in range(self.groups):
                for sensor in range(3):
                    if sensor or step not in silent:
                        value = float(np.sin(step) + sensor)
                        records.append(self.record(group, sensor, step, value))
        return await self.take(records)

    def record(self, group: int, sensor: int, step: int, value: float) -> Record:
        self._offset += 1
        return json_record(self._offset, group=f"g{group}", sensor=f"s{sensor}", ts=step * 1000, value=value)

    async def take(self, records: Sequence[Record]) -> list[Row]:
        out: list[Row] = []
        applied = self.pipeline.apply(self.windows, records, now_ms=NOW_MS)
        upgrades = self.pipeline.upgrades(self.windows, self.scores)
        answers = await self.pipeline.query(applied.closed, applied.probes, upgrades)
        for _, rows in self.pipeline.settle(self.scores, answers):
            self.rows.append(rows)
            out += [
                (self.pipeline.index.names[group], sensor, ts // 1000, revision, METHODS[method], final)
                for group, sensor, ts, revision, method, final in zip(
                    rows.group.tolist(), rows.sensor.tolist(), rows.ts_ms.tolist(), rows.revision.tolist(),
                    rows.method.tolist(), rows.final.tolist(), strict=True,
                )
            ]  # fmt: skip
        return out


def counted() -> float:
    return REGISTRY.get_sample_value("glaim_upgraded_rows_total") or 0.0


def upgraded(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row[3] == UPGRADED]


@pytest.mark.parametrize(("fallback", "method"), [(Interpolation(), "interpolation"), (ByForm(), "gaussian")])
async def test_final_rows_of_an_outage_are_upgraded_once_the_model_is_available(
    fallback: WindowImputer, method: str
) -> None:
    partition = Partition()
    partition.imputer.fallback = fallback
    before = counted()
    await partition.run(range(30))
    partition.imputer.available = False
    during_outage = await partition.run(range(30, 40), silent=[31, 33])
    assert {row[4] for row in during_outage if row[3] == 1} == {method}
    assert upgraded(during_outage) == []
    partition.imputer.available = True
    assert upgraded(await partition.run(range(40, 43), silent=[41])) == [], "the model has not imputed yet"
    rows = upgraded(await partition.run([43, 44]))
    assert sorted(rows) == [(f"g{g}", 0, step, 2, "model", True) for g in (0, 1) for step in (31, 33)]
    assert upgraded(await partition.run(range(45, 50), silent=[46])) == [], "each row is upgraded once"
    assert counted() == before + 4


async def test_final_rows_of_the_model_and_provisional_rows_are_not_upgraded() -> None:
    partition = Partition()
    await partition.run(range(30))
    rows = await partition.run(range(30, 40), silent=[31, 33])
    partition.imputer.available = False
    rows += await partition.run(range(40, 42), silent=[40])  # provisional by interpolation, final by the model
    partition.imputer.available = True
    for start in range(42, 50, 2):
        rows += await partition.run([start, start + 1], silent=[start])
    assert upgraded(rows) == []


async def test_an_upgrade_uses_the_window_of_the_final_row_without_forgotten_steps() -> None:
    partition = Partition(groups=1)
    await partition.run(range(30))
    partition.imputer.available = False
    partition.imputer.received.clear()
    await partition.run(range(30, 36), silent=[31])
    first = partition.imputer.received[-1]
    partition.imputer.available = True
    await partition.run(range(36, 39), silent=[37])
    partition.imputer.received.clear()
    await partition.run([39])
    again = next(windows for windows in partition.imputer.received if not windows.observed[0, 0, 0])
    assert again.end_ms is not None
    assert again.end_ms.tolist() == [33_000]
    final_row = int(np.flatnonzero(~first.observed[:, 0, -3])[0])
    forgotten = 38 - (31 + 2)  # steps closed since the window of the final row ended
    assert np.array_equal(again.observed[0][:, forgotten:], first.observed[final_row][:, forgotten:])
    assert np.array_equal(again.values[0][:, forgotten:], first.values[final_row][:, forgotten:])
    assert not again.observed[0][:, :forgotten].any()


async def test_a_final_row_with_less_than_half_its_window_is_not_upgraded() -> None:
    partition = Partition(groups=1)
    await partition.run(range(30))
    partition.imputer.available = False
    await partition.run(range(30, 60), silent=[31, 52])
    partition.imputer.available = True
    await partition.run(range(60, 62), silent=[60])
    rows = upgraded(await partition.run([62, 63]))
    assert [row[2] for row in rows] == [52]
    assert len(partition.scores.upgrades[0]) == 0


async def test_a_cell_with_a_late_reading_is_not_upgraded() -> None:
    partition = Partition(groups=1)
    await partition.run(range(30))
    partition.imputer.available = False
    await partition.run(range(30, 40), silent=[31, 33])
    await partition.take([partition.record(0, 0, 31, 5.0)])
    partition.imputer.available = True
    await partition.run(range(40, 42), silent=[40])
    assert [row[2] for row in upgraded(await partition.run([42]))] == [33]


async def test_upgrades_wait_while_the_model_is_unavailable_again() -> None:
    partition = Partition(groups=1)
    await partition.run(range(30))
    partition.imputer.available = False
    await partition.run(range(30, 36), silent=[31])
    partition.imputer.available = True
    await partition.run(range(36, 38), silent=[36])
    partition.imputer.available = False
    assert upgraded(await partition.run([38])) == []
    assert len(partition.scores.upgrades[0]) >= 1
    partition.imputer.available = True
    await partition.run(range(39, 41), silent=[39])
    assert 31 in {row[2] for row in upgraded(await partition.run([41, 42]))}


async def test_many_upgrades_are_spread_over_batches() -> None:
    partition = Partition(groups=150)
    await partition.run(range(30))
    partition.imputer.available = False
    silent = [31, 33, 35, 37, 39]
    await partition.run(range(30, 43), silent=silent)
    partition.imputer.available = True
    await partition.run([43, 44], silent=[43])
    first = upgraded(await partition.run([45]))
    second = upgraded(await partition.run([46]))
    assert (len(first), len(first + second)) == (upgrades.MOST_ROWS, 150 * len(silent))
    assert [row[2] for row in first] == sorted(row[2] for row in first), "the oldest first"


@pytest.mark.parametrize(
    ("silent", "expected"),
    [
        (
            [40, 52],
            [52],
        ),  # step 40 has its right context at step 42; fewer than 12 of the 24 steps before are still held
        ([47, 48], [48]),  # step 48 has it at step 50, 12 before the newest closed one, and step 47 has it 13 before
    ],
)
async def test_a_final_row_is_upgraded_while_half_of_its_window_is_held(silent: list[int], expected: list[int]) -> None:
    partition = Partition(groups=1)
    await partition.run(range(30))
    partition.imputer.available = False
    await partition.run(range(30, 60), silent=silent)
    partition.imputer.available = True
    await partition.run(range(60, 62), silent=[60])
    assert [row[2] for row in upgraded(await partition.run([62, 63]))] == expected


NONE_YET = ImputerAbsent("none has been learned")


def learning(*, blended: bool) -> tuple[Form, Partition]:
    """A closed form that is not there yet, and a partition of a model without a network."""
    form = Form(Neighbours())
    form.outcome = NONE_YET
    rungs = [Interpolation()] if blended else [form, Interpolation()]
    pipeline = Pipeline(
        RULES, {}, Ladder(rungs, rest_s=0.0), form_expert=BlendedRung(form), score_share=1.0 if blended else 0.0,
        upgrades=True, networks=[],
    )  # fmt: skip
    return form, Partition(pipeline=pipeline)


def holes(*steps: int) -> list[tuple[str, int, int]]:
    return [(f"g{group}", 0, step) for group in (0, 1) for step in steps]


async def batches(partition: Partition, steps: Sequence[int], *, silent: Sequence[int] = ()) -> list[Row]:
    """The upgraded rows of steps that come one by one, as live ones do."""
    return upgraded([row for step in steps for row in await partition.run([step], silent=silent)])


@pytest.mark.parametrize("blended", [True, False])
async def test_finals_from_before_the_first_form_are_made_again_by_it_once(*, blended: bool) -> None:
    form, partition = learning(blended=blended)
    before = counted()
    assert upgraded(await partition.run(range(40), silent=[20, 35, 36])) == []
    form.outcome = None
    last = 41 + (upgrades.PROBED_STEPS if blended else 0)
    assert await batches(partition, range(40, last), silent=[40]) == [], "its errors are not known yet"
    rows = await batches(partition, range(last, last + 3), silent=[last])
    assert sorted(row[:3] for row in rows) == holes(35, 36), "of step 20, less than half of the window is held"
    assert {row[3:] for row in rows} <= {(UPGRADED, "gaussian", True), (UPGRADED, "blend", True)}
    assert counted() == before + 4
    for again in [rows for rows in partition.rows if (rows.revision == UPGRADED).any()]:
        assert {partition.pipeline._versions[code] for code in again.version.tolist()} == {"gaussian-01234567"}
        assert (again.lower < again.value).all()
        assert (again.value < again.upper).all()
    form.version = "76543210"
    assert await batches(partition, range(last + 3, last + 30), silent=[last + 5]) == [], "nor by the next form"
    assert len(partition.scores.upgrades[0]) == 0


@pytest.mark.parametrize("blended", [True, False])
async def test_a_form_that_is_withdrawn_before_its_answer_leaves_the_rows_to_the_next_one(*, blended: bool) -> None:
    form, partition = learning(blended=blended)
    await partition.run(range(30), silent=[25, 26])
    form.outcome = None
    start = 31 + upgrades.PROBED_STEPS if blended else 32
    await batches(partition, range(30, start), silent=[30])
    waiting = partition.scores.upgrades[0]
    assert (waiting.available, len(waiting)) == (True, 4)
    form.outcome = NONE_YET
    assert await batches(partition, [start, start + 1], silent=[start]) == []
    assert not waiting.available
    assert len(waiting) == (4 if blended else 6), "also those that the form has not made final"
    assert await batches(partition, range(start + 2, start + 5)) == []
    form.outcome, form.version = None, "76543210"
    again = await batches(partition, range(start + 5, start + 20), silent=[start + 5])
    expected = [start] if blended else [25, 26, 30, start]  # as long as half of their windows are held
    assert sorted(row[:3] for row in again) == holes(*expected)
    assert len(waiting) == 0


@pytest.mark.parametrize("blended", [True, False])
async def test_cells_that_the_form_declines_are_left_and_not_asked_for_again(*, blended: bool) -> None:
    form, partition = learning(blended=blended)
    await partition.run(range(30), silent=[26])
    form.outcome, form.declines = None, True
    assert await batches(partition, range(30, 38), silent=[30, 31]) == []
    assert len(partition.scores.upgrades[0]) == (0 if not blended else 2), "those from before it came"
    assert await batches(partition, range(38, 50), silent=[35]) == []
    assert len(partition.scores.upgrades[0]) == 0


async def test_a_form_that_fails_is_away_until_it_has_answered_the_probes_of_as_many_steps_again() -> None:
    form, partition = learning(blended=True)
    await partition.run(range(30), silent=[26])
    form.outcome = None
    await batches(partition, range(30, 36))
    form.outcome = ImputerError("it fails")
    await batches(partition, [36])
    form.outcome = None
    assert await batches(partition, range(37, 37 + upgrades.PROBED_STEPS), silent=[38]) == []
    assert not partition.scores.upgrades[0].available


async def test_rows_of_a_network_that_is_away_wait_for_it_and_not_for_a_form() -> None:
    form, imputer = Form(Neighbours()), Interruptible()
    expert = BlendedRung(form)
    partition = Partition(pipeline=Pipeline(RULES, {}, imputer, form_expert=expert, score_share=1.0, upgrades=True))
    imputer.available, form.outcome = False, NONE_YET
    await partition.run(range(30), silent=[27])
    form.outcome = None
    assert await batches(partition, range(30, 39)) == []
    imputer.available = True
    assert {row[:3] for row in await batches(partition, range(39, 42))} == set(holes(27))
