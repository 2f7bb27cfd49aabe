"""The chart's README is generated from its template and values.yaml, and lists every value."""

import re

import pytest
import yaml

from deploy import chart_docs, chart_schema
from deploy.cache import CHECKOUT
from deploy.gotools import GoUnavailable

pytestmark = pytest.mark.timeout(1800)  # the first run builds helm-docs

CHART = CHECKOUT / "helm" / "glaim-stream"


@pytest.fixture(scope="module")
def generated() -> str:
    try:
        return chart_docs.readme(CHART)
    except GoUnavailable as reason:
        pytest.skip(str(reason))


def test_readme_is_up_to_date(generated: str) -> None:
    assert (CHART / "README.md").read_text() == generated, "run `make chart-docs`"


def described(text: str) -> dict[str, str]:
    """Value -> description, of the tables of a README."""
    rows = re.findall(r"^\| `([A-Za-z.]+)` \| .* \| (.*) \|$", text, re.MULTILINE)
    return {name: description.strip() for name, description in rows}


def test_every_description_is_the_comment_above_the_value(generated: str) -> None:
    """Compared with values.yaml, because helm-docs cuts a text at ` --` and takes the rest for the name of a value."""
    in_readme = {name: text.replace("\\|", "|") for name, text in described(generated).items()}
    comments = chart_schema.comments(CHART / "values.yaml")
    wrong = [name for name, text in in_readme.items() if not text or text != comments[name]]
    assert not wrong, f"expected the comments of values.yaml, found other descriptions: {wrong}"


def egress_allowed(values: object, prefix: str = "") -> list[str]:
    if not isinstance(values, dict) or not values:
        return [prefix]
    return [
        leaf for name, value in values.items() for leaf in egress_allowed(value, f"{prefix}.{name}" if prefix else name)
    ]


def test_every_value_is_listed(generated: str) -> None:
    """The README lists the value itself or an object that contains it."""
    listed = described(generated)
    for leaf in egress_allowed(yaml.safe_load((CHART / "values.yaml").read_text())):
        parts = leaf.split(".")
        assert any(".".join(parts[:count]) in listed for count in range(1, len(parts) + 1)), leaf
