"""Values of the chart, settings, metrics, alerts and commands that the pages for an organisation name exist."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from deploy.cache import CHECKOUT
from deploy.chart_schema import GONE
from glaim_stream.commands.main import app
from glaim_stream.core.settings import Settings
from glaim_stream.operate.check import Load, size
from tests.rules_file import alerts

PAGES = [CHECKOUT / "docs" / f"{name}.md" for name in ("access", "cost", "data", "on-call", "recovery", "security")]
PAGES.append(CHECKOUT / "SECURITY.md")
VALUES = json.loads((CHECKOUT / "helm" / "glaim-stream" / "values.schema.json").read_text())
BESIDE_SETTINGS = {"GLAIM_DATA", "GLAIM_CACHE"}  # of the tests and installers

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)


def quoted(page: Path) -> list[str]:
    """What stands in back quotes, and the lines of code blocks."""
    text = page.read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    rest = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"^    (\S.*)$", rest, flags=re.MULTILINE)
    return [*(" ".join(each.split()) for each in re.findall(r"`([^`]+)`", rest)), *lines]


def in_schema(name: str) -> bool:
    node: dict[str, Any] = VALUES
    for part in name.split("."):
        if part not in node.get("properties", {}):
            return isinstance(node.get("additionalProperties"), dict)  # a map whose names are the user's
        node = node["properties"][part]
        if "$ref" in node:
            node = VALUES["definitions"][node["$ref"].rpartition("/")[2]]
    return not node.get("description", "").startswith(GONE)


def values(page: Path) -> set[str]:
    """Dotted names that begin with a group of the chart's values."""
    words = {word for text in quoted(page) for word in re.findall(r"(?<![\w./-])[a-z]\w*(?:\.[a-z]\w*)+", text)}
    modules = {word for word in words if (CHECKOUT / word.replace(".", "/")).with_suffix(".py").exists()}
    return {word for word in words - modules if word.split(".")[0] in VALUES["properties"]}


def commands(page: Path) -> list[list[str]]:
    found = [re.search(r"(?:^|[ =])glaim-stream ([a-z].*)", text) for text in quoted(page)]
    return [shlex.split(match[1].split("#")[0].split(" <")[0]) for match in found if match is not None]


def test_the_pages_name_something() -> None:
    assert {"training.work.keepRuns", "kafka.extra"} <= {name for page in PAGES for name in values(page)}
    assert ["audit", "--since", "1h"] in [command for page in PAGES for command in commands(page)]


@each_page
def test_values_of_the_chart_exist(page: Path) -> None:
    assert not {name for name in values(page) if not in_schema(name)}


@each_page
def test_settings_metrics_and_alerts_exist(page: Path) -> None:
    text = page.read_text()
    settings = {f"GLAIM_{name.upper()}" for name in Settings.model_fields} | BESIDE_SETTINGS
    assert set(re.findall(r"\bGLAIM_[A-Z_]*[A-Z]\b", text)) <= settings
    metrics = (CHECKOUT / "docs" / "metrics.md").read_text()
    assert not {name for name in re.findall(r"`(glaim_[a-z_]+)`", text) if name not in metrics}
    assert set(re.findall(r"\bGlaim[A-Z]\w+", text)) <= {rule["alert"] for rule in alerts()}


@each_page
def test_commands_exist_with_their_options(page: Path) -> None:
    for command in commands(page):
        arguments = list(command)
        current: Any = typer.main.get_command(app)
        while hasattr(current, "commands") and arguments:
            assert arguments[0] in current.commands, command
            current = current.commands[arguments.pop(0)]
        known = {option for parameter in current.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in arguments if word.startswith("--")} <= known, command


@each_page
def test_modules_and_targets_exist(page: Path) -> None:
    for text in quoted(page):
        for module in re.findall(r"python -m ([\w.]+)", text):
            path = CHECKOUT / module.replace(".", "/")
            assert path.with_suffix(".py").exists() or path.is_dir(), module
        for target in re.findall(r"^make ([\w-]+)", text):
            assert re.search(rf"^{target}:", (CHECKOUT / "Makefile").read_text(), re.MULTILINE), target


def newest(file: str, key: str, without: str = "") -> dict[str, Any]:
    """The newest line that has a key, of a command without a flag."""
    lines = (CHECKOUT / "benchmarks" / "results" / file).read_text().splitlines()
    return [
        line for line in map(json.loads, lines) if line.get(key) is not None and without not in line["command"].split()
    ][-1]


def test_the_costs_follow_from_the_measurements() -> None:
    text = (CHECKOUT / "docs" / "cost.md").read_text()
    rows = dict(re.findall(r"\(`(\w+)`\) \| (.+) \|$", text, flags=re.MULTILINE))
    lines = (CHECKOUT / "benchmarks" / "results" / "stream.jsonl").read_text().splitlines()
    complete = "python -m benchmarks.stream --rounds 2 --seconds 6"
    measured = [each for each in map(json.loads, lines) if each["command"] == complete][-1]
    wire = newest("wire.jsonl", "bytes_a_reading")
    (a_row,) = [each["bytes_a_row"] for each in wire["output"] if each["groups"] == 100]
    for name, row in rows.items():
        cores, into, out = (float(cell) for cell in row.split(" | "))
        assert cores == round(1e6 / measured[f"{name}_per_cpu_s"], 1), name
        assert into == wire["bytes_a_reading"][name]
        assert out == round(1.05 / 0.95 * a_row, 1)
    assert set(rows) == {"single", "batch", "arrow", "wide"}
    windows = 2 * 1e6 / (8 * 0.95) * (1 - 0.95**8)
    assert f"{windows:,.0f} windows" in text
    assert f"{windows * 56e-6:.1f} core seconds" in text
    whole_windows = newest("serving.jsonl", "sizes", without="--history")
    (serving,) = [each for each in whole_windows["sizes"] if each["batch"] == 64]
    assert f"{serving['windows_per_s']} windows/s" in text
    assert f"{windows / serving['windows_per_s']:.0f} s" in text
    assert f"{rows['single'].split(' | ')[1]} · 3 · 7 = {98.9 * 3 * 7:,.0f} MB" in text


def test_the_costs_count_windows_as_the_sizing_does() -> None:
    load = Load(groups=125_000, sensors=8, step_s=1.0, missing=0.05)
    found = size(load)
    assert found.readings_s == pytest.approx(950_000)
    a_million = found.windows_s / found.readings_s * 1e6
    assert a_million == pytest.approx(88_574, rel=0.08)  # with probe windows, which the page leaves out
