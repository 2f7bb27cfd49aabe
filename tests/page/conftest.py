"""One Chromium for the tests of a file, and a new tab for each test."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Browser, chromium


class Tab:
    """A tab that is driven from a thread, so that the worker in the test's event loop goes on."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    async def open(
        self, address: str, width: int = 1280, height: int = 900, *, dark: bool = False, scale: float = 1
    ) -> None:
        await asyncio.to_thread(self._browser.look, width, height, dark=dark, scale=scale)
        await asyncio.to_thread(self._browser.open, address)

    async def look(self, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        await asyncio.to_thread(self._browser.look, width, height, dark=dark, scale=scale)

    async def run(self, script: str) -> Any:
        return await asyncio.to_thread(self._browser.run, script)

    async def until(self, script: str, within_s: float = 40) -> Any:
        return await asyncio.to_thread(self._browser.until, script, within_s)

    async def press(self, *keys: str) -> None:
        for key in keys:
            await asyncio.to_thread(self._browser.press, key)

    async def write(self, text: str) -> None:
        await asyncio.to_thread(self._browser.write, text)

    async def text(self, selector: str) -> str:
        return str(await self.run(f"document.querySelector('{selector}').textContent"))

    async def count(self, selector: str) -> int:
        return int(await self.run(f"document.querySelectorAll('{selector}').length"))

    async def has(self, count: int, selector: str) -> None:
        await self.until(f"document.querySelectorAll('{selector}').length === {count}")

    async def picture(self, path: Path) -> None:
        await asyncio.to_thread(self._browser.picture, path)

    @property
    def problems(self) -> list[str]:
        return self._browser.problems


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture
def tab(browser: Browser) -> Tab:
    browser.new_tab()
    return Tab(browser)
