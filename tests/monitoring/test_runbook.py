"""Each alert has its paragraph, each paragraph its alert, and every command in it exists with these options."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer
import yaml

from deploy.cache import CHECKOUT
from glaim_stream.commands.main import app
from tests.monitoring.system import RULES

RUNBOOK = CHECKOUT / "docs" / "runbook.md"
PARTS = ("Means", "Lost", "Look", "Do")


def sections() -> dict[str, str]:
    parts = re.split(r"^## (\w+)$", RUNBOOK.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"] if "alert" in rule]


def commands() -> list[str]:
    """Every `glaim-stream ...` of the page, without what follows a comment sign."""
    text = RUNBOOK.read_text()
    inline = re.findall(r"`(?:[^`\n]* )?(glaim-stream [^`\n]+)`", text)
    blocks = [line for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL) for line in block.splitlines()]
    found = [match[1].split("#")[0] for match in (re.search(r"(glaim-stream .+)", line) for line in blocks) if match]
    return sorted({command.strip() for command in (*inline, *found)})


def test_each_alert_has_its_paragraph_and_each_paragraph_its_alert() -> None:
    assert set(sections()) == {rule["alert"] for rule in alerts()}


@pytest.mark.parametrize(("name", "text"), sections().items(), ids=sections())
def test_a_paragraph_says_what_it_means_what_is_lost_where_to_look_and_what_to_do(name: str, text: str) -> None:
    assert tuple(re.findall(r"^- \*\*(\w+)\*\* \S", text, flags=re.MULTILINE)) == PARTS


def test_links_within_the_page_lead_somewhere() -> None:
    anchors = {name.lower() for name in sections()}
    linked = set(re.findall(r"\]\(#(\w+)\)", RUNBOOK.read_text()))
    assert linked
    assert linked <= anchors


@pytest.mark.parametrize("command", commands())
def test_a_command_exists_and_takes_these_options(command: str) -> None:
    words = command.split()[1:]
    current: Any = typer.main.get_command(app)
    while hasattr(current, "commands"):
        assert words, f"{command} names no command"
        assert words[0] in current.commands, command
        current = current.commands[words.pop(0)]
    known = {option for parameter in current.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= known, command


def test_there_are_commands_to_try() -> None:
    assert len(commands()) > 10
