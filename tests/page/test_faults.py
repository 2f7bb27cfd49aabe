"""Faulty sensors on the page, on tiles and in one group's view."""

import re
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.feed.plant import Plant, simulate
from glaim_stream.health import DETECTORS
from glaim_stream.windows.sensor_health import HealthTracker
from tests.page.conftest import Tab
from tests.page.plant import SENSORS, plant, plant_readings
from tests.page.test_board import numbers, refreshed
from tests.page.test_page_in_browser import FIGURES, TILES
from tests.page.worker import PARTITION

FIRST_MS = plant_readings(0, 1)[0]["ts"]


@lru_cache(maxsize=1)
def simulated() -> Plant:
    return simulate(0.25, groups=4, seed=78)


def minutes(first: int, last: int, **more: Any) -> list[dict[str, Any]]:
    """The simulated plant with one lost reading in thirty; `more` replaces fields of the flow of the second pump."""
    made, rng, sent = simulated(), np.random.default_rng(first), []
    for step in range(first, last):
        for group, sensor in np.argwhere(rng.random(made.values.shape[:2]) >= 0.03).tolist():
            names = {"group": made.groups[group], "sensor": made.sensor_ids[sensor]}
            each = {**names, "ts": FIRST_MS + 60_000 * step, "value": float(made.values[group, sensor, step])}
            sent.append(each | more if tuple(names.values()) == ("pump-2", "flow") else each)
    return sent


def frozen() -> list[dict[str, Any]]:
    """The minutes 104 to 127 with that flow at one value."""
    made = simulated()
    return minutes(104, 128, value=float(made.values[1, made.sensor_ids.index("flow"), 103]))


def counted() -> tuple[float, float, float]:
    """Events that begin and end a fault of the runs detector, and sensors that are faulty by it now."""
    name = "glaim_sensor_health_events_total"
    begun, ended = (REGISTRY.get_sample_value(name, {"detector": "runs", "state": each}) for each in ("begin", "end"))
    labels = {"partition": str(PARTITION), "detector": "runs"}
    return begun or 0.0, ended or 0.0, REGISTRY.get_sample_value("glaim_faulty_sensors", labels) or 0.0


async def test_a_faulty_sensor_is_on_its_tile_and_in_its_groups_view_until_it_is_well() -> None:
    async with plant(health=True, board_runs=False) as it:
        begun, ended, _ = counted()
        await it.send(minutes(0, 104))
        await it.send(frozen())
        assert counted() == (begun + 1, ended, 1)
        found = await refreshed(it, "pump-2")
        faulty = dict(zip(found["names"]["names"], numbers(found["overview"]["faulty"]), strict=True))
        assert faulty == {"pump-1": 0, "pump-2": 1, "pump-3": 0, "pump-4": 0}
        assert (found["group"]["faulty"], found["group"]["unjudged"]) == ({"flow": ["runs"]}, "")
        assert (await refreshed(it, "pump-1"))["group"]["faulty"] == {}
        await it.send(minutes(128, 250))
        assert counted() == (begun + 1, ended + 1, 0)
        it.board._states_due = 0.0
        found = await refreshed(it, "pump-2")
        assert found["group"]["faulty"] == {}
        assert sum(numbers(found["overview"]["faulty"])) == 0


async def test_without_a_topic_the_view_says_how_to_turn_it_on(tab: Tab) -> None:
    async with plant() as it:
        await it.send(plant_readings(0, 20))
        await tab.open(it.address)
        await tab.until(
            "document.querySelector('#faults-note').textContent.includes('GLAIM_HEALTH_TOPIC=sensor-health')"
        )
        assert tab.problems == []


async def test_a_model_without_habits_is_said_to_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async with plant(health=True, board_runs=False) as it:
        monkeypatch.setattr(HealthTracker, "judges", False)
        await it.send(plant_readings(0, 20))
        assert (await refreshed(it, "pump-1"))["group"]["unjudged"] == "habits"


async def test_the_browser_shows_a_faulty_sensor_and_its_end(tab: Tab) -> None:
    async with plant(health=True) as it:
        await it.send(minutes(0, 104))
        await it.send(frozen())
        await tab.open(it.address + "/#pump-2")
        await tab.has(SENSORS, FIGURES)
        await tab.until("document.querySelector('#faults-note').textContent.startsWith('1 faulty')")
        marks = f"[...document.querySelectorAll('{TILES}')].map(tile => tile.querySelector('em').textContent)"
        assert await tab.run(marks) == ["1 faulty", "", "", ""], "faulty groups come first"
        assert (
            await tab.run("[...document.querySelectorAll('.fault')].map(e => e.textContent).join('')")
            == "frozen or at its limit"
        )
        await tab.run("[...document.querySelectorAll('#states button')].at(-1).click()")
        await tab.has(1, TILES)
        await tab.run("[...document.querySelectorAll('#states button')].at(-1).click()")
        await tab.has(4, TILES)
        await it.send(minutes(128, 250))
        await tab.until("document.querySelector('#faults-note').textContent === 'all sensors are well'")
        await tab.until(f"{marks}.join('') === ''")
        assert tab.problems == []


def test_the_page_has_words_for_every_detector() -> None:
    script = (files("glaim_stream.page") / "static" / "page.js").read_text()
    (body,) = re.findall(r"const DETECTORS = \{(.*?)\};", script, re.DOTALL)
    assert set(re.findall(r"(\w+):", body)) == set(DETECTORS)
