"""Groups of flags: the expanded signature of a command, and the values that it receives."""

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from glaim_stream.commands.flags import SettingsCommand, SettingsFlags, expand_flags
from glaim_stream.commands.options import Pairs, Text
from glaim_stream.core.errors import SettingsError


@dataclass(frozen=True)
class Pair(SettingsFlags):
    kafka: Annotated[str | None, typer.Option(help="Broker.")] = None
    imputer: Annotated[str | None, typer.Option("--by", help="Imputer.")] = None


@dataclass(frozen=True)
class Mapped(SettingsFlags):
    kafka_extra: Pairs = None
    topic_names: Pairs = None
    output_topic: Text = None


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
        ["x", Needed(3), True, Pair(None, "last_value")],
    )
    assert invoke("x", "--size", "3") == (0, ["x", Needed(3), False, Pair()])


def test_a_flag_of_a_group_without_default_is_required() -> None:
    assert invoke("x")[0] == 2


def test_settings_take_only_the_flags_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLAIM_KAFKA", "from-environment:9092")
    settings = Pair(imputer="last_value").settings(metrics_port=0)
    assert (settings.kafka, settings.imputer, settings.metrics_port) == ("from-environment:9092", "last_value", 0)
    assert Pair(kafka="a:1").settings(kafka=None).kafka == "from-environment:9092"
    assert Pair(kafka="a:1").settings().kafka == "a:1"


def test_a_mapping_is_given_by_repeated_flags_whose_values_are_json_or_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLAIM_TOPIC_NAMES", '{"late": "from-environment"}')
    settings = Mapped(kafka_extra=["linger_ms=7", "compression_type=lz4", "client_id=a=b"]).settings()
    assert settings.kafka_extra == {"linger_ms": 7, "compression_type": "lz4", "client_id": "a=b"}
    assert settings.late_topic == "from-environment"
    assert Mapped(topic_names=["late=given"]).settings().late_topic == "given"
    for text in ("linger_ms", "=7"):
        with pytest.raises(SettingsError, match=f"--kafka-extra: expected NAME=VALUE, found '{text}'"):
            Mapped(kafka_extra=[text]).settings()


def test_the_help_of_a_setting_is_made_of_its_definition() -> None:
    app = typer.Typer(rich_markup_mode=None)

    @app.command(cls=SettingsCommand)
    @expand_flags
    def command(*, mapped: Mapped, alone: Annotated[str, typer.Option(help="Its own.")] = "x") -> None: ...

    text = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    assert "--output-topic <str> Topic of the filled rows. [env: GLAIM_OUTPUT_TOPIC, else imputed-readings]" in text
    assert "--kafka-extra NAME=VALUE Options that the Kafka clients take as they are" in text
    assert "[env: GLAIM_KAFKA_EXTRA]" in text
    assert "Its own. [default: x]" in text
