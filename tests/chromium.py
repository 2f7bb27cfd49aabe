"""What a page looks like in a real Chromium, measured by a script in the page: sizes of text, and what sticks out."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
# The page is measured in a frame of the wanted width, because a window of Chromium is at least 500 pixels wide. Text in
# a drawing is as large as its font times the drawing's scale.
_MEASURE = """
<pre id="found"></pre>
<iframe id="page" style="width: {width}px; height: 800px; border: 0" srcdoc="{page}"></iframe>
<script>
addEventListener("load", () => {{
  const view = document.getElementById("page").contentWindow, page = view.document;
  const sizes = [], beyond = [];
  for (const each of page.body.querySelectorAll("*")) {{
    const box = each.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    const card = each.parentElement.closest("figure, .table, .numbers div, li");
    const edge = card ? Math.min({width}, card.getBoundingClientRect().right) : {width};
    if (box.right > edge + 0.5) beyond.push(each.tagName + "." + each.getAttribute("class"));
    if (![...each.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())) continue;
    const scale = each.ownerSVGElement ? each.getScreenCTM().a : 1;
    sizes.push([scale * parseFloat(view.getComputedStyle(each).fontSize), each.textContent.trim().slice(0, 40)]);
  }}
  sizes.sort((one, other) => one[0] - other[0]);
  const shown = [...page.querySelectorAll("svg.panel")].map(each => each.getBoundingClientRect()).filter(b => b.width);
  document.getElementById("found").textContent = JSON.stringify({{
    page_width: page.documentElement.scrollWidth, beyond: beyond, smallest: sizes[0],
    tags: [...new Set([...page.querySelectorAll("*")].map(each => each.tagName.toLowerCase()))],
    text: page.body.innerText,
    panels: shown.map(box => [box.width, box.height])}});
}});
</script>
"""


@dataclass(frozen=True)
class Look:
    """A page at a width, all in CSS pixels.

    page_width: width of the content; more than the page's makes it scroll sideways.
    beyond: elements that reach beyond the right edge of the page or of the card that holds them.
    smallest: the smallest text, its size first.
    panels: width and height of the curves that are shown.
    tags: names of the elements that are there.
    text: what a reader sees.
    """

    page_width: float
    beyond: list[str]
    smallest: tuple[float, str]
    panels: list[tuple[float, float]]
    tags: frozenset[str]
    text: str


def look(page: str, width: int, folder: Path) -> Look:
    """Open a page in Chromium; skip the test where there is none."""
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    file = folder / f"measured-{width}.html"
    file.write_text('<meta charset="utf-8">' + _MEASURE.format(width=width, page=html.escape(page)))
    command = [
        program, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
        f"--user-data-dir={folder / f'profile-{width}'}", "--dump-dom", file.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    measured = json.loads(html.unescape(found[1]))
    return Look(
        measured["page_width"], measured["beyond"], tuple(measured["smallest"]),
        [tuple(b) for b in measured["panels"]], frozenset(measured["tags"]), measured["text"],
    )  # fmt: skip
