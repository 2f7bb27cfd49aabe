"""The rows of a watched group are the published ones, and the windows' readings before them."""

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.vocabulary import FINAL, FIRST_CORRECTION
from glaim_stream.output import METHODS, Message, Method, Origin, Output, Rows, encode
from glaim_stream.page.recent import RecentMessages
from glaim_stream.page.watched import RowKind, WatchedGroup, read_message

STEP_MS = 1000


def message(*rows: tuple[int, int, int, float, int], names: tuple[str, ...] = ("a", "b")) -> bytes:
    """Rows (group, sensor, step, value, revision); a value of revision 0 or 1 was filled, -1 stands for observed."""
    count = len(rows)
    group, sensor, step, value, revision = (np.array(column) for column in zip(*rows, strict=True))
    observed = (revision < 0) | (revision >= FIRST_CORRECTION)
    filled = Rows(
        group.astype(np.int32), sensor.astype(np.int32), step * STEP_MS, step * STEP_MS, value.astype(float), observed,
        np.where(observed, Method.OBSERVED, Method.MODEL).astype(np.int8), np.zeros(count, np.uint32),
        np.where(observed, np.nan, value - 1.0), np.where(observed, np.nan, value + 1.0),
        np.where(observed, 0, 1).astype(np.int32), np.maximum(revision, 0).astype(np.int16), revision >= FINAL,
        np.where(observed, 0, 1).astype(np.int32),
    )  # fmt: skip
    ((value_, _),) = encode(filled, group_names=names, sensor_names=["s0", "s1"], version_names=["", "7"])
    return value_


def watched(*messages: bytes, window: int = 6) -> WatchedGroup:
    group = WatchedGroup("b", 3, ["s0", "s1"], window * STEP_MS)
    for number, each in enumerate(messages, 1):
        group.add([(number, read_message(each))])
    return group


def lines(group: WatchedGroup, number: int = -1) -> list[list[Any]]:
    return [json.loads(line) for line in group.since(number)]


def test_a_cell_keeps_its_estimates_beside_the_late_reading() -> None:
    group = watched(
        message((1, 0, 5, 2.0, 0), (0, 0, 5, 9.0, 0)),
        message((1, 0, 5, 3.0, FINAL)),
        message((1, 0, 5, 4.0, FIRST_CORRECTION)),
    )  # fmt: skip
    assert [(line[2], line[3]) for line in lines(group)] == [
        (RowKind.PROVISIONAL, 2.0),
        (RowKind.FINAL, 3.0),
        (RowKind.LATE, 4.0),
    ]
    assert lines(group)[0] == [0, 5000, RowKind.PROVISIONAL, 2.0, 1.0, 3.0, METHODS[Method.MODEL], 0, 1, "7"]


def test_a_number_that_json_lacks_is_null() -> None:
    found = watched(message((1, 0, 5, np.nan, 0), (1, 0, 4, np.inf, 1), (1, 1, 4, -np.inf, -1)))
    assert [line[3:6] for line in lines(found)] == [[None] * 3] * 3


def test_a_viewer_gets_what_is_newer_than_its_position() -> None:
    group = watched(message((1, 0, 5, 2.0, -1)), message((0, 0, 6, 1.0, -1)), message((1, 0, 6, 3.0, -1)))
    assert [line[3] for line in lines(group, 0)] == [2.0, 3.0]
    assert [line[3] for line in lines(group, 1)] == [3.0]
    assert lines(group, 3) == []
    assert group.known_to == 3


def test_a_message_published_twice_is_shown_once_and_an_older_revision_replaces_nothing() -> None:
    group = watched(message((1, 0, 5, 2.5, 2)), message((1, 0, 5, 2.0, 1)), message((1, 0, 5, 2.5, 2)))
    assert [line[3] for line in lines(group)] == [2.5]


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 20), st.integers(-1, 5)),
            min_size=1,
            max_size=8,
        ),
        max_size=8,
    )
)
def test_messages_that_are_taken_together_show_what_they_show_one_by_one(
    rows: list[list[tuple[int, int, int, int]]],
) -> None:
    sent = [
        message(*((group, sensor, step, float(n), revision) for n, (group, sensor, step, revision) in enumerate(each)))
        for each in rows
    ]
    together = WatchedGroup("b", 3, ["s0", "s1"], 6 * STEP_MS)
    together.add([(number, read_message(each)) for number, each in enumerate(sent, 1)])
    assert lines(together) == lines(watched(*sent))


def test_rows_of_sensors_that_the_catalogue_has_no_longer_are_not_shown() -> None:
    group = WatchedGroup("b", 3, ["s1"], 6 * STEP_MS)
    group.add([(1, read_message(message((1, 0, 5, 1.0, -1), (1, 1, 5, 2.0, -1))))])
    assert [(line[0], line[3]) for line in lines(group)] == [(0, 2.0)]


def test_rows_older_than_the_window_are_forgotten() -> None:
    group = watched(*(message((1, 0, step, 1.0, -1)) for step in range(50)))
    assert [line[1] for line in lines(group)] == [step * STEP_MS for step in range(44, 50)]


def test_readings_of_the_windows_come_before_what_was_published() -> None:
    group = watched(message((1, 0, 12, 2.0, -1)))
    values, observed, corrections = np.full((2, 6), 7.0), np.zeros((2, 6), np.bool_), np.zeros((2, 6), np.int16)
    observed[0, 4:] = True  # steps 11 and 12
    observed[1, 0] = corrections[1, 0] = True  # step 7, which a late reading filled
    group.hold(7 * STEP_MS, STEP_MS, values, observed, corrections)
    assert [(line[0], line[1] // STEP_MS, line[2], line[3]) for line in lines(group)] == [
        (0, 11, RowKind.OBSERVED, 7.0), (1, 7, RowKind.LATE, 7.0), (0, 12, RowKind.OBSERVED, 2.0),
    ]  # fmt: skip
    assert lines(group, 0)[0][3] == 2.0, "readings of the windows belong to no message"


def test_values_that_are_not_there_are_null() -> None:
    group = watched(message((1, 0, 5, np.nan, 0)))
    assert lines(group)[0][3:6] == [None, None, None]


def test_the_newest_messages_are_kept_up_to_a_number_of_bytes() -> None:
    recent = RecentMessages(most_bytes=100)
    for number in range(10):
        recent.add([Output(number % 2, Origin(0, 0), [Message(bytes(30), 1, "m")])])
    assert [each.number for each in recent.since(0, {0, 1})] == [8, 9, 10]
    assert [each.number for each in recent.since(8, {0})] == [9]
    recent.add([Output(0, Origin(0, 0), [Message(bytes(1000), 1, "m")])])
    assert [each.number for each in recent.since(0, {0, 1})] == [11], "one that is larger is kept alone"
    assert recent.newest == 11
