"""The containers' variables and arguments exist as settings, commands and options of the programs."""

import os
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

import typer

from glaim_stream.commands.main import app
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings, read_settings
from tests.helm.chart_checks.system import Container, System

Problems = Iterator[str]

PREFIX = "GLAIM_"
IN_THE_IMAGES = "/opt/glaim/"  # folder that deploy/images creates in every image
# Values for variables whose value comes from a Secret or from the pod; all others get "x".
STAND_INS = {"GLAIM_INSTANCE_ID": "demo-worker-0"}


def check(system: System) -> Problems:
    for pod in system.pods:
        for container in pod.containers:
            yield from variables(container)
            yield from arguments(container)
            yield from files(container)


def variables(container: Container) -> Problems:
    """Every GLAIM_ variable is a setting, and the settings can be read."""
    given = {item["name"]: item.get("value") for item in container.spec.get("env") or []}
    settings = {name: value for name, value in given.items() if name.startswith(PREFIX)}
    unknown = [name for name in settings if name.removeprefix(PREFIX).lower() not in Settings.model_fields]
    for name in unknown:
        yield f"{container.where}: {name} is not a setting"
    values = {name: STAND_INS.get(name, "x") if value is None else str(value) for name, value in settings.items()}
    with patch.dict(os.environ, values, clear=True):
        try:
            read_settings()
        except SettingsError as error:
            yield f"{container.where}: {error}"


def arguments(container: Container) -> Problems:
    """The command and the options of `glaim-stream COMMAND --OPTION` exist."""
    line = [str(word) for name in ("command", "args") for word in container.spec.get(name) or []]
    if not line or line[0] != "glaim-stream":
        return
    command, rest = program(), line[1:]
    # Groups are recognised by their attribute, because typer uses either its vendored click or the installed one.
    while rest and hasattr(command, "commands") and not rest[0].startswith("-"):
        found = command.commands.get(rest[0])
        if found is None:
            yield f"{container.where}: glaim-stream has no command {rest[0]}"
            return
        command, rest = found, rest[1:]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for argument in rest:
        option = argument.partition("=")[0]
        if option.startswith("--") and option not in {*known, "--help"}:
            yield f"{container.where}: {command.name} has no option {option}"


def files(container: Container) -> Problems:
    """Settings that are paths point into the image or into a mounted volume."""
    mounted = [mount["mountPath"].rstrip("/") + "/" for mount in container.spec.get("volumeMounts") or []]
    for item in container.spec.get("env") or []:
        field = Settings.model_fields.get(item["name"].removeprefix(PREFIX).lower())
        path = str(item.get("value", "")) + "/"
        if field is None or "Path" not in str(field.annotation) or "value" not in item:
            continue
        if not path.startswith((IN_THE_IMAGES, *mounted)):
            yield f"{container.where}: {item['name']} is {item['value']}, which is neither mounted nor in the image"


@cache
def program() -> Any:
    """The command line as a click command."""
    return typer.main.get_command(app)
