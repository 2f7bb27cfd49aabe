"""The closed form as the stream uses it: interface, file, bounds."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.errors import ModelError, WindowShapeError
from glaim_stream.form import artefact
from glaim_stream.form.form import ClosedForm
from glaim_stream.form.variant import Variant
from tests.form.samples import STEP_MS, STEPS, fitted, series, windows


@pytest.fixture(scope="module")
def form() -> ClosedForm:
    return replace(fitted(series(habit=1.0)).form, dark_steps=None)  # see test_dark_steps.py


def holes(shape: tuple[int, ...], share: float = 0.3, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) >= share


def test_observed_cells_keep_their_bits_and_holes_are_filled_well(form: ClosedForm) -> None:
    values, end_ms = windows(series(seed=2, habit=1.0))
    observed = holes(values.shape)
    found = form.fill(np.where(observed, values, np.nan), observed, end_ms)
    assert (found.mean[observed].view(np.int64) == values[observed].view(np.int64)).all()
    assert (found.deviation[observed] == 0).all()
    error = (found.mean - values)[~observed]
    assert np.sqrt(np.mean(error**2)) < 0.3
    assert 0.8 < np.mean(np.abs(error) < 1.645 * found.deviation[~observed]) < 0.97


@pytest.mark.parametrize("newest", [1, 3, STEPS])
def test_the_newest_steps_alone_have_the_values_of_whole_windows(form: ClosedForm, newest: int) -> None:
    values, end_ms = windows(series(seed=3, habit=1.0))
    observed = holes(values.shape)
    whole, part = form.fill(values, observed, end_ms), form.fill(values, observed, end_ms, newest=newest)
    np.testing.assert_allclose(part.mean, whole.mean[:, :, -newest:], rtol=1e-9)
    np.testing.assert_allclose(part.deviation, whole.deviation[:, :, -newest:], rtol=1e-6)


@pytest.mark.parametrize("share", [0.1, 0.7])
def test_means_alone_are_those_with_deviations(form: ClosedForm, share: float) -> None:
    values, end_ms = windows(series(seed=3, habit=1.0))
    observed = holes(values.shape, share)
    whole, alone = (form.fill(values, observed, end_ms, with_deviation=each) for each in (True, False))
    np.testing.assert_allclose(alone.mean, whole.mean, rtol=1e-9)
    assert np.isnan(alone.deviation[~observed]).all()
    assert (alone.deviation[observed] == 0).all()


@pytest.mark.parametrize("steps", [(0,), (0, 5), tuple(range(9))])
def test_steps_that_are_asked_for_have_the_values_of_all_and_others_none(
    form: ClosedForm, steps: tuple[int, ...]
) -> None:
    values, end_ms = windows(series(seed=3, habit=1.0))
    observed = holes(values.shape)
    observed[:10, :, -9:] = True
    asked = np.isin(np.arange(9), steps)
    whole, part = (form.fill(values, observed, end_ms, newest=9, asked=each) for each in (None, asked))
    np.testing.assert_allclose(part.mean[:, :, asked], whole.mean[:, :, asked], rtol=1e-9)
    np.testing.assert_allclose(part.deviation[:, :, asked], whole.deviation[:, :, asked], rtol=1e-6)
    assert np.isnan(part.mean[:, :, ~asked]).all()
    assert np.isnan(part.deviation[:, :, ~asked]).all()


def test_a_window_without_a_hole_in_a_step_that_is_asked_for_costs_nothing(
    form: ClosedForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, end_ms = windows(series(seed=3, habit=1.0), 4)
    observed = np.ones(values.shape, np.bool_)
    observed[:3, 0, -3] = False
    observed[3, 0, -1] = False
    counts = []
    original = Variant.fill

    def counted(variant: Variant, values: np.ndarray, *rest: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        counts.append(len(values))
        return original(variant, values, *rest, **options)

    monkeypatch.setattr(Variant, "fill", counted)
    found = form.fill(values, observed, end_ms, newest=3, asked=np.array([False, False, True]))
    assert set(counts) == {1}
    np.testing.assert_array_equal(found.mean[:3, :, -1], values[:3, :, -1])
    assert np.isfinite(found.mean[3, :, -1]).all()


def test_a_saved_form_is_the_same_form(form: ClosedForm, tmp_path: Path) -> None:
    form.save(tmp_path)
    loaded = ClosedForm.load(tmp_path)
    values, end_ms = windows(series(seed=4))
    observed = holes(values.shape)
    assert loaded.digest == form.digest
    stable = artefact.digest_of({"b": np.arange(3, dtype="<i8"), "a": np.ones((2, 1), "<f4")})
    assert stable == "c277939e75ff5371cf77c835d355901447c9c3e8c84a7f133d5a4f8dc95ebbcd", (
        "released forms keep their digest"
    )
    assert (loaded.sensors, loaded.steps, loaded.step_ms) == (("s0", "s1", "s2"), STEPS, STEP_MS)
    np.testing.assert_array_equal(loaded.fill(values, observed, end_ms).mean, form.fill(values, observed, end_ms).mean)
    assert [path.name for path in tmp_path.iterdir()] == [artefact.FILE]


def test_an_absent_file_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="found none"):
        ClosedForm.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 and no more"])
def test_another_file_is_a_model_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / artefact.FILE).write_bytes(content)
    with pytest.raises(ModelError, match="not a closed form"):
        ClosedForm.load(tmp_path)


def test_a_file_with_pickles_is_a_model_error(tmp_path: Path) -> None:
    np.savez(tmp_path / artefact.FILE, digest=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ModelError, match="not a closed form"):
        ClosedForm.load(tmp_path)


def test_every_flipped_byte_is_noticed_or_harmless(form: ClosedForm, tmp_path: Path) -> None:
    form.save(tmp_path)
    path = tmp_path / artefact.FILE
    content = bytearray(path.read_bytes())
    for place in np.random.default_rng(6).integers(len(content), size=60).tolist():
        broken = content.copy()
        broken[place] ^= 0x10
        path.write_bytes(broken)
        try:
            digest = ClosedForm.load(tmp_path).digest
        except ModelError:
            continue
        assert digest == form.digest


def test_arrays_that_do_not_fit_are_a_model_error(form: ClosedForm, tmp_path: Path) -> None:
    form.save(tmp_path)
    arrays = artefact.read(tmp_path)
    text = json.loads(arrays["text"].tobytes())
    for change in ({"span": 7}, {"sensors": ["one"]}, {"variants": [{}]}, {"kinds": ["bird"]}, {"schema": 9}):
        other = json.dumps(text | change).encode()
        artefact.write(tmp_path, arrays | {"text": np.frombuffer(other, np.uint8)})
        with pytest.raises(ModelError):
            ClosedForm.load(tmp_path)


def test_windows_of_another_shape_are_refused(form: ClosedForm) -> None:
    values = np.zeros((2, 3, STEPS + 1))
    with pytest.raises(WindowShapeError, match="expected windows"):
        form.fill(values, values == 0, np.zeros(2, np.int64))
    values = np.zeros((2, 3, STEPS))
    with pytest.raises(WindowShapeError, match="newest"):
        form.fill(values, values == 0, np.zeros(2, np.int64), newest=STEPS + 1)
    with pytest.raises(WindowShapeError, match=r"asked must have 3 steps, found the shape \(4,\)"):
        form.fill(values, values == 0, np.zeros(2, np.int64), newest=3, asked=np.ones(4, np.bool_))


def test_no_windows_are_no_answers(form: ClosedForm) -> None:
    found = form.fill(np.zeros((0, 3, STEPS)), np.zeros((0, 3, STEPS), np.bool_), np.zeros(0, np.int64))
    assert found.mean.shape == (0, 3, STEPS)
