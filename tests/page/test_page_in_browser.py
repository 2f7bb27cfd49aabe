"""The page in a real Chromium, with a real pipeline behind it: panels have data, names are text, keys work."""

import asyncio
import json
import re
from typing import Any

import pytest

from glaim_stream.core.metrics import input_partitions
from tests.page.conftest import Tab
from tests.page.plant import SENSORS, plant, plant_readings
from tests.page.worker import paged_worker, readings
from tests.support import catalogue

FIGURES, TILES = "#charts figure", ".tile:not([hidden])"
TITLE = "document.querySelector('#group-title').textContent"
TOKEN = "0123456789abcdef-token"

# Which of the chart's colours occur in the pixels of any chart; a band lies over lines of the grid.
COLOURS = """(() => {
  const style = getComputedStyle(document.documentElement), found = new Set();
  const rgb = text => {
    const pen = document.createElement('canvas').getContext('2d');
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const wanted = ['observed', 'filled', 'late', 'band'].map(name =>
    [name, rgb(style.getPropertyValue('--' + name)), name === 'band' ? 10 : 4]);
  for (const canvas of document.querySelectorAll('figure canvas')) {
    if (!canvas.width) continue;
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    for (let at = 0; at < data.length; at += 4)
      for (const [name, colour, off] of wanted)
        if ([0, 1, 2, 3].every(each => Math.abs(data[at + each] - colour[each]) < off)) found.add(name);
  }
  return [...found].sort();
})()"""

# Texts whose contrast with what is behind them is below 4.5:1, by the styles that the browser has computed.
FAINT = """(() => {
  const parts = text => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const over = ([r, g, b, a], below) => [r, g, b].map((each, at) => a * each + (1 - a) * below[at]);
  const light = colour => {
    const [r, g, b] = colour.map(each => each / 255)
      .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = node => node === null ? [0, 0, 0]
    : over(parts(getComputedStyle(node).backgroundColor), behind(node.parentElement));
  const texts = [...document.querySelectorAll('body *')].filter(each => each.getClientRects().length &&
    [...each.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())).map(each => [each, null]);
  for (const each of document.querySelectorAll('input')) texts.push([each, null], [each, '::placeholder']);
  const faint = [];
  for (const [each, part] of texts) {
    const back = behind(each), front = over(parts(getComputedStyle(each, part).color), back);
    const [low, high] = [light(front), light(back)].sort((one, other) => one - other);
    const ratio = (high + 0.05) / (low + 0.05);
    const name = part || each.textContent.slice(0, 30);
    if (ratio < 4.5) faint.push(`${ratio.toFixed(2)} ${each.tagName} ${each.className} ${name}`);
  }
  return [texts.length, [...new Set(faint)]];
})()"""
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(251, 250, 248)", "rgb(18, 22, 27)"


async def test_every_panel_of_a_running_worker_has_data(tab: Tab) -> None:
    input_partitions.set(0)  # not counted yet; the gauge is of the process, so other tests set it too
    async with plant() as it:
        await it.send(plant_readings(0, 150))
        await tab.open(it.address)
        await tab.has(SENSORS, FIGURES)
        await tab.until("document.querySelector('#health').textContent === 'live'")
        for step in range(150, 156):
            await it.send(plant_readings(step, step + 1))
            await asyncio.sleep(0.4)
        await it.send([{**each, "value": each["value"] + 1} for each in plant_readings(154, 155, hidden=1e-9)])  # late
        await it.send([{"temperature": "<b>4</b>"}])
        await tab.until(
            "document.querySelector('#rejected-list').textContent.startsWith('malformed 1partition 3 offset ')"
        )
        assert re.search(r" UTC, replayed from \d+ (d|y) ago$", await tab.text("#group-about"))
        await tab.until(f"{COLOURS}.length === 4")
        assert await tab.run(COLOURS) == ["band", "filled", "late", "observed"]
        assert "plant-pump" in await tab.text("#group-about")
        assert await tab.count(TILES) == 4
        assert "missing" in await tab.text("#tiles")
        assert await tab.text("#where") == "Groups of partition 3."
        await tab.run("document.querySelector('#charts canvas').focus()")
        for _ in range(60):  # to the left until a hole is below the cursor
            await tab.press("ArrowLeft")
            if "final" in await tab.text("#charts output"):
                break
        assert re.search(r"final -?[\d.,]+ \[-?[\d.,]+, -?[\d.,]+\] by closed form", await tab.text("#charts output"))
        assert tab.problems == []


async def test_a_worker_that_can_use_nothing_says_why_and_shows_no_empty_panels(tab: Tab) -> None:
    async with paged_worker() as it:
        it.sources.health = lambda: {"live": True, "why_not": {}, "degraded": ["9 of the last 9 records " * 9]}
        await it.send([{"temperature": at} for at in range(9)])
        await tab.open(it.address, 390)
        await tab.until("document.querySelector('#rejected-list b')?.textContent === 'malformed'")
        assert await tab.text("#group-title") == "No group yet"
        assert "bad" in await tab.run("document.querySelector('#health').className")
        assert await tab.run("document.querySelector('#tiles').checkVisibility()") is False
        assert await tab.run("document.querySelector('h1').getBoundingClientRect().height") < 40, "on one line"
        assert await tab.run("document.documentElement.scrollWidth") == 390
        await it.send(readings(range(9)))
        await tab.until(f"{TITLE} === 'g0' && document.querySelector('#tiles').checkVisibility()")


