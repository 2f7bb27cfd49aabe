"""Windows that are made one step after the other lie together and keep what was written."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.windows.room import Room


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=4))
def test_what_is_taken_is_what_was_written_in_its_order(slices: list[list[int]]) -> None:
    room, number = Room(2, 3), 0
    taken = []
    for steps in slices:
        first = number
        for count in steps:
            values, observed = room.add(count)
            assert values.shape == observed.shape == (count, 2, 3)
            for values_of_one, observed_of_one in zip(values, observed, strict=True):
                values_of_one[:], observed_of_one[:] = number, number % 2
                number += 1
        taken.append((first, number, *room.take()))
    for first, end, values, observed in taken:  # what follows does not touch it
        expected = np.broadcast_to(np.arange(first, end)[:, None, None], (end - first, 2, 3))
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(observed, expected % 2 == 1)


def test_hidden_cells_are_not_observed_even_after_the_room_has_grown() -> None:
    room = Room(2, 3)
    for count in (1, 5, 20):  # each needs more memory than there is
        values, observed = room.add(count)
        values[:], observed[:] = 7.0, True
    cells = np.zeros((2, 2, 3), np.bool_)
    cells[0, 1, 2] = cells[1, 0, 0] = True
    room.hide(np.array([0, 25]), cells)
    values, observed = room.take()
    hidden = np.zeros((26, 2, 3), np.bool_)
    hidden[[0, 25]] = cells
    np.testing.assert_array_equal(observed, ~hidden)
    np.testing.assert_array_equal(values, np.where(hidden, 0.0, 7.0))
