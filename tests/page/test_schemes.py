"""The page's light and dark scheme in a real Chromium, with everything that has a colour of its own."""

from tests.page.conftest import Tab
from tests.page.plant import SENSORS, plant
from tests.page.test_faults import frozen, minutes
from tests.page.test_page_in_browser import BACKGROUND, COLOURS, DARK, FAINT, FIGURES, LIGHT, TILES


async def test_the_page_follows_the_scheme_while_it_is_open_and_every_state_is_readable_in_both(tab: Tab) -> None:
    """With a faulty sensor, a silent group and a worker that is not ready."""
    async with plant(health=True) as it:
        await it.send(minutes(0, 104))
        await tab.open(it.address + "/#pump-2")
        await tab.has(SENSORS, FIGURES)
        await it.send([each for each in frozen() if each["group"] != "pump-4"])
        marks = f"[...document.querySelectorAll('{TILES} em')].filter(each => each.textContent)"
        await tab.until(f"{marks}.length === 2")
        await tab.until("document.querySelector('#faults-note').textContent.startsWith('1 faulty')")
        for dark in (False, True, False):
            await tab.look(1280, 900, dark=dark)
            await tab.until(f"{BACKGROUND} === '{DARK if dark else LIGHT}'")
            texts, faint = await tab.run(FAINT)
            assert texts > 40
            assert faint == [], dark
        colours = []
        for dark in (False, True):
            await tab.look(1280, 900, dark=dark)
            await tab.until(f"{COLOURS}.includes('observed')")  # drawn again in the colours of the scheme
            colours.append(await tab.run("getComputedStyle(document.documentElement).getPropertyValue('--observed')"))
        assert colours[0] != colours[1]
        it.sources.health = lambda: {"live": False, "why_not": {"live": ["the event loop is stuck"]}}
        await tab.until("document.querySelector('#health').classList.contains('bad')")
        for dark in (False, True):
            await tab.look(1280, 900, dark=dark)
            assert (await tab.run(FAINT))[1] == [], dark
        assert tab.problems == []
