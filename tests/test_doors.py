"""Packages are used through their doors, and the house stays within its budgets.

A door is the `__all__` of a package. Code outside of a room imports from doors alone; a test may also reach into the
room that its folder is named after. The budgets only ever fall: lower one when you get below it.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("glaim_stream", "training")
TREES = (*PRODUCT, "deploy", "benchmarks")
MODULES_ARE_DOORS = {"core", "build", "commands"}  # core says why; build is one module, commands an entry point
ROOMS = {"glaim_stream": 20, "training": 14}
ARROWS = 92  # pairs of rooms of glaim_stream, one of which imports the other
LINES = {"glaim_stream": 59_970, "training": 9_500, "tests": 80_660}
NAMES_SHOWN = 476  # by all doors of glaim_stream
TESTS_PAST_A_DOOR = 70  # names that tests take from the inside of another room than their own
CLASSES_OF_ONE_NAME = 0  # class names that are used more than once


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def sources(tree: str) -> list[Path]:
    return sorted((ROOT / tree).rglob("*.py"))


def rooms(tree: str) -> set[str]:
    entries = {path.relative_to(ROOT / tree).parts[0].removesuffix(".py") for path in sources(tree)}
    return {entry for entry in entries if not entry.startswith("__")}


def shown(package: Path) -> list[str] | None:
    for node in parsed(package / "__init__.py").body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            return list(ast.literal_eval(node.value))  # type: ignore[union-attr, arg-type]
    return None


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Module and name of every `from glaim_stream.... import ...` of a file."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("glaim_stream."):
            yield from ((str(node.module), alias.name) for alias in node.names)


def past_the_door(module: str, name: str) -> bool:
    """Whether importing this name reaches past the door of a room."""
    room = module.split(".")[1]
    if room in MODULES_ARE_DOORS:
        return False
    package = ROOT / module.replace(".", "/")
    return not (package / "__init__.py").exists() or name not in (shown(package) or [])


def own_room(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[1].removesuffix(".py") if parts[0] in ("glaim_stream", "tests") else ""


@pytest.mark.parametrize("tree", TREES)
def test_code_outside_of_a_room_uses_its_door(tree: str) -> None:
    past = [
        f"{path.relative_to(ROOT)}: from {module} import {name}"
        for path in sources(tree)
        if path != ROOT / "glaim_stream" / "__init__.py"  # imports `impute` when it is first used
        for module, name in imports(path)
        if module.split(".")[1] != own_room(path) and past_the_door(module, name)
    ]
    assert not past, "\n".join(past)


def test_tests_reach_past_few_doors() -> None:
    past = Counter(
        str(path.relative_to(ROOT))
        for path in sources("tests")
        for module, name in imports(path)
        if module.split(".")[1] != own_room(path) and past_the_door(module, name)
    )
    assert past.total() <= TESTS_PAST_A_DOOR, past.most_common(20)


def test_every_package_has_a_door() -> None:
    packages = [path.parent for path in sources("glaim_stream") if path.name == "__init__.py"]
    assert not [str(package.relative_to(ROOT)) for package in packages if shown(package) is None]


def test_no_door_shows_a_name_of_a_module_that_does_not_define_it() -> None:
    """Python binds a module to its name in its package once it is imported, over what the package bound before."""
    for path in sources("glaim_stream"):
        if path.name == "__init__.py":
            package = ".".join(path.parent.relative_to(ROOT).parts)
            homes = {name: module for module, name in imports(path)}
            modules = {entry.stem for entry in path.parent.iterdir() if entry.suffix in ("", ".py")}
            for name in modules & set(shown(path.parent) or []) if package != "glaim_stream.core" else ():
                lazily = "opened(__name__)" in path.read_text()
                assert homes[name] == package or (homes[name] == f"{package}.{name}" and not lazily), (package, name)


def test_every_door_opens() -> None:
    packages = [path.parent.relative_to(ROOT) for path in sources("glaim_stream") if path.name == "__init__.py"]
    for package in packages:
        module = import_module(".".join(package.parts))
        for name in shown(ROOT / package) or []:
            assert getattr(module, name, None) is not None or package.name == "core", f"{package}: {name}"


@pytest.mark.parametrize("tree", PRODUCT)
def test_rooms_stay_within_their_budget(tree: str) -> None:
    assert len(rooms(tree)) <= ROOMS[tree], sorted(rooms(tree))


def test_arrows_between_rooms_stay_within_their_budget() -> None:
    arrows = {
        (own_room(path), module.split(".")[1])
        for path in sources("glaim_stream")
        for module, _ in imports(path)
        if module.split(".")[1] != own_room(path) and not path.name.startswith("__")
    }
    assert len(arrows) <= ARROWS, sorted(arrows)


@pytest.mark.parametrize("tree", LINES)
def test_lines_stay_within_their_budget(tree: str) -> None:
    assert sum(path.read_text().count("\n") for path in sources(tree)) <= LINES[tree]


def test_doors_show_few_names() -> None:
    packages = [path.parent for path in sources("glaim_stream") if path.name == "__init__.py"]
    counts = {str(package.relative_to(ROOT)): len(shown(package) or []) for package in packages}
    assert sum(counts.values()) <= NAMES_SHOWN, counts


def test_a_class_name_is_used_once() -> None:
    names = Counter(
        node.name
        for tree in PRODUCT
        for path in sources(tree)
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    twice = {name: count for name, count in names.items() if count > 1}
    assert len(twice) <= CLASSES_OF_ONE_NAME, twice


def test_the_map_names_every_package_and_no_other() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = text[text.index("| room |") : text.index("| to find |")].splitlines()[2:]
    named = {name for row in rows if row.startswith("|") for name in re.findall(r"`([\w.]+)`", row.split("|")[1])}
    packages = {
        ".".join(path.relative_to(ROOT / "glaim_stream").parts[:-1])
        for path in sources("glaim_stream")
        if path.name == "__init__.py"
    }
    assert named == rooms("glaim_stream") | packages - {""}
