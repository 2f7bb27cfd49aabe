"""Each panel of the page has data a minute after the demo starts, in a real Chromium, beside a real worker."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.browser import chromium
from tests.integration.test_demo import start_demo
from tests.page.test_page_in_browser import COLOURS, FIGURES, TILES

# Slow: it streams for most of a minute. tests/page looks at every panel beside a worker in its own process.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
ALONE = "PYTEST_XDIST_WORKER" not in os.environ
LIMIT_S = 60 if ALONE else 150  # another test process takes up to half of two cores


def test_every_panel_has_data_a_minute_after_the_demo_starts(tmp_path: Path) -> None:
    with chromium(tmp_path) as tab:
        tab.new_tab()
        start_s = time.monotonic()
        demo = start_demo(tmp_path, "--hours", "24", "--imputer", "local")
        try:
            assert demo.stdout is not None
            lines = iter(demo.stdout.readline, "")
            found = next(
                filter(None, (re.search(r"watch it live: (http://127\.0\.0\.1:\d+/)", line) for line in lines))
            )
            tab.look(1280, 1000)
            tab.open(found[1])
            tab.until(f"document.querySelectorAll('{FIGURES}').length === 8", 60)
            tab.until(f"['band', 'filled', 'observed'].every(name => {COLOURS}.includes(name))", 60)
            tab.until("!document.querySelector('#model').hidden", 60)
            tab.until(
                "/inside the 90 % band.*error beside/s.test(document.querySelector('#model-figures').innerText)", 60
            )
            tab.until("parseFloat(document.querySelector('.stack i').style.width) >= 0", 60)
            assert tab.run(f"document.querySelectorAll('{TILES}').length") == 8
            assert tab.run("document.querySelector('#health').textContent") == "live"
            tab.until("document.querySelectorAll('#faulty-list li').length > 0", 60)
            tab.until("document.querySelectorAll('#method-rows tr').length === 4", 60)
            assert not tab.run("document.querySelector('#faults').hidden")
            figures = tab.run("document.querySelector('#figures').innerText")
            assert "readings a second" in figures
            tab.run("document.querySelector('#faulty-list a').click()")
            tab.until("document.querySelectorAll('#faults-rows tr.going').length > 0", 20)
            tab.until(f"document.querySelectorAll('{FIGURES}').length === 8", 20)
            tab.until("document.querySelector('#group-note').textContent === ''", 20)
            # A filled value of the first sensor that has one, and what carried it.
            tab.run("document.querySelector('#charts canvas').focus()")
            for _ in range(90):
                tab.press("ArrowLeft")
                if "final" in tab.run("document.querySelector('#charts output').textContent"):
                    break
            tab.press("Enter")
            tab.until("document.querySelectorAll('#carried-list .bar').length > 1", 20)
            assert time.monotonic() - start_s < LIMIT_S
            assert tab.problems == []
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate(timeout=60)
