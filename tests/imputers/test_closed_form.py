"""The rung of the closed form: whom it answers, with what, and how a new file is taken up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.core import metrics
from glaim_stream.core.angles import around
from glaim_stream.core.catalogue import Model
from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.errors import ImputerAbsent, ImputerError
from glaim_stream.core.trust import Trust
from glaim_stream.core.vocabulary import Method
from glaim_stream.feed.plant import STEP_MS, simulate
from glaim_stream.form import ClosedForm, Kind, fit, with_decimals
from glaim_stream.imputers.closed_form import CHECK_INTERVAL_S, ClosedFormImputer, WatchedForm, version_of
from glaim_stream.imputers.ladder import Ladder
from glaim_stream.imputers.protocol import Imputed, Windows
from glaim_stream.imputers.simple import Interpolation, interpolated
from glaim_stream.models import place_form
from tests.support import catalogue

WINDOW, STEPS = 24, 5
PLANT = simulate(0.5, groups=3, seed=1)
SENSORS = PLANT.sensor_ids[:3]
SERIES = PLANT.values[:, :3].astype(np.float64)


def model(**changes: object) -> Model:
    sensors = [{"id": name} for name in SENSORS]
    entry: dict[str, object] = {"sensors": sensors, "window": WINDOW, "step_s": 60, "revise_after": 4, "max_gap": 12}
    (found,) = catalogue(**(entry | changes)).models  # type: ignore[arg-type]
    return found


def whole(count: int, *, seed: int = 0) -> Windows:
    """Windows of the plant without holes."""
    random = np.random.default_rng(seed)
    group, end = random.integers(0, len(SERIES), count), random.integers(WINDOW, SERIES.shape[2], count)
    at = end[:, None] + np.arange(1 - WINDOW, 1)
    values = SERIES[group[:, None, None], np.arange(len(SENSORS))[:, None], at[:, None, :]]
    return Windows("m", values, np.ones(values.shape, np.bool_), STEPS, None, PLANT.times_ms[end])


def cut(count: int, *, seed: int = 0, share: float = 0.2) -> Windows:
    """The same windows with a share of the cells missing, and in some the newest 8 steps, or all, of a sensor."""
    full = whole(count, seed=seed)
    observed = np.random.default_rng(seed + 1).random(full.values.shape) >= share
    observed[::5, 1, -8:] = False
    observed[3::10, 2] = False
    return replace(full, values=np.where(observed, full.values, 0.0), observed=observed)


def reads(outcome: str) -> float:
    return REGISTRY.get_sample_value("glaim_form_reads_total", {"model": "m", "outcome": outcome}) or 0.0


def fitted(series: np.ndarray) -> ClosedForm:
    return fit(
        series, np.ones(series.shape, np.bool_), start_ms=int(PLANT.times_ms[0]), step_ms=STEP_MS, sensors=SENSORS,
        steps=WINDOW,
    ).form  # fmt: skip


@pytest.fixture(scope="module")
def form() -> ClosedForm:
    return fitted(SERIES)


@pytest.fixture(scope="module")
def other() -> ClosedForm:
    """A form of the same sensors, fitted on other data."""
    return fitted(SERIES + 1.0)


def placed(form: ClosedForm, repository: Path) -> Path:
    folder = repository / "m"
    folder.mkdir(exist_ok=True)
    form.save(folder)
    return folder


class Clock:
    """A monotonic clock that a test advances."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def test_holes_are_filled_with_a_value_and_a_deviation(form: ClosedForm, tmp_path: Path) -> None:
    placed(form, tmp_path)
    windows = cut(40)
    answer = await ClosedFormImputer(tmp_path, [model()]).impute(windows)
    hole = ~windows.observed[..., -STEPS:]
    assert (answer.method == Method.GAUSSIAN).all()
    assert answer.version == [version_of(form)] * 40
    assert answer.version[0] == f"gaussian-{form.digest[:8]}"
    assert answer.deviation is not None
    assert (answer.deviation[hole] > 0).all()
    np.testing.assert_array_equal(answer.values[~hole], windows.values[..., -STEPS:][~hole])