CANARIES = [
    "<img src=x onerror=\"window.canary='img'\">", "</script><script>window.canary='script'</script>",
    "\u202egnp.evil", "a\nb\u2028c", "'\"><svg onload=window.canary='svg'>", "x" * 249, "javascript:alert(1)",
]  # fmt: skip


async def test_names_are_text_wherever_they_are_shown(tab: Tab) -> None:
    sensors: list[dict[str, Any]] = [{"id": name, "unit": "<b>x</b>"} for name in CANARIES[:3]]
    async with paged_worker(catalogue(sensors=sensors, groups="*", lateness_s=0, max_gap=1, revise_after=1)) as it:
        for step in range(9):
            await it.send(
                [
                    {"group": group, "sensor": sensor["id"], "ts": step * 1000, "value": float(step % 4)}
                    for group in CANARIES
                    for sensor in sensors
                    if step != 6 or sensor is not sensors[0]
                ]
            )
        for step in range(9, 13):  # all but one go dark
            await it.send([{"group": CANARIES[0], "sensor": sensors[1]["id"], "ts": step * 1000, "value": 1.0}])
        await tab.open(it.address)
        await tab.has(len(CANARIES), TILES)
        shown = await tab.run(f"[...document.querySelectorAll('{TILES} b')].map(b => b.textContent)")
        assert sorted(shown) == sorted(CANARIES)
        for name in CANARIES:  # found by its name: places change as groups go dark
            tile = f"[...document.querySelectorAll('{TILES}')].find(each => each.querySelector('b').textContent === "
            await tab.run(f"{tile}{json.dumps(name)}).click()")
            await tab.until(f"{TITLE} === {json.dumps(name)}")
            await tab.has(3, FIGURES)
            assert await tab.text("#group-title") == name
        captions = await tab.run("[...document.querySelectorAll('figcaption b')].map(b => b.textContent)")
        assert captions == CANARIES[:3]
        assert CANARIES[1] in await tab.text("#outage-list")
        assert await tab.run("window.canary ?? null") is None
        assert await tab.count("img, svg, figcaption b b") == 0
        assert tab.problems == []


async def test_an_inline_script_that_got_in_would_not_run(tab: Tab) -> None:
    """The policy is the second wall: even markup in the page runs nothing."""
    async with paged_worker() as it:
        await tab.open(it.address)
        await tab.until("document.querySelector('#tiles') !== null")
        await tab.run("document.body.insertAdjacentHTML('beforeend', `<img src=x onerror='window.canary=1'>`)")
        await asyncio.sleep(0.5)
        assert await tab.run("window.canary ?? null") is None


async def test_the_token_is_given_once_and_leaves_the_address(tab: Tab) -> None:
    async with paged_worker(token=TOKEN) as it:
        await it.send(readings(range(5)))
        await tab.open(it.address)
        await tab.until("document.querySelector('input[type=password]') !== null")
        await tab.write("wrong")
        await tab.press("Enter")
        await tab.until("location.pathname === '/login' && document.querySelector('input[type=password]') !== null")
        await tab.run("document.querySelector('input').focus()")
        await tab.write(TOKEN)
        await tab.press("Enter")
        await tab.has(2, FIGURES)
        assert TOKEN not in await tab.run("location.href + document.cookie + document.referrer")
        await tab.open(it.address + f"/?token={TOKEN}")
        await tab.has(2, FIGURES)
        assert TOKEN not in await tab.run(
            "location.href + document.referrer + performance.getEntries().map(e => e.name)"
        )


@pytest.mark.parametrize(
    ("width", "height", "dark"),
    [
        (390, 844, False),
        (390, 844, True),
        (320, 640, False),
        (768, 1024, False),
        (1440, 900, False),
        (1440, 900, True),
    ],
)
async def test_the_page_is_as_wide_as_the_window_and_its_text_is_readable(
    tab: Tab, width: int, height: int, dark: bool
) -> None:
    async with plant() as it:
        await it.send(plant_readings(0, 110))
        await tab.open(it.address, width, height, dark=dark)
        await tab.has(SENSORS, FIGURES)
        assert await tab.run("document.documentElement.scrollWidth") <= width
        beyond = f"""[...document.querySelectorAll('body *')].filter(each => !each.closest('.hidden') &&
            each.getBoundingClientRect().right > {width} + 0.5).map(each => each.outerHTML.slice(0, 80))"""
        assert await tab.run(beyond) == []
        small = """[...document.querySelectorAll('body *')].filter(each =>
            [...each.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()) &&
            parseFloat(getComputedStyle(each).fontSize) < 12).map(each => each.textContent.slice(0, 40))"""
        assert await tab.run(small) == []
        assert await tab.run(BACKGROUND) == (DARK if dark else LIGHT)
        texts, faint = await tab.run(FAINT)
        assert texts > 40
        assert faint == []


