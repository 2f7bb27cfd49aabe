"""Faulty sensors on the page: their events from beginning to end, on tiles and in one group's view."""

import asyncio
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.feed.plant import Plant, simulate
from glaim_stream.health import DETECTORS, Fault
from glaim_stream.page.faults import MOST_OF_GROUP, FaultLog
from tests.page.conftest import Tab
from tests.page.plant import SENSORS, plant, plant_readings
from tests.page.test_board import numbers, refreshed
from tests.page.test_page_in_browser import CANARIES, FIGURES, TILES
from tests.page.worker import PARTITION, paged_worker, readings

ROWS = "[...document.querySelectorAll('#faults-rows tr')].map(row => [...row.children].map(cell => cell.textContent))"


def minute(number: int) -> str:
    return f"2026-11-21T{number // 60:02}:{number % 60:02}:00Z"


def ms(number: int) -> int:
    return 1_795_219_200_000 + number * 60_000  # since 2026-11-21


def begin(at: int, sensors: Sequence[str] = ("flow",), group: str = "g", detector: str = "runs",
          kind: str = "frozen", **more: Any) -> bytes:  # fmt: skip
    document = {
        "id": f"{group}{detector}{at}{sensors}", "group": group, "model": "m", "state": "begin", "detector": detector,
        "kind": kind, "sensors": list(sensors), "ts": minute(at), "since": minute(at - 9), "until": None,
        "strength": 1.3, "measured": {"sensor": sensors[0], "value": 26, "threshold": 19.8, "usual": 6},
    }  # fmt: skip
    return json.dumps(document | more).encode()


def end(at: int, sensors: Sequence[str] = ("flow",), group: str = "g", detector: str = "runs") -> bytes:
    document = {
        "id": f"end{at}", "group": group, "model": "m", "state": "end", "detector": detector, "kind": None,
        "sensors": list(sensors), "ts": minute(at), "since": None, "until": minute(at - 48), "strength": None,
        "measured": None,
    }  # fmt: skip
    return json.dumps(document).encode()


def log_of(*messages: bytes, most_bytes: int = 1_000_000) -> FaultLog:
    log = FaultLog(most_bytes)
    for message in messages:
        log.take(0, b"g", message)
    return log


def told(log: FaultLog, group: str = "g", now: dict[str, list[str]] | None = None) -> list[tuple[Any, ...]]:
    return [
        (each["kind"], each["since_ms"], each["until_ms"], tuple(each["going"])) for each in log.of(group, now)
    ]  # fmt: skip


def test_an_event_goes_on_until_its_end_says_so_for_every_sensor() -> None:
    outage = begin(100, ("flow", "speed"), detector="silence", kind="outage")
    log = log_of(outage, end(170, ("flow",), detector="silence"))
    assert told(log) == [("outage", ms(91), ms(122), ("speed",))]
    log.take(0, b"g", end(180, ("speed",), detector="silence"))
    assert told(log) == [("outage", ms(91), ms(132), ())]


def test_messages_that_come_again_or_from_the_past_change_nothing() -> None:
    """The worker's own events come at once, and the topic then repeats them after older ones."""
    messages = [begin(10), end(100), begin(200), begin(210, detector="gaps", kind="missingness")]
    expected = told(log_of(*messages))
    assert [each[3] for each in expected] == [("flow",), ("flow",), ()]
    assert told(log_of(*messages[2:], *messages, *messages)) == expected


def test_what_the_windows_say_counts_for_the_groups_of_this_worker() -> None:
    log = log_of(begin(10), begin(20, ("speed",), detector="jumps", kind="spiking"))
    now = {"flow": ["runs", "silence"]}
    assert told(log, now=now) == [
        (None, None, None, ("flow",)),  # silent since before what is known
        ("frozen", ms(1), None, ("flow",)),
        ("spiking", ms(11), None, ()),  # its end is not published yet
    ]
    assert [each["detector"] for each in log.of("g", now)] == ["silence", "runs", "jumps"]


