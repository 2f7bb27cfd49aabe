"""Descriptions in the chart's values.schema.json, taken from the comments in values.yaml.

Editors show them while a values file is written. Fields that values.yaml does not list, such as those of a toleration,
are described in the schema itself, and these descriptions are kept.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from deploy.errors import DeployError
from glaim_stream.core.gone_settings import gone_values

_WIDTH = 120
GONE = "Gone: "  # begins the description of a value that an earlier release had


class ChartSchemaError(DeployError):
    """Two values share a definition of the schema, but not their comments in values.yaml."""


def comments(values: Path) -> dict[str, str]:
    """Path of a value, such as `kafka.tls.enabled`, to the comment directly above it; "" if there is none."""
    found = {}
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in values.read_text().splitlines():
        text = line.strip()
        if text.startswith("#"):
            comment = [text.removeprefix("# -- ")] if text.startswith("# -- ") else [*comment, text[1:].strip()]
            continue
        match = re.match(r"^( *)([A-Za-z]+):", line)
        if match:
            path = [step for step in path if step[0] < len(match[1])] + [(len(match[1]), match[2])]
            found[".".join(name for _, name in path)] = " ".join(comment)
        comment = []
    return found


def schema(chart: Path) -> str:
    """The up-to-date content of a chart's values.schema.json.

    Raises:
        ChartSchemaError: Two values that share a definition have different comments.
    """
    content = json.loads((chart / "values.schema.json").read_text())
    texts = comments(chart / "values.yaml")
    described: dict[str, str] = {}  # place of a property in the schema -> its description

    for path, became in gone_values().items():  # admitted here, so that the chart can say what became of it
        *groups, name = path.split(".")
        part = content
        for group in groups:
            part = part.get("properties", {}).get(group, {})
        if "properties" in part:
            part["properties"][name] = {"description": f"{GONE}{became}."}

    def describe(part: dict[str, Any], value: str, place: str) -> None:
        if "$ref" in part:
            place = part["$ref"].rsplit("/", 1)[1]
            part = content["definitions"][place]
        for name, inner in part.get("properties", {}).items():
            path = f"{value}.{name}".removeprefix(".")
            text = texts.get(path)
            if text:
                if described.setdefault(f"{place}.{name}", text) != text:
                    raise ChartSchemaError(f"{path} needs its own schema: other values of definition {place} differ")
                part["properties"][name] = {"description": text} | inner | {"description": text}
            describe(inner, path, f"{place}.{name}")

    describe(content, "", "values")
    return written(content) + "\n"


def gone() -> str:
    """The up-to-date content of a chart's files/gone.yaml."""
    lines = [f"{path}: {json.dumps(became)}" for path, became in gone_values().items()]
    return (
        "\n".join(["# What became of values of earlier releases; `python -m deploy.chart_docs` writes it.", *lines])
        + "\n"
    )


def written(content: object, used: int = 0, indent: int = 0) -> str:
    """JSON whose objects and lists stand on one line if they fit into 120 characters, `used` of them already taken."""
    line = json.dumps(content, ensure_ascii=False)
    if not isinstance(content, dict | list) or used + len(line) < _WIDTH:
        return line
    names = [f"{json.dumps(name)}: " for name in content] if isinstance(content, dict) else [""] * len(content)
    items = content.values() if isinstance(content, dict) else content
    inner = indent + 2
    rows = [name + written(item, inner + len(name), inner) for name, item in zip(names, items, strict=True)]
    start, end = "{}" if isinstance(content, dict) else "[]"
    return f"{start}\n" + ",\n".join(" " * inner + row for row in rows) + f"\n{' ' * indent}{end}"
