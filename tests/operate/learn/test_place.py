"""A new closed form takes the place of the one in use only where it is better on rows that neither has seen."""

import re
from pathlib import Path

import numpy as np
import pytest

from glaim_stream.core.catalogue import Model
from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.feed.plant import STEP_MS, simulate
from glaim_stream.form import ClosedForm, FormSeries, Kind, fit
from glaim_stream.imputers import WatchedForm
from glaim_stream.models import open_store, release
from glaim_stream.models.form_manifest import FORM_MANIFEST
from glaim_stream.models.hold import hold
from glaim_stream.operate.learn.place import IN_USE, NEW, Learned, learn
from tests.support import catalogue

WINDOW = 12
PLANT = simulate(0.25, groups=3, seed=1)
SENSORS = PLANT.sensor_ids[:3]
VALUES = PLANT.values[:, :3].astype(np.float64)
START_MS = int(PLANT.times_ms[0])


def model(**changes: object) -> Model:
    entry: dict[str, object] = {"sensors": [{"id": name} for name in SENSORS], "window": WINDOW, "step_s": 60}
    (found,) = catalogue(**(entry | {"revise_after": 2, "max_gap": 6} | changes)).models  # type: ignore[arg-type]
    return found


def rows(first: int, last: int, *, values: np.ndarray = VALUES, silent: slice | None = None) -> FormSeries:
    """Rows of the plant; the second sensor has no readings in the rows `silent` of these."""
    part = values[:, :, first:last]
    observed = np.ones(part.shape, np.bool_)
    if silent is not None:
        observed[:, 1, silent] = False
    return FormSeries(part, observed, START_MS + first * STEP_MS, STEP_MS)


def learned(series: FormSeries, folder: Path, *, force: bool = False, dry_run: bool = False) -> Learned:
    return learn(series, model(), folder, force=force, dry_run=dry_run)


def test_the_first_form_beats_the_baselines_and_is_what_a_worker_reads(tmp_path: Path) -> None:
    done = learned(rows(0, 300), tmp_path / "m")
    assert (done.chosen, done.held) == (True, 24)
    watched = WatchedForm(tmp_path / "m", model(), Trust())
    assert watched.form is not None
    assert done.form is not None
    assert watched.form.digest == done.form.digest
    assert watched.form.until_ms == START_MS + 276 * STEP_MS  # placed as tried: it has not seen the newest rows
    assert set(done.errors) == {NEW, "interpolation", "last value"}
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [FORM_MANIFEST, FORM_FILE]


def noisy_form(folder: Path) -> None:
    """Place a form that was fitted to noise."""
    noise = np.random.default_rng(0).normal(size=VALUES.shape) * VALUES.std(axis=2, keepdims=True)
    fit(
        noise[:, :, :60], np.ones((3, 3, 60), np.bool_), start_ms=START_MS, step_ms=STEP_MS, sensors=SENSORS,
        steps=WINDOW,
    ).form.save(folder)  # fmt: skip


def test_a_better_form_replaces_the_one_in_use(tmp_path: Path) -> None:
    noisy_form(tmp_path)
    before = ClosedForm.load(tmp_path).digest
    done = learned(rows(0, 300), tmp_path)
    assert done.chosen, done.reason
    assert ClosedForm.load(tmp_path).digest != before
    assert IN_USE in done.errors


def test_a_worse_form_is_not_placed_unless_it_is_forced(tmp_path: Path) -> None:
    assert learned(rows(0, 240), tmp_path).chosen
    before = (tmp_path / FORM_FILE).read_bytes()
    values = VALUES.copy()
    values[:, :, 100:240] = np.random.default_rng(1).normal(size=(3, 3, 140)) * 50
    broken = rows(100, 300, values=values)
    done = learned(broken, tmp_path)
    assert not done.chosen
    assert "not better than the form in use" in done.reason
    assert (tmp_path / FORM_FILE).read_bytes() == before
    assert learned(broken, tmp_path, force=True, dry_run=True).chosen
    assert (tmp_path / FORM_FILE).read_bytes() == before
    assert learned(broken, tmp_path, force=True).chosen
    assert (tmp_path / FORM_FILE).read_bytes() != before


def test_a_form_that_lost_a_sensor_is_not_placed_unless_it_is_forced(tmp_path: Path) -> None:
    noisy_form(tmp_path)
    before = (tmp_path / FORM_FILE).read_bytes()
    without = rows(60, 360, silent=slice(0, None))
    done = learned(without, tmp_path)
    assert not done.chosen
    assert done.reason == (
        "better than the form in use on the newest 24 rows; the form in use knows sensors that have no reading in the "
        f"training rows ({SENSORS[1]}): --force places it all the same"
    )
    assert (tmp_path / FORM_FILE).read_bytes() == before
    forced = learned(without, tmp_path, force=True)
    assert forced.chosen
    assert "--force" not in forced.reason
    assert SENSORS[1] not in learned(without, tmp_path).reason  # the form in use does not know it either


