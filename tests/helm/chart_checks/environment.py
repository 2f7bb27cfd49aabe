"""What the containers are told, the programs understand: variables are settings, options are options."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

import typer

from glaim_stream.commands.main import app
from glaim_stream.errors import SettingsError
from glaim_stream.settings import Settings, read_settings
from tests.helm.chart_checks.system import Container, System

Problems = Iterator[str]

PREFIX = "GLAIM_"
# What a Secret or the pod itself will say, where a setting is more than a text.
IMAGES_OWN = "/opt/glaim/"  # what deploy/images puts into every image of ours
STAND_INS = {"GLAIM_INSTANCE_ID": "demo-worker-0"}


def check(system: System) -> Problems:
    for pod in system.pods:
        for container in pod.containers:
            yield from variables(container)
            yield from arguments(container)
            yield from files(container)


def variables(container: Container) -> Problems:
    """Every GLAIM_ variable is a setting, and together they can be read."""
    given = {item["name"]: item.get("value") for item in container.spec.get("env") or []}
    ours = {name: value for name, value in given.items() if name.startswith(PREFIX)}
    unknown = [name for name in ours if name.removeprefix(PREFIX).lower() not in Settings.model_fields]
    for name in unknown:
        yield f"{container.where}: {name} is no setting"
    said = {name: STAND_INS.get(name, "x") if value is None else str(value) for name, value in ours.items()}
    with patch.dict(os.environ, said, clear=True):
        try:
            read_settings()
        except SettingsError as error:
            yield f"{container.where}: {error}"


def arguments(container: Container) -> Problems:
    """`glaim-stream COMMAND --OPTION` names a command and options that there are."""
    line = [str(word) for name in ("command", "args") for word in container.spec.get(name) or []]
    if not line or line[0] != "glaim-stream":
        return
    command, words = program(), line[1:]
    # By its attribute and not by its class: typer brings a click of its own, or uses the one that is installed.
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        found = command.commands.get(words[0])
        if found is None:
            yield f"{container.where}: glaim-stream has no command {words[0]}"
            return
        command, words = found, words[1:]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        option = word.partition("=")[0]
        if option.startswith("--") and option not in {*known, "--help"}:
            yield f"{container.where}: {command.name} has no option {option}"


def files(container: Container) -> Problems:
    """Settings that name a file or folder name one of the image's own or one that is mounted."""
    mounted = [mount["mountPath"].rstrip("/") + "/" for mount in container.spec.get("volumeMounts") or []]
    for item in container.spec.get("env") or []:
        field = Settings.model_fields.get(item["name"].removeprefix(PREFIX).lower())
        path = str(item.get("value", "")) + "/"
        if field is None or "Path" not in str(field.annotation) or "value" not in item:
            continue
        if not path.startswith((IMAGES_OWN, *mounted)):
            yield f"{container.where}: {item['name']} is {item['value']}, which is neither mounted nor in the image"


@cache
def program() -> Any:
    """The command line as click sees it."""
    return typer.main.get_command(app)
