"""What the commands give for files, and `impute` for tables, has not changed since `tests/golden/files.py` froze it."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.golden.files import FROZEN, cases, differences, output, present, slow

EXPECTED = json.loads(FROZEN.read_text())


@pytest.mark.parametrize("case", [pytest.param(each, marks=[pytest.mark.slow] * slow(each)) for each in cases()])
def test_the_output_for_a_file_is_the_frozen_one(case: str, tmp_path: Path) -> None:
    if not present(case):
        pytest.skip(f"no {case.split(' ')[1]} in the folder that GLAIM_DATA names")
    problems = differences(output(case, tmp_path), EXPECTED[case])
    assert not problems, "\n".join([case, *problems])


def test_the_frozen_output_has_holes_of_every_method_and_files_of_every_kind() -> None:
    assert EXPECTED.keys() == set(cases())
    filled = [each for each in EXPECTED.values() if "holes" in each]
    methods = Counter(hole.split(" ")[1] for each in filled for holes in each["holes"].values() for hole in holes)
    assert methods.keys() == {"gaussian", "interpolation", "last_value", "none", "doubtful"}
    assert min(methods.values()) > 20


def test_a_changed_cell_line_or_bound_is_named() -> None:
    frozen = EXPECTED["fill inches.csv"]
    line = frozen["lines"]["22"]
    for part, changed, message in (
        (
            "lines",
            frozen["lines"] | {"22": line.replace("10.75", "10.76")},
            "22, cell 3: before '10.75', after '10.76'",
        ),
        ("lines", {"23": frozen["lines"]["23"]}, f"lines 22: before {line!r}, after 'as in the input'"),
        ("holes", {"flow": frozen["holes"]["flow"][:1]}, f"before {frozen['holes']['flow'][1]!r}, after 'nothing'"),
        ("said", frozen["said"] | {"4": "time is 'at'"}, "said 4, cell 1: before \"time is 'time'\""),
        ("sha256", "0" * 64, "lines that the input has, too"),
        ("status", 1, "status: before 0, after 1"),
    ):
        assert message in "\n".join(differences(frozen | {part: changed}, frozen))
