"""Sentences about values that pydantic refuses: what was expected, and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

_LONGEST = 80  # characters of a value in a message

# By the first part of pydantic's type of error that fits; braces name entries of its context.
_EXPECTED = {
    "int_": "a whole number",
    "float_": "a number",
    "finite_number": "a finite number",
    "bool_": "true or false",
    "string_too_short": "a text of at least {min_length} characters",
    "string_too_long": "a text of at most {max_length} characters",
    "string_pattern_mismatch": "a text of the form {pattern}",
    "string_": "a text",
    "path_": "a path",
    "list_": "a list",
    "tuple_": "a list",
    "dict_": "a mapping",
    "mapping_": "a mapping",
    "model_": "a mapping",
    "dataclass_": "a mapping",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "too_short": "{min_length} or more entries, found {actual_length}",
    "too_long": "at most {max_length} entries, found {actual_length}",
    "none_required": "nothing",
    "date": "a time",
    "time": "a time",
}


def problems_of(error: ValidationError) -> list[tuple[str, str]]:
    """Return the place of each problem, with dots and empty at the top, and a sentence without pydantic's wording."""
    return [
        (".".join(map(str, problem["loc"])), _sentence(problem))
        for problem in error.errors(include_url=False)
        if problem["type"] != "default_factory_not_called"  # follows from another problem
    ]


def problems_text(error: ValidationError) -> str:
    """Return all problems in one line."""
    return "; ".join(f"{place}: {problem}" if place else problem for place, problem in problems_of(error))


def _sentence(problem: Mapping[str, Any]) -> str:
    kind, context = str(problem["type"]), problem.get("ctx", {})
    if kind in ("value_error", "assertion_error"):
        text = str(context.get("error", problem["msg"])).rstrip(".")
        return text if repr(problem["input"]) in text else f"{text}{_found(problem, ', found')}"
    if kind == "missing":
        return "expected a value, found none"
    if kind == "extra_forbidden":
        return "there is no such setting"
    if kind == "json_invalid":
        return f"expected JSON, found {context.get('error', 'something else')}"
    expected = next((text for start, text in _EXPECTED.items() if kind.startswith(start)), "")
    if not expected:
        text = str(problem["msg"]).rstrip(".")
        return text if repr(problem["input"]) in text else f"{text}{_found(problem, ', found')}"
    return f"expected {expected.format_map(_Shown(context))}{_found(problem, ', found')}"


class _Shown(dict[str, Any]):
    """The context of an error; what it lacks is an ellipsis."""

    def __missing__(self, key: str) -> str:
        return "..."


def _found(problem: Mapping[str, Any], before: str) -> str:
    """The value, shortened; nothing where the sentence names it, or where it is a whole document."""
    value = problem["input"]
    if isinstance(value, Mapping | list) or "found" in str(problem.get("ctx", {}).get("error", "")):
        return ""
    text = repr(value)
    return f"{before} {text if len(text) <= _LONGEST else text[:_LONGEST] + '...'}"
