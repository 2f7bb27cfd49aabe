"""The runbook has one section per alert, and its commands exist with the options it uses."""

import re
from typing import Any

import pytest
import typer

from deploy.cache import CHECKOUT
from glaim_stream.commands.main import app
from tests.rules_file import alerts

RUNBOOK = CHECKOUT / "docs" / "runbook.md"
PARTS = ("Means", "Lost", "Severity", "Look", "Do")


def sections() -> dict[str, str]:
    parts = re.split(r"^## (\w+)$", RUNBOOK.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands() -> list[str]:
    """Every `glaim-stream ...` command of the page, without comments."""
    text = RUNBOOK.read_text()
    inline = re.findall(r"`(?:[^`\n]* )?(glaim-stream [^`\n]+)`", text)
    blocks = [line for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL) for line in block.splitlines()]
    found = [match[1].split("#")[0] for match in (re.search(r"(glaim-stream .+)", line) for line in blocks) if match]
    return sorted({command.strip() for command in (*inline, *found)})


def test_the_runbook_has_exactly_one_section_per_alert() -> None:
    assert set(sections()) == {rule["alert"] for rule in alerts()}


@pytest.mark.parametrize(("name", "text"), sections().items(), ids=sections())
def test_each_section_states_meaning_loss_diagnosis_and_action(name: str, text: str) -> None:
    assert tuple(re.findall(r"^- \*\*(\w+)\*\* \S", text, flags=re.MULTILINE)) == PARTS


@pytest.mark.parametrize("name", sections())
def test_each_section_argues_every_severity_of_its_alert(name: str) -> None:
    (argument,) = re.findall(r"^- \*\*Severity\*\* (.*?)(?=^- \*\*)", sections()[name], flags=re.MULTILINE | re.DOTALL)
    given = {rule["labels"]["severity"] for rule in alerts() if rule["alert"] == name}
    assert {word for word in ("critical", "warning", "info") if re.search(rf"\b{word}\b", argument)} == given


def test_links_within_the_page_resolve() -> None:
    anchors = {name.lower() for name in sections()}
    linked = set(re.findall(r"\]\(#(\w+)\)", RUNBOOK.read_text()))
    assert linked
    assert linked <= anchors


@pytest.mark.parametrize("command", commands())
def test_each_command_exists_and_has_the_options(command: str) -> None:
    arguments = command.split()[1:]
    current: Any = typer.main.get_command(app)
    while hasattr(current, "commands"):
        assert arguments, f"{command} names no command"
        assert arguments[0] in current.commands, command
        current = current.commands[arguments.pop(0)]
    known = {option for parameter in current.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in arguments if word.startswith("-")} <= known, command


def test_the_runbook_has_commands_to_check() -> None:
    assert len(commands()) > 10
