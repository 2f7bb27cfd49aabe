"""The audit of a run: what was written against what a reader of committed records finds.

It shares no code with the product. Everything is known at once here, and a step is `ts // 1000`, so each rule is a few
lines that can be believed.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from tests.chaos.randomised.feed import (
    ACCEPTED,
    LATENESS_S,
    REVISE_AFTER,
    SENSORS,
    STEP_MS,
    Message,
    Reading,
    partition_of,
)
from tests.chaos.randomised.topics import NUMBER_HEADER, Letter, Row

Cell = tuple[str, str, int]  # group, sensor, step
Problems = dict[str, list[str]]


def audit(
    written: Mapping[tuple[int, int], Message],
    rows: Sequence[Row],
    letters: Sequence[Letter],
    lost: Sequence[Mapping[str, object]],
    *,
    first_step: int,
    steps: int,
) -> Problems:
    """Return the offences by rule, each as a sentence; no offence, no entry.

    Args:
        written: the messages by partition and offset of the input.
        rows: of the output topic, in order within each partition.
        letters: of the topics of dead letters and of late readings.
        lost: events of the outage topic about input that vanished; its readings are excused.
        first_step: of the run.
        steps: how many of them.
    """
    rejected = _rejected(letters)
    excused = {
        (int(str(event["partition"])), offset)
        for event in lost
        for offset in range(int(str(event["first"])), int(str(event["until"])))
    }
    fates = [
        (place, position, reading)
        for place, message in written.items()
        if place not in excused
        for position, reading in enumerate(message.readings)
    ]
    accepted: dict[Cell, list[tuple[int, int, Reading]]] = defaultdict(list)
    for (_, offset), _, reading in fates:
        step = reading.ts_ms // STEP_MS
        if reading.fate == ACCEPTED:
            accepted[reading.group, reading.sensor, step].append((reading.ts_ms, offset, reading))
    by_cell: dict[Cell, list[Row]] = defaultdict(list)
    for row in rows:
        by_cell[row.group, row.sensor, row.ts_ms // STEP_MS].append(row)
    groups = sorted({group for group, _, _ in accepted})
    found = {
        "twice": [*_rows_twice(rows), *_letters_twice(letters)],
        "without an observed row": _unanswered(accepted, by_cell, first_step + steps - LATENESS_S - 1),
        "without a letter": _without_letter(written, excused, fates, rejected),
        "letter without reason": _letters_without_reason(written, rejected),
        "wrong value": _wrong(accepted, by_cell),
        "overwritten": _overwritten(by_cell),
        "invented": _invented(rows, accepted),
        "incomplete": _incomplete(by_cell, groups, first_step, steps),
        "misplaced": [
            f"{row} is not in the partition of its readings" for row in rows if row.partition != partition_of(row.group)
        ],
    }  # fmt: skip
    listed = {rule: list(offences) for rule, offences in found.items()}
    return {rule: offences for rule, offences in listed.items() if offences}


def _rows_twice(rows: Sequence[Row]) -> Iterator[str]:
    places: dict[tuple[str, str, int, int], list[Row]] = defaultdict(list)
    for row in rows:
        places[row.group, row.sensor, row.ts_ms, row.revision].append(row)
    for key, same in places.items():
        if len(same) > 1:
            yield f"{key} at {[(row.partition, row.offset, row.value, row.observed) for row in same]}"


def _letters_twice(letters: Sequence[Letter]) -> Iterator[str]:
    places = Counter((letter.topic, *_place(letter), str(_positions(letter.headers))) for letter in letters)
    for place, count in places.items():
        if count > 1:
            yield f"letter {place}: {count} times"


def _place(letter: Letter) -> tuple[int, int]:
    return int(letter.headers["glaim-partition"]), int(letter.headers["glaim-offset"])


def _positions(headers: Mapping[str, bytes]) -> list[int] | None:
    """The rejected readings of the record; None for the whole record."""
    if "glaim-bitmap" in headers:
        raise ValueError("the feed rejects fewer readings of a record than a bitmap is for")
    if "glaim-ranges" not in headers:
        return json.loads(headers["glaim-positions"]) if "glaim-positions" in headers else None
    positions: list[int] = []
    for piece in headers["glaim-ranges"].decode().split(","):
        span, _, stride = piece.partition("/")
        first, _, last = span.partition("-")
        positions += range(int(first), int(last or first) + 1, int(stride or 1))
    return positions


def _rejected(letters: Iterable[Letter]) -> dict[tuple[int, int], list[tuple[str, list[int] | None]]]:
    """Cause and positions of the letters of each record."""
    out: dict[tuple[int, int], list[tuple[str, list[int] | None]]] = defaultdict(list)
    for letter in letters:
        out[_place(letter)].append((letter.headers["glaim-cause"].decode(), _positions(letter.headers)))
    return out


def _unanswered(accepted: Iterable[Cell], by_cell: Mapping[Cell, Sequence[Row]], open_from: int) -> Iterator[str]:
    for cell in accepted:
        if cell[2] < open_from and not any(row.observed for row in by_cell.get(cell, ())):
            yield f"{cell}: {len(by_cell.get(cell, ()))} rows, none observed"


def _without_letter(
    written: Mapping[tuple[int, int], Message],
    excused: set[tuple[int, int]],
    fates: Iterable[tuple[tuple[int, int], int, Reading]],
    rejected: Mapping[tuple[int, int], Sequence[tuple[str, list[int] | None]]],
) -> Iterator[str]:
    for place, message in written.items():
        if message.fate != ACCEPTED and place not in excused and (message.fate, None) not in rejected.get(place, ()):
            yield f"{place}, {message.fate}: {rejected.get(place)}"
    for place, position, reading in fates:
        if reading.fate != ACCEPTED and not any(
            cause == reading.fate and (positions is None or position in positions)
            for cause, positions in rejected.get(place, ())
        ):
            yield f"{place}, reading {position}, {reading.fate}: {rejected.get(place)}"


def _letters_without_reason(
    written: Mapping[tuple[int, int], Message],
    rejected: Mapping[tuple[int, int], Sequence[tuple[str, list[int] | None]]],
) -> Iterator[str]:
    for place, causes in rejected.items():
        message = written.get(place)
        for cause, positions in causes:
            readings = () if message is None else message.readings
            meant = readings if positions is None else [readings[position] for position in positions]
            if message is None or (
                message.fate == ACCEPTED and (not meant or any(each.fate != cause for each in meant))
            ):
                yield f"{place}, {cause}, positions {positions}"


def _wrong(
    accepted: Mapping[Cell, Sequence[tuple[int, int, Reading]]], by_cell: Mapping[Cell, Sequence[Row]]
) -> Iterator[str]:
    for cell, readings in accepted.items():
        if rows := by_cell.get(cell):
            newest, (ts_ms, _, reading) = (
                max(rows, key=lambda row: (row.revision, row.offset)),
                max(readings, key=lambda each: each[:2]),
            )
            if not newest.observed or newest.value != reading.value or newest.event_time_ms != ts_ms:
                yield f"{cell}: written {reading.value} at {ts_ms}, the newest row is {newest}"


def _overwritten(by_cell: Mapping[Cell, Sequence[Row]]) -> Iterator[str]:
    for cell, rows in by_cell.items():
        for one, other in pairwise(rows):
            if one.observed and not other.observed:
                yield f"{cell}: a guess follows an observed row: {one}, {other}"
            elif other.revision < one.revision:
                yield f"{cell}: revision {other.revision} follows revision {one.revision}"


def _invented(rows: Sequence[Row], accepted: Mapping[Cell, Sequence[tuple[int, int, Reading]]]) -> Iterator[str]:
    for row in rows:
        if row.observed:
            readings = accepted.get((row.group, row.sensor, row.ts_ms // STEP_MS), ())
            if not any((reading.value, ts) == (row.value, row.event_time_ms) for ts, _, reading in readings):
                yield f"{row} comes from no reading"


def _incomplete(
    by_cell: Mapping[Cell, Sequence[Row]], groups: Sequence[str], first_step: int, steps: int
) -> Iterator[str]:
    """Every step whose finals are due has a row of each sensor, observed or final."""
    for group in groups:
        for step in range(first_step, first_step + steps - LATENESS_S - REVISE_AFTER - 2):
            for sensor in SENSORS:
                rows = by_cell.get((group, sensor, step), ())
                if not rows:
                    yield f"{group} {sensor} step {step - first_step}: no row"
                elif not (rows[-1].observed or any(row.final for row in rows)):
                    yield f"{group} {sensor} step {step - first_step}: provisional only, {rows[-1]}"


def number_of(headers: Iterable[tuple[str, bytes]]) -> int:
    """The number of a message of the feed."""
    return int(dict(headers)[NUMBER_HEADER])