def test_memory_is_bounded_for_a_group_and_for_all_together() -> None:
    many = [begin(10 + 60 * number) for number in range(MOST_OF_GROUP + 3)]
    assert [each["since_ms"] for each in log_of(*many).of("g")][-1] == ms(1 + 60 * 3)
    room = 40 * len(many[0])
    log = log_of(*(begin(10, group=f"g{number:03}") for number in range(500)), most_bytes=room)
    kept = [number for number in range(500) if log.of(f"g{number:03}")]
    assert kept == list(range(500 - len(kept), 500))
    assert 35 < len(kept) <= 40
    assert log._bytes <= room
    log.take(0, b"g", begin(10, ["x" * 249] * 10_000))
    assert log.of("g") == [], "one message does not drive out all others"


MEASURED = {"sensor": "flow", "value": float("nan"), "threshold": 1, "usual": 1}
NONSENSE = [
    None, b"", b"[", b"7", b"[]", b"{}", b'{"state": "begin"}', begin(10, ts="yesterday"), begin(10, ts=7),
    begin(10, since=None), begin(10).replace(b'["flow"]', b"7"), begin(10).replace(b'["flow"]', b'"flow"'),
    begin(10, measured=MEASURED), begin(10, ts="9999-12-31T23:59:59-23:59"),
]  # fmt: skip


@pytest.mark.parametrize("message", NONSENSE)
def test_a_message_that_is_no_event_changes_nothing(message: bytes | None) -> None:
    log = FaultLog()
    log.take(0, b"g", message)
    assert (log.version, log.of("g"), log.newest(9)) == (0, [], [])


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


async def test_a_faulty_sensor_is_on_its_tile_and_in_its_groups_events_until_it_is_well() -> None:
    async with plant(health=True, board_runs=False) as it:
        begun, ended, _ = counted()
        await it.send(minutes(0, 104))
        await it.send(frozen())
        assert counted() == (begun + 1, ended, 1)
        found = await refreshed(it, "pump-2")
        faulty = dict(zip(found["names"]["names"], numbers(found["overview"]["faulty"]), strict=True))
        assert faulty == {"pump-1": 0, "pump-2": 1, "pump-3": 0, "pump-4": 0}
        (event,) = found["faults"]["events"]
        assert (event["kind"], event["sensors"], event["going"]) == ("frozen", ["flow"], ["flow"])
        assert event["since_ms"] == FIRST_MS + 60_000 * 104
        assert event["measured"]["value"] > event["measured"]["threshold"] >= event["measured"]["usual"]
        assert [each["group"] for each in found["overview"]["faults"]] == ["pump-2"]
        other = await refreshed(it, "pump-1")
        assert other["faults"] == {"group": "pump-1", "unjudged": "", "events": []}
        await it.send(minutes(128, 250))
        assert counted() == (begun + 1, ended + 1, 0)
        it.board._states_due = 0.0
        found = await refreshed(it, "pump-2")
        (event,) = found["faults"]["events"]
        assert (event["going"], event["until_ms"] > event["since_ms"]) == ([], True)
        assert found["overview"]["faults"] == []
        assert sum(numbers(found["overview"]["faulty"])) == 0


async def test_without_a_topic_the_view_says_how_to_turn_it_on(tab: Tab) -> None:
    async with plant() as it:
        await it.send(plant_readings(0, 20))
        await tab.open(it.address)
        await tab.until("!document.querySelector('#faults').hidden")
        assert "set GLAIM_HEALTH_TOPIC=sensor-health" in await tab.text("#faults-note")
        assert await tab.run("document.querySelector('#faults-table').hidden")
        assert tab.problems == []


async def test_a_model_without_habits_is_said_to_have_none() -> None:
    async with plant(health=True, board_runs=False) as it:
        assert it.sources.forms is not None
        it.sources.forms._watched["plant-pump"].beside = {}
        await it.send(plant_readings(0, 20))
        assert (await refreshed(it, "pump-1"))["faults"]["unjudged"] == "habits"


