"""Draws small changes of the code and counts those that the unit tests notice: `python -m tests.mutants --seed 7`.

At least eight changes are drawn from each package of more than 500 lines, at most one a line, by turns from every kind
of change. Tuned numbers at the top of a module, types, texts and what is only logged stay as they are. In a copy of the
checkout, the unit tests of the module's folder run on each change, without a broker or a Triton, until one fails: those
named after the module first, then those that mention it, then the shorter ones. build/mutants.jsonl keeps the outcomes;
the next run goes on there.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import importlib
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

from deploy.cache import CHECKOUT

_COPY = "GLAIM_MUTANTS_OF"  # names the checkout in the process that works in a copy of it
SKIPPED = "skipped"  # where the tests took too long
_LARGE = (
    "hypothesis numpy pandas polars pyarrow.compute pyarrow.parquet pydantic_settings torch tritonclient.grpc faust"
)
_LEAST_LINES, _LEAST_CHANGES = 500, 8  # of a package
_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


class Change(NamedTuple):
    """One change of a module: `new` instead of its bytes from `start` to `end`."""

    module: str
    line: int
    kind: str
    text: str
    start: int
    end: int
    new: str

    def of(self, source: str) -> str:
        """The source with the change."""
        content = source.encode()
        return (content[: self.start] + self.new.encode() + content[self.end :]).decode()

    @property
    def name(self) -> str:
        """Tells it from every other change."""
        return f"{self.module}:{self.line} {self.text}"


def changes_of(module: str, source: str) -> Iterator[Change]:
    """Yield the changes of a module."""
    begins = [0]
    for line in source.encode().splitlines(keepends=True):
        begins.append(begins[-1] + len(line))

    def change(kind: str, first: Any, last: Any, new: str) -> Change:
        start = begins[first.lineno - 1] + first.col_offset
        end = begins[last.end_lineno - 1] + last.end_col_offset
        old = source.encode()[start:end].decode()
        lost = "\n" * (old.count("\n") - new.count("\n"))  # functions keep their first lines
        new = f"{new[:-1]}{lost})" if new.endswith(")") and new.startswith("(") else new + lost
        text = " -> ".join(" ".join(each.split())[:70] for each in (old, new))
        return Change(module, first.lineno, kind, text, start, end, new)

    for node in _nodes(ast.parse(source), top=True):
        for kind, other in _variants(node):
            new = ast.unparse(other)
            yield change(kind, node, node, f"({new})" if isinstance(other, ast.expr) and kind != "slice moved" else new)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, [])
            for first, second in pairwise(block if isinstance(block, list) else []):
                if _called(first) and _called(second):
                    new = f"{ast.unparse(second)}; {ast.unparse(first)}"
                    yield change("calls swapped", first, second, new)


def _nodes(node: ast.AST, *, top: bool = False) -> Iterator[Any]:
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            tuned = top and isinstance(child, ast.Assign | ast.AnnAssign)
            said = isinstance(child, ast.JoinedStr | ast.Raise) or _called(child).startswith(
                ("log.", "Field", "typer.")
            )
            type_ = field in ("annotation", "returns", "decorator_list", "type_params")
            if isinstance(child, ast.AST) and not (tuned or said or type_):
                if hasattr(child, "lineno"):
                    yield child
                yield from _nodes(child)


def _variants(node: Any) -> Iterator[tuple[str, ast.AST]]:
    op = getattr(node, "op", None)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER:
        yield "comparison", _with(node, ops=[_OTHER[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(op) in _OTHER:
        yield "and or" if isinstance(node, ast.BoolOp) else "arithmetic", _with(node, op=_OTHER[type(op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(op, ast.Not):
        yield "not dropped", node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield from (("number", ast.Constant(node.value + by)) for by in (-1, 1))
    elif isinstance(node, ast.Slice):
        for name in ("lower", "upper"):
            if (bound := getattr(node, name)) is not None:
                yield "slice moved", _with(node, **{name: ast.BinOp(bound, ast.Add(), ast.Constant(1))})
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Compare | ast.BoolOp):
        yield "return negated", ast.Return(ast.UnaryOp(ast.Not(), node.value))
    elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield "return None", ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Expr) and _called(node):
        yield "call dropped", ast.Pass()
    elif isinstance(node, ast.Call):
        for index in range(len(node.keywords)):
            yield "keyword dropped", _with(node, keywords=[*node.keywords[:index], *node.keywords[index + 1 :]])


def _with(node: Any, **fields: Any) -> Any:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _called(node: Any) -> str:
    """The name of what a statement or an expression calls; empty where it is no call."""
    call = node.value if isinstance(node, ast.Expr) else node
    call = call.value if isinstance(call, ast.Await) else call
    return ast.unparse(call.func) if isinstance(call, ast.Call) else ""


def package_of(module: str) -> str:
    """The package of a module; the modules at the top are one."""
    return module.split("/")[1] if module.count("/") > 1 else "(top)"


def draw(sources: dict[str, str], count: int, seed: int) -> list[Change]:
    """Draw changes: of each package by its lines, but not fewer than the least, and by turns of every kind."""
    rng, chosen, lines = random.Random(seed), list[Change](), Counter[str]()
    for module, source in sources.items():
        lines[package_of(module)] += source.count("\n")
    for package in sorted(lines):
        kinds: dict[str, list[Change]] = defaultdict(list)
        for module in sorted(each for each in sources if package_of(each) == package):
            for change in changes_of(module, sources[module]):
                kinds[change.kind].append(change)
        wanted = max(round(count * lines[package] / lines.total()), (lines[package] > _LEAST_LINES) * _LEAST_CHANGES)
        order, taken = rng.sample(sorted(kinds), len(kinds)), set[tuple[str, int]]()
        while len(taken) < wanted and any(kinds.values()):
            for kind in order:
                kinds[kind] = [each for each in kinds[kind] if each[:2] not in taken]
                if kinds[kind] and len(taken) < wanted:
                    chosen.append(rng.choice(kinds[kind]))
                    taken.add(chosen[-1][:2])
    rng.shuffle(chosen)
    return chosen


def tests_of(module: str) -> list[str]:
    """The unit test files of a module's package, those first that are most likely to notice a change of it."""
    path, tests = Path(module), CHECKOUT / "tests"
    own = tests.joinpath(*path.parts[1:-1]).rglob("test_*.py") if len(path.parts) > 2 else ()
    files = {*own, *(each for each in tests.rglob(f"test_{path.stem}.py") if "integration" not in each.parts)}

    def rank(file: Path) -> tuple[bool, bool, int]:
        mentioned = re.search(rf"\b{path.stem}\b", file.read_text())
        return file.name != f"test_{path.stem}.py", mentioned is None, file.stat().st_size

    return [str(each.relative_to(CHECKOUT)) for each in sorted(files, key=rank)]


