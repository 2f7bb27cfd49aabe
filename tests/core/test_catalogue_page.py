"""docs/catalogue.md states the keys, types and defaults of the catalogue's parser, with examples that it takes."""

from __future__ import annotations

import copy
import re
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from deploy.cache import CHECKOUT
from glaim_stream.core.catalogue import Catalogue, GroupRule, Model, Sensor

PAGE = (CHECKOUT / "docs" / "catalogue.md").read_text()
SECTIONS: dict[str, type[BaseModel]] = {"File": Catalogue, "Model": Model, "Sensor": Sensor, "Group entry": GroupRule}
NAMES = {str: "text", float: "number", int: "whole number", bool: "true or false"}
NAMES |= {Sensor: "sensors", Model: "models", GroupRule: "group entries"}


def rows(section: str) -> dict[str, list[str]]:
    """Key -> type, default, meaning and example of its row."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    cells = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {key.strip().strip("`"): [each.strip() for each in others] for key, *others in cells}


def type_of(field: FieldInfo) -> str:
    annotation: Any = field.annotation
    if type(None) in get_args(annotation):
        (annotation,) = set(get_args(annotation)) - {type(None)}
    if get_origin(annotation) is list:
        return f"list of {NAMES[get_args(annotation)[0]]}"
    if get_origin(annotation) is Literal:
        return " or ".join(get_args(annotation))
    bounds = {sign: getattr(each, name) for each in field.metadata for name, sign in (("ge", "≥"), ("gt", ">"))
              if hasattr(each, name)}  # fmt: skip
    return " ".join(
        [NAMES[annotation], *(f"{sign} {bound:g}" for sign, bound in bounds.items() if annotation is not str)]
    )


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value in (None, "", []):
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_has_its_type_and_default(section: str) -> None:
    expected = {key: [type_of(field), default_of(field)] for key, field in SECTIONS[section].model_fields.items()}
    assert {key: row[:2] for key, row in rows(section).items()} == expected


@pytest.mark.parametrize("section", SECTIONS)
def test_every_example_is_taken_and_differs_from_the_default(section: str) -> None:
    sensor = {"id": "flow"}
    model = {"name": "m", "step_s": 60, "sensors": [sensor]}
    whole: dict[str, Any] = {"models": [model], "groups": [{"model": "m", "pattern": "*"}]}
    for key, (*_, example) in rows(section).items():
        content = copy.deepcopy(whole)
        place = {"File": content, "Model": content["models"][0], "Sensor": content["models"][0]["sensors"][0],
                 "Group entry": content["groups"][0]}[section]  # fmt: skip
        given = yaml.safe_load(example.strip("`"))
        assert list(given) == [key]
        place |= given
        if key == "name":
            content["groups"][0]["model"] = given["name"]
        Catalogue.model_validate(content)
        assert given[key] != SECTIONS[section].model_fields[key].get_default(call_default_factory=True)


def test_the_catalogue_of_the_page_is_taken() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    Catalogue.model_validate(yaml.safe_load(text))
