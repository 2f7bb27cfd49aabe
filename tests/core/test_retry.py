"""Pauses between attempts."""

from itertools import islice

import pytest

from glaim_stream.core.retry import JITTER, Retry, pauses_s


def test_pauses_double_up_to_the_longest_pause() -> None:
    for pause_s, most_s in zip(islice(pauses_s(0.5, 3.0), 5), (0.5, 1.0, 2.0, 3.0, 3.0), strict=True):
        assert most_s * (1 - JITTER) <= pause_s <= most_s


def test_two_workers_that_fail_together_retry_at_different_times() -> None:
    assert list(islice(Retry().pauses(), 4)) != list(islice(Retry().pauses(), 4))


async def test_an_attempt_is_repeated_after_errors_of_its_kind_alone() -> None:
    outcomes: list[Exception | None] = [OSError("a"), OSError("b"), None, OSError("c"), ValueError("d")]
    failed: list[str] = []

    async def attempt() -> str:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return "done"

    retry = Retry(0.001, 0.001)
    assert await retry.until_done(attempt, OSError, lambda error, pause_s: failed.append(str(error))) == "done"
    with pytest.raises(ValueError, match="d"):
        await retry.until_done(attempt, OSError, lambda error, pause_s: failed.append(str(error)))
    assert failed == ["a", "b", "c"]
