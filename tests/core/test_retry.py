"""Pauses between attempts."""

from itertools import islice

from glaim_stream.core.retry import JITTER, pauses_s


def test_pauses_double_up_to_the_longest_pause() -> None:
    for pause_s, most_s in zip(islice(pauses_s(0.5, 3.0), 5), (0.5, 1.0, 2.0, 3.0, 3.0), strict=True):
        assert most_s * (1 - JITTER) <= pause_s <= most_s


def test_two_workers_that_fail_together_retry_at_different_times() -> None:
    assert list(islice(pauses_s(), 4)) != list(islice(pauses_s(), 4))
