"""The order of the test files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.file_order import in_order

ROOT = Path("/checkout")


def item(file: str, number: int = 1) -> Any:
    return SimpleNamespace(path=ROOT / "tests" / file, number=number)


def test_files_that_wait_alternate_with_files_that_compute_and_end_before_them() -> None:
    collected = [item(f"windows/test_{letter}.py") for letter in "abcdefgh"]
    collected += [item("integration/test_x.py"), item("chaos/test_y.py"), item("training/test_z.py")]
    names = [each.path.name for each in in_order(collected, ROOT)]
    assert names[:3] == ["test_y.py", "test_z.py", "test_a.py"], "the slowest folders first"
    assert sorted(names) == sorted(each.path.name for each in collected)
    assert 0 < names.index("test_x.py") < len(names) - 2


def test_the_tests_of_a_file_stay_together_and_in_their_order() -> None:
    collected = [item("a/test_a.py", 1), item("chaos/test_c.py"), item("a/test_a.py", 2), item("b/test_b.py")]
    order = [(each.path.name, each.number) for each in in_order(collected, ROOT)]
    assert order.index(("test_a.py", 2)) == order.index(("test_a.py", 1)) + 1


def test_a_run_of_one_kind_of_files_is_left_in_its_order() -> None:
    collected = [item("windows/test_b.py"), item("blend/test_a.py")]
    assert in_order(collected, ROOT) == collected
    assert in_order([], ROOT) == []
