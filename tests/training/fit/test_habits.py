"""`training.fit --model habits` adds what is usual of the sensors to a closed form, which keeps its bits."""

from pathlib import Path

import numpy as np
import pytest

from glaim_stream.core.trust import Trust
from glaim_stream.form import ClosedForm, artefact
from glaim_stream.health import Habits, with_habits
from glaim_stream.health.stored import unpack
from glaim_stream.models import place_form, read_sealed_form
from tests.training.conftest import write_wide
from training.fit import command as fit


def arguments(path: Path, tmp_path: Path, model: str, *more: str) -> list[str]:
    places = ["--data", str(path), "--out", str(tmp_path / "run"), "--model-repo", str(tmp_path / "repo")]
    return ["--name", "mine", *places, "--set=model.window=32", "--model", model, *more]


def habits_in(content: bytes) -> Habits:
    found = unpack(artefact.from_bytes(content, "f"), ClosedForm.from_bytes(content, "f"))
    assert found is not None
    return found


@pytest.fixture
def stripped(wide_csv: Path, tmp_path: Path) -> tuple[Path, bytes, bytes]:
    """A model's folder with a closed form without habits, its content, and what it was with them."""
    assert fit.main(arguments(wide_csv, tmp_path, "gaussian")) == 0
    folder = tmp_path / "repo" / "mine"
    whole = (folder / "gaussian.npz").read_bytes()
    plain = with_habits(whole, None)
    assert plain != whole
    place_form(folder, plain)
    return folder, plain, whole


def test_habits_are_added_to_a_form_as_a_fit_writes_them(
    wide_csv: Path, tmp_path: Path, stripped: tuple[Path, bytes, bytes]
) -> None:
    folder, plain, whole = stripped
    assert fit.main(arguments(wide_csv, tmp_path, "habits")) == 0
    found = read_sealed_form(folder, Trust(require_manifest=True))
    assert found == whole
    assert with_habits(found, None) == plain, "the form keeps its bits"


def test_lost_readings_raise_the_number_of_gaps_that_is_usual(
    wide_csv: Path, tmp_path: Path, stripped: tuple[Path, bytes, bytes]
) -> None:
    folder, plain, whole = stripped
    assert fit.main(arguments(wide_csv, tmp_path, "habits", "--lose", "0.2")) == 0
    found = (folder / "gaussian.npz").read_bytes()
    assert (habits_in(found).unit["gaps"] > habits_in(whole).unit["gaps"]).all()
    assert with_habits(found, None) == plain
    again = (folder / "gaussian.npz").read_bytes()
    assert fit.main(arguments(wide_csv, tmp_path, "habits", "--lose", "0.2")) == 0
    assert (folder / "gaussian.npz").read_bytes() == again, "the same readings are lost"
    assert np.array_equal(habits_in(again).lowest, habits_in(found).lowest)


def test_clocks_are_judged_where_the_streams_stamps_are_even(
    wide_csv: Path, tmp_path: Path, stripped: tuple[Path, bytes, bytes]
) -> None:
    folder, _, whole = stripped
    assert np.isinf(habits_in(whole).threshold["clock"]).all()
    assert fit.main(arguments(wide_csv, tmp_path, "habits", "--even-stamps")) == 0
    found = habits_in((folder / "gaussian.npz").read_bytes())
    np.testing.assert_array_equal(found.threshold["clock"] * found.unit["clock"], 0.02)


def test_without_a_form_there_is_nothing_to_add_habits_to(
    wide_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit.main(arguments(wide_csv, tmp_path, "habits")) == 2
    assert "found none; --model gaussian fits one" in capsys.readouterr().err
    assert not (tmp_path / "repo" / "mine" / "gaussian.npz").exists()


def test_habits_of_other_readings_than_the_forms_are_refused(
    tmp_path: Path, stripped: tuple[Path, bytes, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, plain, _ = stripped
    longer = write_wide(tmp_path / "longer.csv", rows=1000)
    assert fit.main(arguments(longer, tmp_path, "habits")) == 2
    assert "expected a closed form of readings until 2026-01-01T" in capsys.readouterr().err
    assert (folder / "gaussian.npz").read_bytes() == plain


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        ("gaussian", ["--lose", "0.1"], "--lose is for --model habits"),
        ("gaussian", ["--even-stamps"], "--even-stamps is for --model habits"),
        ("habits", ["--no-export"], "--no-export forbids it"),
    ],
)
def test_flags_that_contradict_it_are_refused(
    wide_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str, more: list[str], message: str
) -> None:
    assert fit.main(arguments(wide_csv, tmp_path, model, *more)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("share", ["1", "-0.1", "x"])
def test_a_share_that_is_none_is_refused(share: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fit.main(["f.csv", "--model", "habits", "--lose", share])
    assert "expected a share from 0 to below 1" in capsys.readouterr().err
