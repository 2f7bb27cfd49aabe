"""The forms of programs and archives that `docs/forms.md` lists are filled in their holes alone."""

import re
from pathlib import Path

import numpy as np
import pytest

from glaim_stream.commands.fill import ReadFlags, WriteFlags, fill_file
from glaim_stream.core.times import text_of_ms
from glaim_stream.files import read
from tests.files.forms import FORMS, HOLES, Form

PAGE = Path(__file__).parents[2] / "docs" / "forms.md"
FLAGS = {"--time": "time", "--date-order": "date_order"}


@pytest.mark.parametrize("form", [pytest.param(each, id=f"{each.program} {each.name}") for each in FORMS])
def test_a_form_is_read_and_filled_in_its_holes_alone(
    form: Form, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = {FLAGS[flag]: value for flag, value in zip(form.flags[::2], form.flags[1::2], strict=True)}
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(form.text(), encoding="utf-8")
    reading = read(source, **stated)
    assert [each for each in reading.form.sensors if each in form.sensors] == list(form.sensors)
    assert (text_of_ms(reading.form.first_ms), reading.form.step_ms) == (form.first, form.step * 60_000)
    empty = np.isnan(reading.values) & ~reading.kept
    assert (int(empty[:, reading.timed].sum()), int(reading.kept.sum())) == (form.holes, 0)
    if reading.sensor_of_row is None:  # others, such as the number of a station, are constants
        for sensor, values in zip(reading.form.sensors, reading.values, strict=True):
            assert sensor in form.sensors or len(np.unique(values[~np.isnan(values)])) == 1

    fill_file(str(source), ReadFlags(**stated), WriteFlags(out=str(out)))
    assert f"holes: {form.holes}, of which {form.holes} are filled" in capsys.readouterr().out
    before, after = (path.read_text(encoding="utf-8").splitlines() for path in (source, out))
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    rows = form.with_holes()
    assert sorted(old for old, _ in changed) == sorted(rows)
    numbers = re.compile(r"-?\d+[.,]\d+")
    for old, new in changed:
        assert len(numbers.findall(new)) > len(numbers.findall(old.replace("-999.0", "")))
    assert len(changed) == (2 if form.holes == 2 else sum(map(len, HOLES.values())))


def table() -> str:
    """The table of the page."""
    rows = [
        f"| {each.program} | {each.name} | {' '.join(each.flags) and '`' + ' '.join(each.flags) + '`'} |"
        for each in FORMS
    ]
    return "\n".join(["| program or archive | form | flags |", "|---|---|---|", *rows])


def test_the_page_lists_the_forms_that_are_tested() -> None:
    assert table() in PAGE.read_text(), f"expected this table in {PAGE.name}:\n{table()}"
    assert len(FORMS) >= 45
    assert len({each.program for each in FORMS}) >= 25
