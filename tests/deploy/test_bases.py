"""The images of other projects are in one file that a bot can update."""

import json
import re
from pathlib import Path

import pytest

from deploy.bases import FILE, BasesInvalid, DigestUnknown, pin, read_bases
from deploy.cache import CHECKOUT

DIGEST = "sha256:" + "0f" * 32


def test_every_tag_is_a_version() -> None:
    for base in read_bases().values():
        assert re.search(r"\d+\.\d+", base.tag), base.tagged


def test_no_other_file_names_a_tag_of_these_images() -> None:
    """A second place would stay behind when the bot updates the first."""
    searched = [path for path in (CHECKOUT / "deploy").rglob("*") if path.suffix in ("", ".yaml", ".sh", ".py")]
    searched += [path for path in (CHECKOUT / "helm").rglob("*") if path.suffix in (".yaml", ".tpl")]
    for path in searched:
        if path.is_file() and path != FILE and "__pycache__" not in path.parts:
            found = [base.tagged for base in read_bases().values() if base.tagged in path.read_text(errors="replace")]
            assert not found, f"{path} names {found}"


def test_the_bot_finds_every_image_and_can_write_it_back() -> None:
    (manager,) = json.loads((CHECKOUT / "renovate.json").read_text())["customManagers"]
    (file,) = manager["managerFilePatterns"]
    assert re.search(file.strip("/"), str(FILE.relative_to(CHECKOUT)))
    (pattern,) = manager["matchStrings"]
    expression = re.compile(pattern.replace("(?<", "(?P<"))
    found = {(match["depName"], match["currentValue"]) for match in expression.finditer(FILE.read_text())}
    assert found == {(base.repository, base.tag) for base in read_bases().values()}
    pinned = expression.search(f"GRAFANA_IMAGE=grafana/grafana:13.2.3@{DIGEST}")
    assert pinned is not None
    assert pinned["currentDigest"] == DIGEST


def test_pinning_writes_every_digest_and_keeps_the_comments(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(FILE.read_text())
    bases = pin(file, lambda tagged: DIGEST)
    assert {base.digest for base in bases.values()} == {DIGEST}
    assert {base.tagged for base in bases.values()} == {base.tagged for base in read_bases().values()}
    assert file.read_text().replace(f"@{DIGEST}", "") == re.sub(r"@sha256:[0-9a-f]{64}", "", FILE.read_text())
    other = "sha256:" + "1e" * 32
    assert {base.digest for base in pin(file, lambda tagged: other).values()} == {other}


def test_pinning_changes_nothing_if_one_registry_does_not_answer(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(FILE.read_text())

    def ask(tagged: str) -> str:
        if "grafana" in tagged:
            raise DigestUnknown(tagged)
        return DIGEST

    with pytest.raises(DigestUnknown):
        pin(file, ask)
    assert file.read_text() == FILE.read_text()


@pytest.mark.parametrize(
    "line",
    [
        "PYTHON_IMAGE=python",
        "PYTHON_IMAGE=python:3.11@sha256:12",
        "python:3.11",
        "A_IMAGE=a:1\nA_IMAGE=a:2",
        "A_IMAGE = a:1",
    ],
)
def test_lines_that_cannot_be_read_are_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / ".env"
    file.write_text(f"# a comment\n\n{line}\n")
    with pytest.raises(BasesInvalid, match="expected NAME_IMAGE=repository:tag"):
        read_bases(file)
