"""Groups of flags: dataclasses whose fields are the flags of a command.

A group is declared once and taken whole by every command that has its flags:

    @dataclass(frozen=True)
    class PlantFlags:
        days: Annotated[float, typer.Option(help="Days to simulate.")] = 1.0

    @expand_flags
    def produce(*, plant: PlantFlags, dry_run: bool = False) -> None: ...

Typer sees the command `produce(*, days=1.0, dry_run=False)`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, get_type_hints

from typer.core import TyperCommand, TyperOption

if TYPE_CHECKING:
    from glaim_stream.core.settings import Settings


class SettingsFlags:
    """Base of the groups whose flags are named like the settings that they override."""

    def settings(self, **more: Any) -> Settings:
        """Settings from these flags and `more`; what is None comes from the environment, then from the default.

        Raises:
            SettingsError: a value cannot be used.
        """
        from glaim_stream.core.settings import read_settings

        given = {each.name: getattr(self, each.name) for each in fields(self)} | more  # type: ignore[arg-type]
        return read_settings(
            **{name: _pairs(name, value) if isinstance(value, list) else value for name, value in given.items()}
        )


class SettingsCommand(TyperCommand):
    """A command whose flags that are named like a setting get their help from it, once help is asked for."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options."""
        from glaim_stream.commands.settings import default_of
        from glaim_stream.core.settings import Settings

        for flag in self.params:
            field = Settings.model_fields.get(flag.name or "")
            if field is not None and isinstance(flag, TyperOption) and not flag.help:
                sentence, default = (field.description or "").split(". ")[0], default_of(field)
                also = f", else {default}" if default else ""
                flag.help = f"{sentence[:1].upper()}{sentence[1:]}. [env: GLAIM_{(flag.name or '').upper()}{also}]"
        super().format_options(ctx, formatter)


def _pairs(name: str, texts: list[str]) -> dict[str, Any] | None:
    """A mapping of repeated NAME=VALUE; a value is JSON, or else the text as it stands. None where none is given.

    Raises:
        SettingsError: a text has another form.
    """
    from glaim_stream.core.errors import SettingsError

    found: dict[str, Any] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not (key and sign):
            raise SettingsError(f"--{name.replace('_', '-')}: expected NAME=VALUE, found {text!r}")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found or None


def expand_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that takes a group by one parameter for each of its flags, in the same place."""
    parameters: list[Parameter] = []
    groups: dict[str, tuple[type, list[str]]] = {}
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in signature(command).parameters.items():
        kind = hints[name]
        if not is_dataclass(kind):
            parameters.append(parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY))
            continue
        assert isinstance(kind, type)
        of_fields = get_type_hints(kind, include_extras=True)
        groups[name] = (kind, [each.name for each in fields(kind)])
        parameters += [
            Parameter(each.name, Parameter.KEYWORD_ONLY, default=_default(each), annotation=of_fields[each.name])
            for each in fields(kind)
        ]

    @wraps(command)
    def expanded(**values: Any) -> None:
        taken = {name: kind(**{each: values.pop(each) for each in names}) for name, (kind, names) in groups.items()}
        command(**taken, **values)

    expanded.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {each.name: each.annotation for each in parameters}
    return expanded


def _default(flag: Field[Any]) -> Any:
    return Parameter.empty if flag.default is MISSING else flag.default
