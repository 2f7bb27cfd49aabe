"""The groups of tests that take turns in CI: each test is in one, and each group is drawn."""

import itertools
import random
import re
import subprocess
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT
from tests.turns import TURN_FILE, advance, number_of_landing

MARKERS = ("slow", "chaos", "short", "cluster")
GROUPS = "GROUPS := "


def commands(*targets: str) -> list[str]:
    """The calls of pytest that make would run for some targets."""
    listed = subprocess.run(
        ["make", "--dry-run", "--always-make", *targets], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout
    return [line for line in listed.replace("\\\n", "").splitlines() if "-m pytest" in line]


def groups() -> list[str]:
    makefile = (CHECKOUT / "Makefile").read_text().splitlines()
    return next(line for line in makefile if line.startswith(GROUPS)).removeprefix(GROUPS).split()


def test_all_tests_are_those_of_every_change_and_of_the_groups() -> None:
    expected = [re.sub(r"-n \d", "", each) for each in commands("test", *groups())]
    assert len(expected) == 1 + len(groups())
    assert [re.sub(r"-n \d", "", each) for each in commands("test-all")] == expected


def test_each_combination_of_markers_is_selected_by_a_group_or_runs_with_every_change() -> None:
    selections = []
    for command in commands("test", *groups()):
        expression = re.search(r"-m '?((?<=')[^']+|\w+)'?", command.partition("-m pytest")[2])
        assert expression is not None, command
        selections.append(expression[1])
    for holds in itertools.product([False, True], repeat=len(MARKERS)):
        markers = dict(zip(MARKERS, holds, strict=True))
        selected = [each for each in selections if eval(each, {}, markers)]
        assert selected, f"no command runs a test with {markers}"


def commit(folder: Path) -> None:
    git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "m"], check=True)


def test_three_landings_in_a_row_draw_all_groups_however_many_commits_they_have(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / ".ci").mkdir()
    commit(tmp_path)
    chance, drawn, commits = random.Random(0), [], 0
    while commits < 30:
        extra = chance.randrange(4)
        for _ in range(extra):
            commit(tmp_path)
        number = advance(tmp_path)
        commit(tmp_path)
        commits += extra + 1
        assert number_of_landing(tmp_path) == number
        drawn.append(number % len(groups()))
    assert all(len({*three}) == len(groups()) for three in zip(drawn, drawn[1:], drawn[2:], strict=False))


def test_the_hash_decides_where_the_turn_was_not_advanced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / ".ci").mkdir()
    (tmp_path / TURN_FILE).write_text("7\n")
    commit(tmp_path)
    first = number_of_landing(tmp_path)  # skips six landings
    commit(tmp_path)
    assert number_of_landing(tmp_path) not in (first, 7)
    assert "make next-turn" in capsys.readouterr().err