class _Watch:
    """A pytest plugin: leaves out what needs a server, and notes the first failure."""

    failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [each for each in items if not {"kafka", "triton"} & set(getattr(each, "fixturenames", ()))]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or (report.nodeid if report.failed else "")


def _changed_here(path: str, line: int, source: str) -> bool:
    """Give the functions of a module, wherever they are in use, the code of a changed source: is that enough?"""
    codes, made = [compile(source, path, "exec")], dict[tuple[str, int], CodeType]()
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
        made[code.co_qualname, code.co_firstlineno] = code
    inside = False
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename == path:
            code = made[each.__code__.co_qualname, each.__code__.co_firstlineno]
            inside |= line in {at for _, _, at in code.co_lines()} | {at for _, _, at in each.__code__.co_lines()}
            each.__code__ = code
    return inside


def _run(files: list[str], seconds: int, change: Change | None, source: str, into: Any) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    for descriptor in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    enough = change is None
    with contextlib.suppress(ValueError, KeyError):  # other free variables
        enough = change is None or _changed_here(str(CHECKOUT / change.module), change.line, source)
    for name in [] if enough else list(sys.modules):
        if name.partition(".")[0] in ("tests", "glaim_stream", "deploy", "training"):
            del sys.modules[name]
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "--assert=plain", "--timeout=60"]
    options += ["-m", "not slow and not chaos and not cluster", f"--basetemp={CHECKOUT}.tmp"]
    for file in files:
        watch = _Watch()
        if pytest.main([*options, file], plugins=[watch]) not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            into.send(watch.failed or file)
            os._exit(1)
    into.send("")
    os._exit(0)


