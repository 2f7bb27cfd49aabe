"""The chart's README is the one that its template and values.yaml make, and tells every value."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from deploy import chart_docs
from deploy.cache import CHECKOUT
from deploy.gotools import GoUnavailable

pytestmark = pytest.mark.timeout(1800)  # the first run builds helm-docs

CHART = CHECKOUT / "helm" / "glaim-stream"


@pytest.fixture(scope="module")
def made() -> str:
    try:
        return chart_docs.readme(CHART)
    except GoUnavailable as reason:
        pytest.skip(str(reason))


def test_the_readme_is_current(made: str) -> None:
    assert (CHART / "README.md").read_text() == made, "run `make chart-docs`"


def test_the_command_says_whether_it_is(made: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert chart_docs.main(["--check"]) == 0
    for name in ("Chart.yaml", "values.yaml", "README.md.gotmpl"):
        (tmp_path / name).write_text((CHART / name).read_text())
    (tmp_path / "README.md").write_text("old")
    monkeypatch.setattr(chart_docs, "CHART", tmp_path)
    assert chart_docs.main(["--check"]) == 1
    assert chart_docs.main([]) == 0
    assert (tmp_path / "README.md").read_text() == made


def described(text: str) -> dict[str, str]:
    """Value -> description, of the tables of a README."""
    rows = re.findall(r"^\| `([A-Za-z.]+)` \| .* \| (.*) \|$", text, re.MULTILINE)
    return {name: description.strip() for name, description in rows}


def test_every_value_is_described_above_itself(made: str) -> None:
    """Held against values.yaml itself: helm-docs cuts a text at ` --`, which then looks like the name of a value."""
    told = {name: description.replace("\\|", "|") for name, description in described(made).items()}
    written = {}
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in (CHART / "values.yaml").read_text().splitlines():
        text = line.strip()
        if text.startswith("#"):
            comment = [text.removeprefix("# -- ")] if text.startswith("# -- ") else [*comment, text[1:].strip()]
            continue
        match = re.match(r"^( *)([A-Za-z]+):", line)
        if match:
            path = [step for step in path if step[0] < len(match[1])] + [(len(match[1]), match[2])]
            written[".".join(name for _, name in path)] = " ".join(comment)
        comment = []
    wrong = [name for name in told if not told[name] or told[name] != written[name]]
    assert not wrong, f"expected the words above the value, found others: {wrong}"


def leaves(values: object, prefix: str = "") -> list[str]:
    if not isinstance(values, dict) or not values:
        return [prefix]
    return [leaf for name, value in values.items() for leaf in leaves(value, f"{prefix}.{name}" if prefix else name)]


def test_no_value_is_left_out(made: str) -> None:
    """A value is told itself, or an object that it lies in is."""
    told = described(made)
    for leaf in leaves(yaml.safe_load((CHART / "values.yaml").read_text())):
        parts = leaf.split(".")
        assert any(".".join(parts[:count]) in told for count in range(1, len(parts) + 1)), leaf


def test_a_chart_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "Chart.yaml").write_text("name: x\n")
    (tmp_path / "values.yaml").write_text("a: [1\n")
    try:
        with pytest.raises(chart_docs.ChartDocsError, match="helm-docs refuses"):
            chart_docs.readme(tmp_path)
    except GoUnavailable as reason:
        pytest.skip(str(reason))
