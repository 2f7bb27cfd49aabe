"""Groups of flags: the expanded signature of a command, and the values that it receives."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from glaim_stream.commands.flags import SettingsFlags, expand_flags
from glaim_stream.commands.options import ImputerName


@dataclass(frozen=True)
class Pair(SettingsFlags):
    kafka: Annotated[str | None, typer.Option(help="Broker.")] = None
    imputer: Annotated[ImputerName | None, typer.Option("--by", help="Imputer.")] = None


@dataclass(frozen=True)
class Needed:
    size: Annotated[int, typer.Option(help="No default.")]


def invoke(*arguments: str) -> tuple[int, list[object]]:
    received: list[object] = []
    app = typer.Typer()

    @app.command()
    @expand_flags
    def command(name: Annotated[str, typer.Argument()], *, needed: Needed, last: bool = False, pair: Pair) -> None:
        received.extend((name, needed, last, pair))

    return CliRunner().invoke(app, arguments).exit_code, received


def test_a_group_is_expanded_in_its_place() -> None:
    @expand_flags
    def command(*, before: int = 1, pair: Pair, needed: Needed, after: int = 2) -> None: ...

    assert [(name, each.default) for name, each in inspect.signature(command).parameters.items()] == [
        ("before", 1),
        ("kafka", None),
        ("imputer", None),
        ("size", inspect.Parameter.empty),
        ("after", 2),
    ]


def test_a_command_receives_its_groups_and_its_other_flags() -> None:
    assert invoke("x", "--size", "3", "--by", "last_value", "--last") == (
        0,
        ["x", Needed(3), True, Pair(None, ImputerName.LAST_VALUE)],
    )
    assert invoke("x", "--size", "3") == (0, ["x", Needed(3), False, Pair()])


def test_a_flag_of_a_group_without_default_is_required() -> None:
    assert invoke("x")[0] == 2


def test_settings_take_only_the_flags_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLAIM_KAFKA", "from-environment:9092")
    settings = Pair(imputer=ImputerName.LAST_VALUE).settings(metrics_port=0)
    assert (settings.kafka, settings.imputer, settings.metrics_port) == ("from-environment:9092", "last_value", 0)
    assert Pair(kafka="a:1").settings(kafka=None).kafka == "from-environment:9092"
    assert Pair(kafka="a:1").settings().kafka == "a:1"
