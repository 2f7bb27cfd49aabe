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

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, get_type_hints

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
            **{name: value.value if isinstance(value, Enum) else value for name, value in given.items()}
        )


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