async def test_the_error_is_below_that_of_interpolation(form: ClosedForm, tmp_path: Path) -> None:
    placed(form, tmp_path)
    windows, truth = cut(200), whole(200)
    hole = ~windows.observed[..., -STEPS:]
    answer = await ClosedFormImputer(tmp_path, [model()]).impute(windows)
    line = (await Interpolation().impute(windows)).values
    hole &= np.isfinite(line)  # interpolation has no value for a sensor that is silent in the whole window
    scale = SERIES.std(axis=(0, 2))[:, None]
    errors = [np.abs((each - truth.values[..., -STEPS:]) / scale)[hole].mean() for each in (answer.values, line)]
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.parametrize("lags", [None, (0, STEPS - 1)])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.8])
async def test_a_window_gets_the_same_bits_in_every_batch(
    share: float, lags: tuple[int, ...] | None, form: ClosedForm, tmp_path: Path
) -> None:
    placed(form, tmp_path)
    rung = ClosedFormImputer(tmp_path, [model()])
    windows = replace(cut(37, share=share), lags=lags)
    together = await rung.impute(windows)
    assert together.deviation is not None
    for size in (1, 2, 5, 16):
        parts = [await rung.impute(windows.slice(start, start + size)) for start in range(0, 37, size)]
        joined = Imputed.joined(parts)
        assert joined.deviation is not None
        assert joined.values.tobytes() == together.values.tobytes()
        assert joined.deviation.tobytes() == together.deviation.tobytes()


async def test_only_the_lags_that_are_used_have_answers(form: ClosedForm, tmp_path: Path) -> None:
    placed(form, tmp_path)
    rung = ClosedFormImputer(tmp_path, [model()])
    windows = cut(60)
    every, some = await rung.impute(windows), await rung.impute(replace(windows, lags=(0, STEPS - 1)))
    assert every.deviation is not None
    assert some.deviation is not None
    np.testing.assert_allclose(some.values[..., [0, -1]], every.values[..., [0, -1]], rtol=1e-9)
    np.testing.assert_allclose(some.deviation[..., [0, -1]], every.deviation[..., [0, -1]], rtol=1e-6)
    np.testing.assert_array_equal(some.method[..., [0, -1]], every.method[..., [0, -1]])
    assert np.isnan(some.values[..., 1:-1]).all()
    assert np.isnan(some.deviation[..., 1:-1]).all()
    assert (some.method[..., 1:-1] == Method.NONE).all()


async def test_cells_that_the_closed_form_declines_are_interpolated(tmp_path: Path) -> None:
    """Where groups' levels differ, it declines a silent sensor of a group at a level that it does not know."""
    placed(fitted(SERIES + 1e4 * np.arange(len(SERIES))[:, None, None]), tmp_path)
    windows = cut(4)
    windows.values[3] -= np.where(windows.observed[3], 1e6, 0.0)
    assert not windows.observed[3, 2].any()
    rung = ClosedFormImputer(tmp_path, [model()])
    answer = await rung.impute(windows)
    line, how = interpolated(windows.values[3], windows.observed[3])
    np.testing.assert_array_equal(answer.values[3, 2], line[2, -STEPS:])
    np.testing.assert_array_equal(answer.method[3, 2], how[2, -STEPS:])
    assert answer.deviation is not None
    assert np.isnan(answer.deviation[3, 2]).all()
    assert (answer.method[3, :2] == Method.GAUSSIAN).all()
    assert np.isfinite(answer.values[3, :2]).all()
    newest = await rung.impute(replace(windows, lags=(0,)))
    np.testing.assert_array_equal(newest.values[3, 2, -1], line[2, -1])
    assert (newest.method[3, 2] == [Method.NONE] * (STEPS - 1) + [how[2, -1]]).all()
    assert np.isnan(newest.values[3, 2, :-1]).all()