@pytest.mark.parametrize("dark", [False, True])
async def test_keys_find_and_open_a_group(tab: Tab, dark: bool) -> None:
    async with paged_worker() as it:
        await it.send(readings(range(8), [f"g{number}" for number in range(30)], holes=[5]))
        await tab.open(it.address, dark=dark)
        await tab.until(f"{TITLE} === 'g0'")
        await tab.press("/")
        await tab.write("g2")
        await tab.has(11, TILES)
        await tab.press("Enter")
        await tab.until(f"{TITLE} === 'g2'")
        await tab.press("Escape", "Escape")  # clears the search, then goes to the groups
        assert await tab.run("document.activeElement.id") == "tiles"
        outline = await tab.run("getComputedStyle(document.activeElement).outline")
        assert outline == f"rgb({'88, 174, 252' if dark else '11, 102, 195'}) solid 2px", "where the keys go is seen"
        await tab.press("Home", "ArrowRight", "Enter")
        await tab.until(f"{TITLE} === 'g1'")
        await tab.press("End", "Enter")
        await tab.until(f"{TITLE} === 'g29'")
        assert await tab.run("location.hash") == "#g29"
        assert tab.problems == []


@pytest.mark.slow  # quicker: test_server.py cuts and resumes a stream without a browser
async def test_a_hidden_tab_holds_no_stream_and_a_cut_one_comes_back(tab: Tab) -> None:
    async with paged_worker(stream_s=1.0) as it:
        await it.send(readings(range(8)))
        await tab.open(it.address)
        await tab.has(2, FIGURES)
        for step in range(8, 12):  # each arrives by another stream
            await it.send(readings(range(step, step + 1)))
            await tab.until(f"document.querySelector('#group-about').textContent.includes('00:00:{step:02} UTC')")
        await tab.run(
            "Object.defineProperty(document, 'hidden', { value: true, configurable: true });"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        await asyncio.sleep(1.5)
        assert it.board._viewers == []
        await tab.run("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        await it.send(readings(range(12, 13)))
        await tab.until("document.querySelector('#group-about').textContent.includes('00:00:12 UTC')")
        await asyncio.to_thread(it.server.shutdown)
        it.server.server_close()
        await tab.until("document.querySelector('#health').textContent === 'no connection to the worker'")


async def test_groups_that_need_somebody_come_first_and_keep_their_places(tab: Tab) -> None:
    async with paged_worker(catalogue(sensors=1)) as it:
        await tab.open(it.address)
        shown = await tab.run("""(async () => {
            const { Groups } = await import('/groups.js');
            document.querySelector('#tiles').replaceChildren();
            const groups = new Groups(() => {}), four = bytes => btoa(String.fromCharCode(...bytes));
            groups.setNames({ names: ['p10', 'p9', 'p2', 'p1', 'p3'], version: 1 });
            const orders = [], states = (...state) => {
                const missing = four([0, 0, 0, 0, 0]), behind_s = four(Array(20).fill(0));
                groups.setStates({ version: 1, state: four(state), missing, behind_s, faulty: four([0, 1, 0, 0, 1]) });
                orders.push(groups.shown.map(place => groups.names[place]).join(' '));
            };
            states(0, 0, 1, 2, 2);
            groups.active = 4;
            states(1, 0, 1, 2, 2);
            return [...orders, groups.names[groups.shown[groups.active]]];
        })()""")
        assert shown == ["p1 p3 p9 p2 p10", "p1 p3 p9 p2 p10", "p10"], "dark, faulty, with holes, whole; by number"


async def test_ten_thousand_groups_are_a_few_elements_and_short_frames(tab: Tab) -> None:
    async with paged_worker(catalogue(sensors=1)) as it:
        names = [f"g{number:05}" for number in range(10_000)]
        for step in range(3):
            await it.send([{"group": name, "sensor": "s0", "ts": step * 1000, "value": 1.0} for name in names])
        await tab.open(it.address)
        await tab.until("document.querySelector('#count').textContent === '10,000'")
        assert await tab.count(".tile") < 100
        await tab.run("document.querySelector('#tiles').scrollTop = 1e9")
        await tab.until(f"[...document.querySelectorAll('{TILES} b')].some(b => b.textContent === 'g09999')")
        # Drawing ten times as many groups takes at most ten times as long, with room for a busy machine.
        many, few = await tab.run("""(async () => {
            const { Groups } = await import('/groups.js');
            document.querySelector('#tiles').replaceChildren();
            const groups = new Groups(() => {});
            const took = (count, version) => {
                groups.setNames({ names: Array.from({ length: count }, (_, n) => 'g' + n), version });
                const state = btoa('\\x00'.repeat(count)), behind_s = btoa('\\x00'.repeat(4 * count));
                const times = Array.from({ length: 7 }, () => {
                    const start = performance.now();
                    groups.setStates({ version, state, missing: state, behind_s, faulty: state });
                    groups.draw();
                    return performance.now() - start;
                });
                return Math.min(...times);
            };
            return [took(10000, 1), took(1000, 2)];
        })()""")
        assert many < 30 * max(few, 1.0), (many, few)
