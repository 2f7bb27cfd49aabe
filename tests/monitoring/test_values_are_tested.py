"""Every metric and every figure of the page has a test that checks its value, and that test mentions it."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

import pytest
from prometheus_client.metrics import MetricWrapperBase

from deploy.cache import CHECKOUT
from glaim_stream.core import metrics
from tests.monitoring.test_catalogue_of_metrics import documented
from tests.monitoring.value_tests import OF_FIGURES, OF_METRICS

STATIC = CHECKOUT / "glaim_stream" / "page" / "static"
# The lists of figures, by the script and the function that fill them.
LISTS = {
    "figures": ("page.js", "function showOverview("),
    "other-figures": ("page.js", "function showGone("),
    "model-figures": ("model.js", "  draw() {"),
}


@lru_cache
def parts_of(file: str) -> tuple[str, dict[str, str]]:
    """What the tests of a file share, and the source of each of them."""
    lines = (CHECKOUT / file).read_text().splitlines()
    shared, tests = "", {}
    for node in ast.parse("\n".join(lines)).body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        source = "\n".join(lines[first - 1 : node.end_lineno])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            tests[node.name] = source
        else:
            shared += source + "\n"
    return shared, tests


def source_of(test: str, *, alone: bool = False) -> str:
    """The source of a test, with what it shares with the others of its file unless it is wanted alone."""
    file, _, name = test.partition("::")
    shared, tests = parts_of(file)
    assert name in tests, f"{test} does not exist"
    return tests[name] if alone else shared + tests[name]


def names_of(metric: str) -> list[str]:
    """How a test may mention a metric: whole, as the attribute, or in quotes without what all names have in common."""
    short = metric.removeprefix("glaim_")
    attributes = [
        name
        for name, each in vars(metrics).items()
        if isinstance(each, MetricWrapperBase) and metric in (each._name, f"{each._name}_total")
    ]
    assert len(attributes) == 1, metric
    quoted = {short, short.removesuffix("_total"), short.removesuffix("_seconds")}
    return [re.escape(metric.removesuffix("_total")) + r"(_total|_count|_sum)?\b", rf"metrics\.{attributes[0]}\b",
            *(rf'"{each}"' for each in sorted(quoted))]  # fmt: skip


def figures_of_page() -> set[tuple[str, str]]:
    """Every figure with a name: those of lists, from the scripts, and the columns of numbers of tables."""
    found = set()
    for box, (file, begin) in LISTS.items():
        script = (STATIC / file).read_text()
        body = script[script.index(begin) :]
        body = body[: body.index(f'list("{box}"')]
        assert len(body) < 2500, "another function lies in between"
        names = re.findall(r'\["([a-z][^"]*)", |\[`([a-z][^:`]*)|\? "([a-z][^"]*)" : "([a-z][^"]*)",', body)
        found |= {(box, name) for each in names for name in each if name}
    for table in re.findall(r"<table.*?</table>", (STATIC / "index.html").read_text(), re.DOTALL):
        (body_id,) = re.findall(r'<tbody id="([^"]+)"', table)
        found |= {(body_id, name) for name in re.findall(r'<th scope="col" class="n">([^<]+)</th>', table)}
    return found


def test_every_metric_has_a_test_of_its_value() -> None:
    assert set(OF_METRICS) == set(documented())


@pytest.mark.parametrize("metric", OF_METRICS)
def test_the_test_of_a_metric_exists_and_mentions_it(metric: str) -> None:
    source = source_of(OF_METRICS[metric])
    assert any(re.search(name, source) for name in names_of(metric)), (metric, OF_METRICS[metric])
    assert "assert" in source_of(OF_METRICS[metric], alone=True)


def test_every_figure_of_the_page_has_a_test_of_its_value() -> None:
    assert set(OF_FIGURES) == figures_of_page()


@pytest.mark.parametrize(("box", "name"), OF_FIGURES)
def test_the_test_of_a_figure_exists_and_mentions_it(box: str, name: str) -> None:
    source = source_of(OF_FIGURES[box, name])
    assert box in source, "the list or table that it looks at"
    if box == "method-rows":  # each row has its method's error; the column has no other name there
        assert "× " in source
    else:
        assert name in source_of(OF_FIGURES[box, name], alone=True)