async def test_a_model_without_a_closed_form_is_interpolated_and_nothing_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failed: list[tuple[str, str]] = []
    rungs = [ClosedFormImputer(tmp_path, [model()]), Interpolation()]
    ladder = Ladder(rungs, on_failure=lambda *names: failed.append(names))
    for windows in (cut(4), replace(cut(4), model="unknown")):
        answer = await ladder.impute(windows)
        assert set(np.unique(answer.method)) <= {Method.INTERPOLATION, Method.LAST_VALUE}
    assert (failed, caplog.messages) == ([], [])


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        (replace(cut(2), end_ms=None), "needs the time of each window"),
        (Windows("m", np.zeros((1, 2, WINDOW)), np.zeros((1, 2, WINDOW), np.bool_), 1), r"found \(2, 24\)"),
    ],
)
async def test_windows_that_do_not_fit_are_rejected(
    windows: Windows, message: str, form: ClosedForm, tmp_path: Path
) -> None:
    placed(form, tmp_path)
    with pytest.raises(ImputerError, match=message):
        await ClosedFormImputer(tmp_path, [model()]).impute(windows)


def versions_shown() -> dict[str, float]:
    """The closed forms of the model in the metrics, and the seconds until which their readings go."""
    (family,) = metrics.form_until_seconds.collect()
    return {each.labels["version"]: each.value for each in family.samples if each.labels["model"] == "m"}


async def test_a_new_form_is_taken_up_between_batches(form: ClosedForm, other: ClosedForm, tmp_path: Path) -> None:
    clock = Clock()
    rung = ClosedFormImputer(tmp_path, [model()], now_s=clock)
    other = replace(other, until_ms=1_795_219_200_500)
    with pytest.raises(ImputerAbsent):
        await rung.impute(cut(1))
    for each in (form, other):
        before = reads("read")
        placed(each, tmp_path)
        clock.now_s += CHECK_INTERVAL_S
        assert (await rung.impute(cut(1))).version == [version_of(each)]
        assert reads("read") == before + 1
    clock.now_s += CHECK_INTERVAL_S
    assert (await rung.impute(cut(1))).version == [version_of(other)]
    assert reads("read") == before + 1, "an unchanged file is not read again"
    shown = versions_shown()
    assert version_of(form) not in shown
    assert shown[version_of(other)] == 1_795_219_200.5
    placed(form, tmp_path)  # the other one is withdrawn; this one was fitted to older rows
    clock.now_s += CHECK_INTERVAL_S
    assert (await rung.impute(cut(1))).version == [version_of(form)]


