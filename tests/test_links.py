"""Every link from one page of the repository to another leads somewhere, to the heading too."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    """Markdown of the repository; without git, as in an archive, all outside of folders that begin with a dot."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    names = listed.stdout.split() or [
        str(file.relative_to(CHECKOUT))
        for file in CHECKOUT.rglob("*.md")
        if not any(part.startswith(".") for part in file.relative_to(CHECKOUT).parts)
    ]
    return [CHECKOUT / name for name in names]


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


@cache
def headings(page: Path) -> set[str]:
    """Anchors of a page, as forges make them of its headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(without_code(page.read_text())):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", target):
            continue  # elsewhere
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in headings(file)):
            broken.append(link)
    assert not broken
