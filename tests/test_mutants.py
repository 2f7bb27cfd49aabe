"""The small changes by which the unit tests are measured."""

from __future__ import annotations

import ast

import pytest

from tests.mutants import changes_of, draw


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("a < b", {"(a <= b)"}),
        ("if not a and b: pass", {"if (not a or b): pass", "if (a) and b: pass"}),
        ("f(x[1:n], k=2)", {"pass", "(f(x[1:n]))", "f(x[1 + 1:n], k=2)", "f(x[1:n + 1], k=2)", "f(x[(0):n], k=2)",
                            "f(x[(2):n], k=2)", "f(x[1:n], k=(1))", "f(x[1:n], k=(3))"}),
        ("def f():\n    é = é + g()\n    return a is b\n", {
            "def f():\n    é = (é - g())\n    return a is b\n", "def f():\n    é = é + g()\n    return not a is b\n",
            "def f():\n    é = é + g()\n    return (a is not b)\n"}),
        ("async def f():\n    g()\n    await h()\n", {
            "async def f():\n    await h(); g()\n", "async def f():\n    pass\n    await h()\n",
            "async def f():\n    g()\n    pass\n"}),
        ("SIZE: int = 4\ndef f(a: X | Y = None) -> A | B:\n    raise ValueError(f'{a + 1}')", set()),
    ],
)  # fmt: skip
def test_each_construct_yields_its_changes(source: str, changed: set[str]) -> None:
    assert {ast.unparse(ast.parse(each.of(source))) for each in changes_of("m.py", source)} == {
        ast.unparse(ast.parse(each)) for each in changed
    }


def test_a_draw_has_one_change_a_line_and_the_same_ones_for_a_seed() -> None:
    sources = {f"glaim_stream/{name}/a.py": "f(a + b, k=1)\n" * 501 for name in ("x", "y")}
    drawn = draw(sources, 10, 3)
    assert len({each[:2] for each in drawn}) == len(drawn) == 16
    assert len({each.kind for each in drawn}) > 3
    assert (drawn == draw(sources, 10, 3), drawn == draw(sources, 10, 4)) == (True, False)