async def test_a_broken_form_is_refused_once_and_the_one_before_stays(
    form: ClosedForm, other: ClosedForm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, clock = placed(form, tmp_path), Clock()
    rung = ClosedFormImputer(tmp_path, [model()], now_s=clock)
    before = reads("refused")
    whole = (folder / FORM_FILE).read_bytes()
    (folder / FORM_FILE).write_bytes(whole[: len(whole) // 2])
    for _ in range(3):
        clock.now_s += CHECK_INTERVAL_S
        assert (await rung.impute(cut(1))).version == [version_of(form)]
    assert reads("refused") == before + 1
    (line,) = caplog.messages
    assert line.startswith(f"model m: a closed form is refused, it keeps {version_of(form)}: ")
    placed(other, tmp_path)
    clock.now_s += CHECK_INTERVAL_S
    assert (await rung.impute(cut(1))).version == [version_of(other)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sensors": [{"id": name} for name in SENSORS[::-1]]}, "has sensors"),
        ({"window": 2 * WINDOW}, "has window 24, the catalogue 48"),
        ({"step_s": 30}, "has step_ms 60000, the catalogue 30000"),
    ],
)
async def test_a_form_that_does_not_fit_the_catalogue_is_refused(
    changes: dict[str, object], message: str, form: ClosedForm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    placed(form, tmp_path)
    rung = ClosedFormImputer(tmp_path, [model(**changes)])
    assert message in caplog.text
    with pytest.raises(ImputerAbsent):
        await rung.impute(cut(1))


async def test_where_manifests_are_required_a_form_needs_one(
    form: ClosedForm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    placed(form, tmp_path)
    ClosedFormImputer(tmp_path, [model()], trust=Trust(require_manifest=True))
    assert "the settings require a manifest, and there is no gaussian.manifest.json" in caplog.text
    place_form(tmp_path / "m", form.to_bytes())
    rung = ClosedFormImputer(tmp_path, [model()], trust=Trust(require_manifest=True))
    assert set((await rung.impute(cut(1))).version) == {version_of(form)}


async def test_windows_that_are_filled_without_logarithms_are_counted(
    form: ClosedForm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted() -> float:
        return REGISTRY.get_sample_value("glaim_form_without_logarithm_total", {"model": "m"}) or 0.0

    placed(form, tmp_path)
    imputer, fill, before = ClosedFormImputer(tmp_path, [model()]), ClosedForm.fill, counted()

    def told(self: ClosedForm, *arguments: Any, **more: Any) -> Any:
        return replace(fill(self, *arguments, **more), without_logarithm=np.arange(10) < 3)

    await imputer.impute(cut(10))
    assert counted() == before, "this form has no logarithms"
    monkeypatch.setattr(ClosedForm, "fill", told)
    await imputer.impute(cut(10))
    assert counted() == before + 3


async def test_a_form_that_is_removed_is_no_longer_used(form: ClosedForm, tmp_path: Path) -> None:
    folder, clock = placed(form, tmp_path), Clock()
    rung = ClosedFormImputer(tmp_path, [model()], now_s=clock)
    (folder / FORM_FILE).unlink()
    clock.now_s += CHECK_INTERVAL_S
    with pytest.raises(ImputerAbsent):
        await rung.impute(cut(1))
    assert version_of(form) not in versions_shown()


async def test_what_the_catalogue_declares_a_direction_is_filled_as_one(form: ClosedForm, tmp_path: Path) -> None:
    """Its readings in training did not run through north, so the form takes it for a number."""
    placed(form, tmp_path)
    declared = model(sensors=[{"id": SENSORS[0], "min": 0, "max": 360}, *({"id": name} for name in SENSORS[1:])])
    windows = whole(2)
    windows.values[:, 0] = np.where(np.arange(WINDOW) % 2, 350.0, 12.0)
    windows.observed[:, 0, -3] = False
    imputer = ClosedFormImputer(tmp_path, [declared])
    answer = await imputer.impute(replace(windows, directions=declared.directions))
    assert answer.kinds == (Kind.ANGLE, Kind.NUMBER, Kind.NUMBER)
    assert np.abs(around(answer.values[:, 0, -3])).max() < 20.0
    assert answer.version == [version_of(form)] * 2


def test_decimals_go_with_the_form_and_a_file_with_those_of_other_sensors_is_refused(
    form: ClosedForm, tmp_path: Path
) -> None:
    place_form(tmp_path / "m", with_decimals(form.to_bytes(), np.array([1, -1, 0], np.int8)))
    imputer = ClosedFormImputer(tmp_path, [model()])
    found = imputer.decimals_of("m")
    assert found is not None
    assert found.tolist() == [1, -1, 0]
    assert imputer.decimals_of("m") is found, "the same array until the file changes"
    assert imputer.decimals_of("other") is None
    place_form(tmp_path / "m", with_decimals(form.to_bytes(), np.array([1], np.int8)))
    watched = WatchedForm(tmp_path / "m", model(), Trust())
    assert watched.form is None
    assert "expected decimals of 3 sensors" in watched.problem
