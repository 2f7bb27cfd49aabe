"""Figures as people read them: 100 % is all of it, and 0 nothing."""

import pytest

from glaim_stream.core.times import moment_ms
from glaim_stream.operate.completeness.texts import duration_text, percent_text, stretch_text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(3, 3, "100"), (99_999, 100_000, "99.9"), (1, 100_000, "<0.1"), (0, 5, "0.0"), (2, 3, "66.6"), (29, 100, "29.0"),
     (0, 0, "–")],
)  # fmt: skip
def test_percentages(part: int, whole: int, text: str) -> None:
    assert percent_text(part, whole) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(250, "250 ms"), (2_500, "2.5 s"), (90_000, "90 s"), (3_600_000, "1 h"), (5_400_000, "90 min"),
     (90_000_000, "25 h"), (31 * 86_400_000, "31 d"), (-3_000, "-3 s")],
)  # fmt: skip
def test_durations(milliseconds: float, text: str) -> None:
    assert duration_text(milliseconds) == text


def test_a_stretch_is_told_by_the_clocks_of_its_zone() -> None:
    begin_ms, end_ms = moment_ms("2026-03-28T23:00:00Z"), moment_ms("2026-03-29T22:00:00Z")
    assert stretch_text(begin_ms, end_ms, "Europe/Berlin") == "2026-03-29 00:00 to 2026-03-30 00:00, Europe/Berlin"
