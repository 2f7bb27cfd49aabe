"""Which offsets are lost, and the event that says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.kafka.losses import Loss, lost_range, read_losses


@pytest.mark.parametrize(
    ("expected", "found", "start", "end", "lost"),
    [
        (100, 500, 500, 900, (100, 500, "removed")),  # retention passed a worker that was away
        (100, None, 500, 500, (100, 500, "removed")),  # and no record has come since
        (100, 500, 700, 900, (100, 500, "removed")),  # what follows was delivered before it was removed
        (100, 101, 0, 900, None),  # a marker of a transaction
        (100, 480, 0, 900, None),  # an aborted transaction, or compaction
        (100, 480, 300, 900, (100, 300, "removed")),  # both
        (100, 480, 100, 900, None),
        (100, None, 100, 100, None),
        (100, None, 0, 100, None),
        (500, 0, 0, 40, (40, 500, "truncated")),  # the topic was made anew
        (500, 0, 0, 600, (0, 500, "truncated")),  # and has grown meanwhile
        (500, None, 0, 40, (40, 500, "truncated")),
        (500, None, 0, 0, (0, 500, "truncated")),
        (500, 300, 0, 900, None),  # an operator went back
    ],
)
def test_only_what_the_log_no_longer_holds_is_lost(
    expected: int, found: int | None, start: int, end: int, lost: tuple[int, int, str] | None
) -> None:
    assert lost_range(expected, found, start, end) == lost


@given(
    st.builds(
        Loss,
        st.text(min_size=1),
        st.integers(0, 10**6),
        st.integers(0, 2**62),
        st.integers(0, 2**62),
        st.sampled_from(["removed", "truncated"]),
    )
)
def test_an_event_is_read_back(loss: Loss) -> None:
    assert read_losses([loss.value]) == [loss]


@pytest.mark.parametrize(
    "message", [None, b"", b"{", b"\xff", b'{"kind": "dark", "group": "g", "ts": "2026-01-01T00:00:00Z"}', b"[]"]
)
def test_other_messages_are_skipped(message: bytes | None) -> None:
    assert read_losses([message]) == []
