"""SVG helpers: round ticks, and numbers with significant digits."""

from glaim_stream.core import drawing


def test_ticks_are_round_and_inside() -> None:
    assert drawing.ticks(0.03, 0.98) == [0.25, 0.5, 0.75]
    assert drawing.ticks(5, 5) == [5]
    assert drawing.alike([2.5, 5.0]) == ["2.5", "5.0"]
    assert drawing.alike([1000, 2000]) == ["1,000", "2,000"]
    assert drawing.alike([1_000_000, 1_250_000]) == ["1,000,000", "1,250,000"]
    assert [label for _, label in drawing.time_ticks(0, 6 * 3_600_000)][:3] == ["1 Jan", "01:00", "02:00"]


def test_numbers_keep_three_significant_digits() -> None:
    assert [drawing.number(value) for value in (0.012345, 1.2345, 123.45, 12345.0, 0.0, None, float("nan"))] == [
        "0.0123", "1.23", "123", "12,345", "0", "–", "–",
    ]  # fmt: skip


def test_long_time_spans_have_ticks_at_months_and_years() -> None:
    day_ms = 86_400_000
    assert [label for _, label in drawing.time_ticks(0, 96 * 7 * day_ms)] == ["1970", "Jul", "1971", "Jul"]
    assert [label for _, label in drawing.time_ticks(0, 60 * 7 * day_ms)][:3] == ["1970", "Mar", "May"]
    assert [label for _, label in drawing.time_ticks(0, 60 * 365 * day_ms)][:3] == ["1970", "1980", "1990"]