async def test_the_browser_shows_a_faulty_sensor_and_its_end(tab: Tab) -> None:
    async with plant(health=True) as it:
        await it.send(minutes(0, 104))
        await it.send(frozen())
        await tab.open(it.address + "/#pump-2")
        await tab.has(SENSORS, FIGURES)
        await tab.until("document.querySelectorAll('#faults-rows tr.going').length === 1")
        (row,) = await tab.run(ROWS)
        assert row[:2] == ["flow", "frozen"]
        assert row[3] == "still going"
        assert "equal readings, limit" in row[4]
        assert await tab.text("#faults-about") == "1 sensor is faulty"
        marks = f"[...document.querySelectorAll('{TILES}')].map(tile => tile.querySelector('em').textContent)"
        assert await tab.run(marks) == ["", "1 faulty", "", ""]
        assert await tab.run("[...document.querySelectorAll('.fault')].map(e => e.textContent).join('')") == "frozen"
        assert (await tab.text("#faulty-list")).startswith("pump-2 flow: frozen since 2025-")
        await tab.run("[...document.querySelectorAll('#states button')].at(-1).click()")
        await tab.has(1, TILES)
        await tab.run("[...document.querySelectorAll('#states button')].at(-1).click()")
        await tab.has(4, TILES)
        await it.send(minutes(128, 250))
        await tab.until("document.querySelectorAll('#faults-rows tr.soft').length === 1")
        await tab.until(f"{ROWS}[0][3].endsWith('UTC')")  # the windows tell the end before its event is published
        assert await tab.text("#faults-about") == "all sensors are well"
        await tab.until("document.querySelector('#faulty').hidden")
        assert await tab.run(f"{marks}.join('')") == ""
        assert tab.problems == []


async def test_groups_of_other_workers_have_theirs_by_the_topic_and_names_are_text(tab: Tab) -> None:
    log = FaultLog()
    async with paged_worker(faults=log) as it:
        await it.send(readings(range(6)))
        for number, name in enumerate(CANARIES):
            log.take(PARTITION + 1, None, begin(600 + number, CANARIES, group=name, detector="jumps", kind=name))
        await tab.open(it.address)
        await tab.has(1 + len(CANARIES), TILES)
        await tab.until(f"document.querySelectorAll('{TILES}.s4').length === {len(CANARIES)}")
        assert await tab.run(f"document.querySelector('{TILES}.s4 em').textContent") == f"{len(CANARIES)} faulty"
        assert await tab.count("#faulty-list li") == 6
        for at in range(len(CANARIES)):
            await tab.run(f"document.querySelectorAll('{TILES}.s4')[{at}].click()")
            name = await tab.run(f"document.querySelectorAll('{TILES}.s4 b')[{at}].textContent")
            await tab.until(f"{ROWS}.length === 1 && {ROWS}[0][1] === {json.dumps(name)}")
            (row,) = await tab.run(ROWS)
            assert row[0] == ", ".join(CANARIES[:4]) + " and 3 more"
            assert "another worker has this group" in await tab.text("#group-note")
        await tab.run("document.querySelector('#faulty-list a').click()")
        await tab.until("document.querySelector('#group-title').textContent === " + json.dumps(CANARIES[-1]))
        assert await tab.run("window.canary ?? null") is None
        assert await tab.count("img, svg, #faults-rows script, #faulty-list script") == 0
        assert tab.problems == []
        await asyncio.sleep(0)


def test_the_page_has_words_for_every_kind_and_detector() -> None:
    script = (files("glaim_stream.page") / "static" / "faults.js").read_text()
    tables = {
        name: set(re.findall(r"(\w+):", body))
        for name, body in re.findall(r"const (WORDS|DETECTORS|MEASURES) = \{(.*?)\};", script, re.DOTALL)
    }
    assert tables["WORDS"] == {str(kind) for kind in Fault}
    assert tables["DETECTORS"] == tables["MEASURES"] == set(DETECTORS)
