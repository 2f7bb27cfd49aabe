"""The clock of arrivals."""

import time

import pytest

from glaim_stream.core import times


def test_the_steady_clock_goes_on_while_the_machine_sleeps_and_ignores_corrections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before_ms, boot_ns = times.steady_ms(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    slept_ns = boot_ns + 3_600 * 10**9  # the monotonic clock stands still meanwhile
    monkeypatch.setattr(times.time, "clock_gettime_ns", {time.CLOCK_BOOTTIME: slept_ns}.__getitem__)
    monkeypatch.setattr(times.time, "time_ns", lambda: 0)
    assert 3_600_000 <= times.steady_ms() - before_ms < 3_610_000
