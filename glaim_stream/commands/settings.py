"""`glaim-stream settings`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_COLUMN = 100


class PageFormat(StrEnum):
    """How the list is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"


def list_settings(
    name: Annotated[str | None, typer.Argument(help="Only settings whose names contain this text.")] = None,
    page_format: Annotated[PageFormat, typer.Option("--format", help="How the list is printed.")] = PageFormat.TEXT,
) -> None:
    """Print every setting (GLAIM_*) of the worker and the other commands: its default, its values, what it does."""
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.core.settings import Settings

    chosen = {
        variable: field
        for key, field in Settings.model_fields.items()
        if (name or "").upper() in (variable := f"GLAIM_{key.upper()}")
    }
    if not chosen:
        raise SettingsError(f"expected a part of a setting's name, found {name!r}")
    if page_format is PageFormat.MARKDOWN:
        print(markdown(chosen), end="")
        return
    from textwrap import fill

    for variable, field in chosen.items():
        print(f"{variable}   [{values_of(field)}; default: {default_of(field) or 'none'}]")
        print(fill(field.description or "", _COLUMN, initial_indent="    ", subsequent_indent="    "))


def markdown(fields: dict[str, FieldInfo]) -> str:
    """A table of settings in Markdown."""
    lines = ["| setting | values | default | meaning |", "|---|---|---|---|"]
    for variable, field in fields.items():
        cells = (f"`{variable}`", values_of(field), default_of(field), field.description or "")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def default_of(field: FieldInfo) -> str:
    """The default of a setting as a person would write it; empty where there is none, or it follows another setting."""
    value = field.default
    if field.default_factory is not None or value is None or value == {}:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def values_of(field: FieldInfo) -> str:
    """What may be given: names, or the kind of value with its bounds."""
    from types import NoneType
    from typing import Literal, get_args, get_origin

    if get_origin(field.annotation) is dict:
        return "JSON object"
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType] or [field.annotation]
    if get_origin(field.annotation) is Literal:
        return ", ".join(map(str, get_args(field.annotation)))
    names = {"str": "text", "SecretStr": "secret text", "Path": "path", "bool": "true, false", "int": "whole number",
             "float": "number"}  # fmt: skip
    kind = names.get(getattr(kinds[0], "__name__", ""), str(kinds[0]))
    return " ".join([kind, *(text for part in field.metadata if (text := _bound(part)))])


def _bound(part: Any) -> str:
    signs = {"gt": "above", "ge": "from", "lt": "below", "le": "to"}
    found = [f"{word} {getattr(part, sign):g}" for sign, word in signs.items() if getattr(part, sign, None) is not None]
    return " ".join(found)