def test_a_form_that_was_not_tried_on_a_sensor_is_not_placed(tmp_path: Path) -> None:
    noisy_form(tmp_path)
    done = learned(rows(60, 360, silent=slice(270, None)), tmp_path)
    assert not done.chosen
    assert f"have no reading in the rows of the trial ({SENSORS[1]})" in done.reason
    assert learned(rows(60, 360), tmp_path, dry_run=True).chosen


def test_rows_that_the_form_in_use_has_seen_do_not_decide(tmp_path: Path) -> None:
    form = fit(
        VALUES[:, :, :300], np.ones((3, 3, 300), np.bool_), start_ms=START_MS, step_ms=STEP_MS, sensors=SENSORS,
        steps=WINDOW,
    ).form  # fmt: skip
    form.save(tmp_path)
    done = learned(rows(0, 307), tmp_path)
    assert (done.chosen, done.form) == (False, None)
    assert done.reason == "too few rows that the form in use has not seen: 5 more are needed"
    assert learned(rows(0, 312), tmp_path).held == WINDOW


def test_too_few_rows_are_an_error_that_states_how_many_more_are_needed(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=re.escape("trial need 36 rows, found 30: 6 more are needed")):
        learned(rows(0, 30), tmp_path)
    with pytest.raises(ModelError, match=re.escape("needs 24 rows, found 20: 4 more are needed")):
        learned(rows(0, 20), tmp_path, force=True)
    assert learned(rows(0, 30), tmp_path, force=True).reason.startswith("not tried")
    assert ClosedForm.load(tmp_path).until_ms == START_MS + 30 * STEP_MS


def test_a_file_that_workers_refuse_is_replaced_and_named(tmp_path: Path) -> None:
    (tmp_path / FORM_FILE).write_bytes(b"half of a")
    done = learned(rows(0, 300), tmp_path)
    assert done.chosen
    assert "is not a closed form" in done.problem
    other = learn(rows(0, 300), model(window=24, max_gap=12), tmp_path)
    assert other.chosen
    assert "another window" in other.problem


def test_a_dry_run_creates_nothing(tmp_path: Path) -> None:
    assert learned(rows(0, 300), tmp_path / "m", dry_run=True).chosen
    assert list(tmp_path.iterdir()) == []


def test_the_first_form_can_be_placed_before_a_trial_and_the_next_one_is_tried(tmp_path: Path) -> None:
    first = learn(rows(0, 24), model(), tmp_path, untried=True)
    assert (first.chosen, first.held) == (True, 0)
    assert ClosedForm.load(tmp_path).until_ms == START_MS + 24 * STEP_MS
    assert not learn(rows(0, 30), model(), tmp_path, untried=True).chosen
    second = learn(rows(0, 48), model(), tmp_path, untried=True)
    assert second.held == WINDOW
    assert IN_USE in second.errors


def test_with_rows_for_a_trial_the_first_form_is_tried(tmp_path: Path) -> None:
    noise = np.random.default_rng(2).normal(size=VALUES.shape).cumsum(axis=2)
    done = learn(rows(0, 60, values=noise), model(), tmp_path, untried=True)
    assert done.held == WINDOW
    assert done.errors


def test_a_model_that_is_held_after_a_rollback_learns_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "m"
    store = open_store(str(folder.parent))
    hold(store, "m", [8], 7, now_ms=0)
    with pytest.raises(ModelError, match=r"m is held at version 7 since 1970-01-01.*models release"):
        learned(rows(0, 300), folder)
    assert not (folder / FORM_FILE).exists()
    assert learned(rows(0, 300), folder, dry_run=True).form is not None
    release(store, "m")
    assert learned(rows(0, 300), folder).chosen
    assert (folder / FORM_FILE).exists()


def test_what_the_catalogue_declares_a_direction_is_learned_as_one(tmp_path: Path) -> None:
    """Also where the wind has not turned through north yet."""
    sensors = [{"id": SENSORS[0], "min": 0, "max": 360}, *({"id": name} for name in SENSORS[1:])]
    done = learn(rows(0, 300), model(sensors=sensors), tmp_path / "m")
    assert done.form is not None
    assert done.form.kinds[0] is Kind.ANGLE
    assert Kind.ANGLE not in done.form.kinds[1:]


def test_decimals_are_placed_with_the_form_and_replaced_with_it(tmp_path: Path) -> None:
    watched = WatchedForm(tmp_path, model(), Trust())
    assert watched.decimals is None
    for last, decimals in ((240, np.array([2, -1, 0], np.int8)), (360, None)):
        done = learn(rows(0, last), model(), tmp_path, decimals=decimals, force=True)
        watched.refresh()
        assert watched.form is not None
        assert done.form is not None
        assert watched.form.digest == done.form.digest
        assert (None if watched.decimals is None else watched.decimals.tolist()) == (
            None if decimals is None else decimals.tolist()
        )
