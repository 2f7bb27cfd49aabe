"""The mutants of small sources, and the lookup of a module's unit tests."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.mutations import mutants
from tests.mutants.trial import digest_of, unit_tests_of


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("a < b", {"a < b -> a <= b"}),
        ("a is not None and b", {"a is not None and b -> a is not None or b", "a is not None -> a is None"}),
        ("x = not ready", {"not ready -> ready"}),
        ("n += k", {"n += k -> n -= k"}),
        ("size = 4", {"4 -> 3", "4 -> 5"}),
        ("ready = True", set()),
        ("wait(limit=None)", {"wait(limit=None) -> (nothing)", "wait(limit=None) -> wait()"}),
        ("def f():\n    return a", {"return a -> return None"}),
        ("def f():\n    return None", set()),
        ("async def f():\n    await flush()", {"await flush() -> (nothing)"}),
        ("def f(a: X | Y) -> A | B: ...", set()),
        ("raise ValueError(f'at most {limit - a}')", set()),
        ("if TYPE_CHECKING:\n    size = 4", set()),
    ],
)
def test_each_construct_yields_its_changes(source: str, changes: set[str]) -> None:
    assert {mutant.change for mutant in mutants(source)} == changes


def test_a_mutant_differs_from_its_module_in_one_line_only() -> None:
    source = "def f(a, b):\n    if a < b:\n        return a + 1\n    return b\n"
    found = [mutant.source for mutant in mutants(source)]
    assert len(set(found)) == len(found) == 6
    assert source not in found
    original = source.splitlines()
    for each in found:
        ast.parse(each)
        assert sum(line != other for line, other in zip(original, each.splitlines(), strict=True)) == 1


def test_the_same_seed_draws_the_same_sample() -> None:
    source = "\n".join(f"x{number} = {number}" for number in range(50))
    sample = mutants(source, sample=10, seed="1")
    assert sample == mutants(source, sample=10, seed="1")
    assert sample != mutants(source, sample=10, seed="2")
    assert len(sample) == 10


def test_a_module_is_tested_by_the_folder_that_mirrors_its_package() -> None:
    first, *others = unit_tests_of(Path("glaim_stream/windows/clock.py"))
    assert first == Path("tests/windows/test_clock.py")
    assert Path("tests/windows/test_windows.py") in others
    assert unit_tests_of(Path("glaim_stream/output/records.py")) == [Path("tests/output/test_records.py")]
    assert unit_tests_of(Path("training/network/model.py"))[0] == Path("tests/training/network/test_model.py")
    assert unit_tests_of(Path("glaim_stream/__main__.py")) == []


def test_the_digest_of_a_trial_differs_between_modules() -> None:
    assert digest_of(Path("glaim_stream/windows/clock.py")) != digest_of(Path("glaim_stream/windows/rings.py"))
