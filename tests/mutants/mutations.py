"""Small changes of a module's source that a good unit test detects."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
# Types and decorators are not behaviour, so they stay as they are.
_UNTOUCHED_FIELDS = {"annotation", "returns", "decorator_list", "type_params"}


@dataclass(frozen=True)
class Mutant:
    """One changed version of a module."""

    number: int  # its place among all mutants of the module
    line: int
    change: str
    source: str


def mutants(source: str, *, sample: int | None = None, seed: str = "0") -> list[Mutant]:
    """All mutants of a module in source order, or a seeded sample of them."""
    tree = ast.parse(source)
    found: list[Mutant] = []
    for holder, key, node in list(_slots(tree)):
        for change, replacement in _replacements(node):
            _put(holder, key, replacement)
            found.append(Mutant(len(found), getattr(node, "lineno", 0), change, ast.unparse(tree) + "\n"))
            _put(holder, key, node)
    if sample is None or sample >= len(found):
        return found
    return sorted(random.Random(seed).sample(found, sample), key=lambda mutant: mutant.number)


def _put(holder: Any, key: str | int, node: ast.AST) -> None:
    if isinstance(key, int):
        holder[key] = node
    else:
        setattr(holder, key, node)


def _slots(node: ast.AST) -> Iterator[tuple[Any, str | int, ast.AST]]:
    """Each place that holds a node: the object or list that holds it, the attribute or index, and the node."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
        return
    for field, value in ast.iter_fields(node):
        if field in _UNTOUCHED_FIELDS:
            continue
        places = [(value, index, each) for index, each in enumerate(value)] if isinstance(value, list) else []
        for holder, key, child in places or [(node, field, value)]:
            if isinstance(child, ast.AST):
                yield holder, key, child
                yield from _slots(child)


def _replacements(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The replacements of a node, each with a description of the change."""
    if isinstance(node, ast.Compare):
        for index, old in enumerate(node.ops):
            if type(old) in _COMPARISONS:
                yield _changed(node, ops=[*node.ops[:index], _COMPARISONS[type(old)](), *node.ops[index + 1 :]])
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield _changed(node, op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield _changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"{_short(node)} -> {_short(node.operand)}", node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        for other in (node.value - 1, node.value + 1):
            yield f"{node.value} -> {other}", ast.Constant(other)
    elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield f"{_short(node)} -> return None", ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Expr) and isinstance(_unawaited(node.value), ast.Call):
        yield f"{_short(node)} -> (nothing)", ast.Pass()
    if isinstance(node, ast.Call):
        for index in range(len(node.keywords)):
            yield _changed(node, keywords=[*node.keywords[:index], *node.keywords[index + 1 :]])


def _changed(node: ast.AST, **fields: Any) -> tuple[str, ast.AST]:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return f"{_short(node)} -> {_short(other)}", other


def _unawaited(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Await) else node


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else text[:67] + "..."
