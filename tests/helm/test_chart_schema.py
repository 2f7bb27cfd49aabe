"""Every property in the chart's schema has a description; those of values are the comments in values.yaml."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deploy import chart_schema
from deploy.cache import CHECKOUT

CHART = CHECKOUT / "helm" / "glaim-stream"


def test_descriptions_are_the_comments_of_values_yaml() -> None:
    assert (CHART / "values.schema.json").read_text() == chart_schema.schema(CHART), "run `make chart-docs`"


def properties(part: object, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(part, list):
        part = dict(enumerate(part))
    if not isinstance(part, dict):
        return
    for name, inner in part.items():
        if path.endswith(".properties"):
            yield f"{path}.{name}", inner
        yield from properties(inner, f"{path}.{name}")


def test_every_property_has_a_description() -> None:
    described = dict(properties(json.loads((CHART / "values.schema.json").read_text())))
    assert ".properties.kafka.properties.tls.properties.enabled" in described
    assert not [path for path, inner in described.items() if not inner.get("description")]


def test_every_value_has_a_comment() -> None:
    """The requests and limits of a container are described in the schema, as they are the same everywhere."""
    without = [path for path, text in chart_schema.comments(CHART / "values.yaml").items() if not text]
    assert not [path for path in without if not path.endswith((".requests", ".limits"))]


def chart(directory: Path, values: str, schema: dict[str, Any]) -> Path:
    (directory / "values.yaml").write_text(values)
    (directory / "values.schema.json").write_text(json.dumps(schema))
    return directory
