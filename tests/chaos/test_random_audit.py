"""The audit of random runs: silent about a perfect output, and each rule notices what it is for."""

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.randomised import audit as audit_module
from tests.chaos.randomised import feed
from tests.chaos.randomised.audit import Problems, audit
from tests.chaos.randomised.topics import Letter, Row

STEPS = 40
START_MS = 1_700_000_000_000
FIRST = START_MS // feed.STEP_MS
MESSAGES = feed.draw(5, START_MS, STEPS)


class World:
    """The messages of a feed, and what a perfect worker makes of them."""

    def __init__(self) -> None:
        self.written: dict[tuple[int, int], feed.Message] = {}
        ends = dict.fromkeys(range(feed.PARTITIONS), 0)
        for message in MESSAGES:
            self.written[message.partition, ends[message.partition]] = message
            ends[message.partition] += 1
        newest: dict[tuple[str, str, int], tuple[int, float]] = {}
        self.letters = []
        for (partition, offset), message in self.written.items():
            if message.fate != feed.ACCEPTED:
                self.letters.append(letter(partition, offset, message.fate))
            for position, reading in enumerate(message.readings):
                cell = reading.group, reading.sensor, reading.ts_ms // feed.STEP_MS
                if reading.fate != feed.ACCEPTED:
                    self.letters.append(letter(partition, offset, reading.fate, f"[{position}]"))
                elif cell not in newest or newest[cell][0] <= reading.ts_ms:
                    newest[cell] = reading.ts_ms, reading.value
        self.rows = []
        for group in (f"pump-{number}" for number in range(feed.GROUPS)):
            for sensor in feed.SENSORS:
                for step in range(FIRST, FIRST + STEPS):
                    self.rows += rows_of(group, sensor, step, newest.get((group, sensor, step)))
        self.lost: list[dict[str, object]] = []

    def audit(self) -> Problems:
        return audit(self.written, self.rows, self.letters, self.lost, first_step=FIRST, steps=STEPS)

    def observed(self) -> int:
        """A place of an observed row whose step is closed."""
        return next(place for place, row in enumerate(self.rows) if row.observed)

    def guess(self) -> int:
        """A place of a final guess."""
        return next(place for place, row in enumerate(self.rows) if row.final and not row.observed)


def letter(partition: int, offset: int, cause: str, positions: str | None = None) -> Letter:
    headers = {"glaim-partition": partition, "glaim-offset": offset, "glaim-cause": cause, "glaim-positions": positions}
    return Letter("letters", {name: str(value).encode() for name, value in headers.items() if value is not None})


def rows_of(group: str, sensor: str, step: int, reading: tuple[int, float] | None) -> list[Row]:
    partition, ts_ms = feed.partition_of(group), step * feed.STEP_MS
    if reading is not None:
        return [Row(partition, step, group, sensor, ts_ms, 0, reading[1], True, True, reading[0])]
    return [
        Row(partition, step, group, sensor, ts_ms, 0, 1.0, False, False, None),
        Row(partition, step + 8, group, sensor, ts_ms, 1, 2.0, False, True, None),
    ]


def repeat_a_row(world: World) -> None:
    world.rows.append(world.rows[world.observed()])


def repeat_a_letter(world: World) -> None:
    world.letters.append(world.letters[0])


def drop_an_observed_row(world: World) -> None:
    del world.rows[world.observed()]


def drop_a_letter(world: World) -> None:
    del world.letters[0]


def reject_a_good_record(world: World) -> None:
    (partition, offset), _ = next((at, one) for at, one in world.written.items() if one.fate == feed.ACCEPTED)
    world.letters.append(letter(partition, offset, "malformed"))


def change_a_value(world: World) -> None:
    place = world.observed()
    world.rows[place] = replace(world.rows[place], value=1.0)


def overwrite_with_a_guess(world: World) -> None:
    row = world.rows[world.observed()]
    world.rows.append(replace(row, offset=row.offset + 1, revision=1, observed=False, value=1.0, event_time_ms=None))


def invent_a_reading(world: World) -> None:
    place = world.guess()
    row = world.rows[place]
    world.rows[place] = replace(row, observed=True, event_time_ms=row.ts_ms)


def forget_a_final(world: World) -> None:
    del world.rows[world.guess()]


def move_to_another_partition(world: World) -> None:
    place = world.observed()
    world.rows[place] = replace(world.rows[place], partition=world.rows[place].partition + 1)


def test_a_perfect_output_has_no_problem() -> None:
    assert World().audit() == {}


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (repeat_a_row, "twice"),
        (repeat_a_letter, "twice"),
        (drop_an_observed_row, "without an observed row"),
        (drop_a_letter, "without a letter"),
        (reject_a_good_record, "letter without reason"),
        (change_a_value, "wrong value"),
        (overwrite_with_a_guess, "overwritten"),
        (invent_a_reading, "invented"),
        (forget_a_final, "incomplete"),
        (move_to_another_partition, "misplaced"),
    ],
)
def test_damage_is_noticed(damage: Callable[[World], None], rule: str) -> None:
    world = World()
    damage(world)
    assert rule in world.audit()


def test_input_that_was_lost_with_notice_is_excused() -> None:
    world = World()
    damaged = world.rows.pop(world.observed())
    places = [
        place
        for place, message in world.written.items()
        for reading in message.readings
        if (reading.group, reading.sensor, reading.ts_ms // feed.STEP_MS)
        == (damaged.group, damaged.sensor, damaged.ts_ms // feed.STEP_MS)
    ]
    assert "without an observed row" in world.audit()
    world.lost = [{"partition": place[0], "first": place[1], "until": place[1] + 1} for place in places]
    assert "without an observed row" not in world.audit()


def test_the_audit_shares_no_code_with_the_product() -> None:
    for name in ("audit", "feed", "topics"):
        tree = ast.parse(Path(audit_module.__file__).with_name(f"{name}.py").read_text())
        imported = {
            module
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for module in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            )
        }
        assert not [module for module in imported if module.split(".")[0] in ("glaim_stream", "deploy")]