def outcome(files: list[str], seconds: int, change: Change | None = None, source: str = "") -> str:
    """Run tests in a process of their own: the first that fails, "" if none does, SKIPPED if they take too long."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    args = (files, seconds, change, source, theirs)
    process = multiprocessing.get_context("fork").Process(target=_run, args=args)
    process.start()
    process.join(10 * seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    return ours.recv() if ours.poll() else SKIPPED


def main() -> None:
    """Try the changes of a draw that have no outcome yet; print a table, and the changes that survive."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="changes in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="chooses them (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="time limit (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=90, help="of CPU for the tests of one (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="try those again that survived or were skipped")
    options = parser.parse_args()
    if _COPY not in os.environ:  # start again in a copy of the checkout
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            copied = shutil.ignore_patterns(".*", "build", "dist", "__pycache__")
            shutil.copytree(CHECKOUT, f"{folder}/copy", ignore=copied)
            fixed = {"OMP_NUM_THREADS": "1", "CI": "mutants", "PYTHONDONTWRITEBYTECODE": "1", _COPY: str(CHECKOUT)}
            command = [sys.executable, "-m", "tests.mutants", *sys.argv[1:]]
            raise SystemExit(subprocess.call(command, cwd=f"{folder}/copy", env=os.environ | fixed))
    results = Path(os.environ[_COPY]) / "build" / "mutants.jsonl"
    results.parent.mkdir(exist_ok=True)
    sources = {str(each.relative_to(CHECKOUT)): each.read_text() for each in (CHECKOUT / "glaim_stream").rglob("*.py")}
    drawn = draw(sources, options.count, options.seed)
    lines = results.read_text().splitlines() if results.exists() else []
    known = {line["change"]: line["failed"] for line in map(json.loads, lines)}
    again = ("", SKIPPED) if options.again else ()
    left = [each for each in drawn if each.name not in known or known[each.name] in again]
    print(f"{len(drawn)} changes, {len(left)} to try", flush=True)
    for name in _LARGE.split() + [each[:-3].replace("/", ".") for each in sources if not each.endswith("__.py")]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    end_s = time.monotonic() + options.minutes * 60
    with results.open("a") as file:
        for change in left:
            if time.monotonic() > end_s:
                break
            source = change.of(sources[change.module])
            (CHECKOUT / change.module).write_text(source)
            known[change.name] = outcome(tests_of(change.module), options.seconds, change, source)
            (CHECKOUT / change.module).write_text(sources[change.module])
            file.write(json.dumps({"change": change.name, "failed": known[change.name]}) + "\n")
            file.flush()
    failed = {known.get(each.name, "") for each in drawn} - {"", SKIPPED}
    while (unsound := outcome(sorted(failed), 3600)) not in ("", SKIPPED):
        print(f"{unsound} fails on the unchanged code: its outcomes do not count")
        failed.remove(unsound)
        known = {name: test for name, test in known.items() if test != unsound}
    print("\n| package | changes | noticed | % | skipped |\n|---|---:|---:|---:|---:|")
    for package in [*sorted({package_of(each) for each in sources}), "all"]:
        ours = [each.name for each in drawn if package in ("all", package_of(each.module)) and each.name in known]
        skipped = sum(known[each] == SKIPPED for each in ours)
        noticed, tried = sum(known[each] not in ("", SKIPPED) for each in ours), len(ours) - skipped
        print(f"| {package} | {tried} | {noticed} | {100 * noticed / max(tried, 1):.0f} | {skipped} |")
    print(
        "\n"
        + "\n".join(
            sorted(f"{each.name} {known[each.name]}" for each in drawn if known.get(each.name) in ("", SKIPPED))
        )
    )


if __name__ == "__main__":
    main()
