"""The files and headings to which the documents refer exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = "benchmarks|deploy|docs|examples|glaim_stream|helm|model_repo|requirements|tests|training"
NAMED = re.compile(rf"(?<![\w/.])((?:{FOLDERS})/[\w./-]*\.(?:py|md|json|jsonl|png|svg|toml|txt|yaml|in))\b")
LINKED = re.compile(r"\]\((?!https?:)([^)#]*)(#[\w-]+)?\)")


def documents() -> list[Path]:
    within = (ROOT / folder for folder in FOLDERS.split("|"))
    return sorted([*ROOT.glob("*.md"), *(path for folder in within for path in folder.rglob("*.md"))])


def anchors(document: Path) -> set[str]:
    """The anchors that code hosts derive from the headings."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {"#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_and_link_of_a_document_exists(document: Path) -> None:
    text = document.read_text()
    absent = {path for path in NAMED.findall(text) if not (ROOT / path).exists()}
    for path, anchor in LINKED.findall(text):
        target = (document.parent / path) if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            absent.add(path + anchor)
    assert not absent, f"{document.name} refers to {sorted(absent)}"
