"""The page of a report, as a browser shows it."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from glaim_stream.core.times import moment_ms, zone_of
from glaim_stream.operate.completeness.days import Days
from glaim_stream.operate.completeness.figures import FIGURES, SensorDays
from glaim_stream.operate.completeness.pages import page
from glaim_stream.operate.completeness.report import CompletenessReport, worst_first
from tests.chromium import look

DAY_MS = 86_400_000
HOSTILE = ["<img src=x onerror=alert(1)>", "</script>", "\u200fpump\u202e", "'\"&lt;", "a" * 249]
ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "section", "div", "p", "h1", "h2", "b", "small",
    "span", "bdi", "svg", "rect", "table", "thead", "tbody", "tr", "th", "td", "ul", "li",
}  # fmt: skip


def made(names: list[str], days: int = 30, *, stream: bool = True) -> CompletenessReport:
    first_ms = moment_ms("2026-03-01T00:00:00Z")
    calendar = Days(zone_of("UTC"), first_ms, first_ms + days * DAY_MS)
    rng = np.random.default_rng(1)
    sensors = []
    for number, name in enumerate(names):
        figures = np.zeros(days, FIGURES)
        figures["day"], figures["expected"] = np.arange(days), 1440
        figures["arrived"] = figures["good"] = rng.binomial(1440, 1 - number / len(names) / 2, days)
        figures["good"][days // 3] = figures["arrived"][days // 3] = 1440 if number == 0 else 0
        figures["model"] = (1440 - figures["arrived"]) // 2
        figures["null"] = 1440 - figures["arrived"] - figures["model"]
        figures["late"], figures["delays"], figures["delay_ms"] = 3, 10, 25_000
        figures["longest_gap"] = np.minimum(1440 - figures["arrived"], 77)
        sensors.append(SensorDays(names[-1 - number], name, 60_000, figures, 77))
    return CompletenessReport(
        "imputed-readings", {}, "UTC", calendar, first_ms, first_ms + days * DAY_MS, worst_first(sensors), True, stream,
        notes=["</ul><script>alert(1)</script>"],
    )  # fmt: skip


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("days", [1, 30, 800])
def test_the_page_fits_a_phone_and_a_screen_with_hostile_names(width: int, days: int, tmp_path: Path) -> None:
    seen = look(page(made(HOSTILE, days)), width, tmp_path)
    assert seen.beyond == []
    assert seen.page_width <= width
    assert seen.smallest[0] >= 12, seen.smallest
    assert seen.tags <= ELEMENTS
    for name in (*HOSTILE[:2], r"\u200fpump\u202e", *HOSTILE[3:], "</ul><script>alert(1)</script>"):
        assert name in seen.text.replace("\n", "")


class Rectangles(HTMLParser):
    """The rectangles of each drawing with their titles, and whatever the page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.strips: list[list[tuple[str, str]]] = []
        self.loaded: list[str] = []
        self._class: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.loaded += [value for name in ("src", "href", "data") if (value := found.get(name))]
        if tag == "svg":
            self.strips.append([])
        elif tag == "rect":
            self._class = found["class"]

    def handle_data(self, data: str) -> None:
        if self._class is not None:
            self.strips[-1].append((self._class, data))
            self._class = None


def test_each_day_of_a_sensor_is_a_mark_of_its_share_of_good_readings() -> None:
    parser = Rectangles()
    text = page(made(["flow", "temp"], 3))
    parser.feed(text)
    worst = next(strip for strip in parser.strips if len(strip) == 3 and "longest gap" in strip[0][1])
    assert [kind for kind, _ in worst][1] == "s6"  # nothing arrived on the second day
    assert worst[1][1] == "2026-03-02: 0.0 % good, 0 of 1,440, longest gap 77 min"
    assert parser.loaded == []
    assert "<script" not in text
    assert re.search(r'Content-Security-Policy" content="default-src \'none\'', text)


def test_years_become_marks_of_several_days() -> None:
    parser = Rectangles()
    parser.feed(page(made(["flow"], 800)))
    marks = max(parser.strips, key=len)
    assert len(marks) == 115  # 800 days, 7 at a time
    assert marks[0][1].startswith("2026-03-01 to 2026-03-07: ")


def test_only_the_least_complete_sensors_are_drawn() -> None:
    names = [f"s{number:03}" for number in range(130)]
    parser = Rectangles()
    text = page(made(names, 2))
    parser.feed(text)
    assert sum(1 for strip in parser.strips if strip and "longest gap" in strip[0][1] + strip[-1][1]) == 100
    assert "30 more sensors are at least as complete" in text
    assert "s129" in text
    assert "<bdi>s000</bdi> <span" not in text
