"""The table of `benchmarks.edge`: its questions, expert weights without look-ahead, and the aim of each row."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.edge.__main__ import main
from benchmarks.edge.answers import EdgeAnswers, Fill, fill_hidden, stretches
from benchmarks.edge.cases import CASES, LAGS, questions
from benchmarks.edge.experts import blended, expert_weights
from benchmarks.edge.table import IDENTITY, markdown, misses, score
from benchmarks.paper import lines
from benchmarks.paper.datasets import DATASETS, Dataset
from glaim_stream.blend import ModelScores
from glaim_stream.windows import AGES, Place
from training.closed_form import TimedFill
from training.data import Bools, Floats, WindowSet

KNOWN = np.ones((3, 4, 24), np.bool_)
NUMBERS = np.arange(3)


def wave(rows: int = 80, sensors: int = 3, groups: int = 1, gaps: float = 0.0) -> Floats:
    """Correlated sensors [G, C, R] with a share of unknown cells."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((groups, 1, rows)).cumsum(axis=2)
    values = (common + 0.1 * rng.standard_normal((groups, sensors, rows))).astype(np.float32)
    values[rng.random(values.shape) < gaps] = np.nan
    return values


def mean_of_others(values: Floats, observed: Bools) -> Floats:
    """A model that fills with the mean of the observed sensors at the step, or 0 without any."""
    count = observed.sum(axis=1, keepdims=True)
    mean = np.where(count > 0, (values * observed).sum(axis=1, keepdims=True) / np.maximum(count, 1), 0.0)
    return np.where(observed, values, mean).astype(np.float32)


@pytest.mark.parametrize("case", ["one", "several", "all"])
def test_a_question_hides_one_step_only(case: str) -> None:
    for question in questions(case, KNOWN, NUMBERS, "data"):
        (lag,) = question.lags
        steps = np.flatnonzero(question.hidden.any(axis=(0, 1)))
        assert steps.tolist() == [23 - lag]
        sensors = question.hidden.any(axis=2).sum(axis=1)
        low, high = {"one": (1, 1), "several": (2, 3), "all": (4, 4)}[case]
        assert ((sensors >= low) & (sensors <= high)).all()


@pytest.mark.parametrize("case", CASES)
def test_every_sensor_is_scored_at_most_once_at_every_lag(case: str) -> None:
    counts = {lag: np.zeros((3, 4), int) for lag in LAGS}
    for question in questions(case, KNOWN, NUMBERS, "data"):
        for lag in question.lags:
            counts[lag] += question.hidden[:, :, -1 - lag]
    for count in counts.values():
        assert (count == 1).all() if case != "several" else (count <= 1).all()


def test_no_method_sees_the_hidden_value() -> None:
    values = wave()
    windows = WindowSet(values, 24)
    answers = fill_hidden(windows, stretches(windows, 0, 0), mean_of_others, "data")
    found = answers["one", 2]
    assert found.steps.tolist() == list(range(23, 80))
    now = values[0, :, 21:78].T  # two steps before the newest
    np.testing.assert_array_equal(found.truth, now)
    np.testing.assert_array_equal(found.last_value, values[0, :, 20:77].T)
    np.testing.assert_allclose(found.interpolation, (values[0, :, 20:77].T + values[0, :, 22:79].T) / 2, rtol=1e-5)
    others = (now.sum(axis=1, keepdims=True) - now) / 2
    np.testing.assert_allclose(found.model, others, rtol=1e-4, atol=1e-5)
    assert np.isnan(answers["silent", 0].last_value).all()


def test_without_a_network_closed_form_and_baseline_are_blended_and_no_line_is_the_models() -> None:
    values = wave(rows=160, groups=2)
    truth = exact(values)

    def closed(seen: Floats, observed: Bools, end_ms: NDArray[np.int64]) -> Floats:
        return truth(seen, observed)

    windows, times_ms = WindowSet(values, 24), 1000 * np.arange(160)
    groups = [
        fill_hidden(windows, stretches(windows, group, 20), None, "data", ("one",), closed, times_ms)
        for group in range(2)
    ]
    steps = np.concatenate([group["one", 0].steps for group in groups])
    weights = expert_weights(values, 24, NAMES, None, steps, closed, times_ms)
    none = {(case, lag): dataclasses.replace(groups[0]["one", lag], truth=np.full((1, 3), np.nan, np.float32))
            for case in CASES for lag in LAGS}  # fmt: skip
    about = {"dataset": "Wave", "run": "closed form", "d_model": 0, "masks": "", "epochs": 0, "machine": "m",
             "date": "d", "command": "c"}  # fmt: skip
    found = score([{**none, **group} for group in groups], weights, about, network=False)
    assert {line["method"] for line in found} == {"blend", "gaussian"}
    newest = next(line for line in found if (line["method"], line["case"], line["lag"]) == ("blend", "one", 0))
    assert newest["mae"] < 0.02 * newest["last_value_mae"], "the form is exact, and the blend finds that out"
    text = markdown(found)
    assert "No network" in text
    assert "| one sensor | 0 |  | **0.000** / **0.000** |" in text


@pytest.mark.parametrize("name", ["Illnes", ""])
def test_an_unknown_data_set_is_named(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--form", name, "--results", str(tmp_path)]) == 2
    assert f"expected one of {', '.join(DATASETS)}, found {name!r}" in capsys.readouterr().err


def test_the_form_of_a_data_set_is_measured_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    drive = np.sin(np.arange(900) / 9) + 0.1 * rng.standard_normal(900)
    cells = np.stack([drive, 2 * drive + 5 + 0.1 * rng.standard_normal(900)], axis=1)
    cells[700, 1] = -9999.0
    stamps = np.datetime64("2026-01-01T00:00") + np.arange(900)
    rows = [f"{stamp},{a:.4f},{b:.4f}" for stamp, (a, b) in zip(stamps, cells, strict=True)]
    (tmp_path / "tiny.csv").write_text("\n".join(["time,a,b", *rows]) + "\n")
    monkeypatch.setenv("GLAIM_DATA", str(tmp_path))
    tiny = Dataset("Tiny", "tiny.csv", 2, (640, 60, 200), time="time", sentinels=(-9999.0,))
    monkeypatch.setitem(DATASETS, "Tiny", tiny)
    assert main(["--form", "Tiny", "--windows", "40", "--results", str(tmp_path)]) == 0
    assert "of 20 rows" in capsys.readouterr().out
    found = lines.read(tmp_path / "edge.jsonl")
    one = next(line for line in found if (line["method"], line["case"], line["lag"]) == ("gaussian", "one", 0))
    assert one["command"] == "python -m benchmarks.edge --form Tiny --windows 40"
    assert one["mae"] < 0.6 * one["last_value_mae"]
    assert one["last_value_mae"] < 2, "what stands for no value is no reading"


def test_cells_without_a_known_value_are_not_scored() -> None:
    values = wave(gaps=0.2)
    windows = WindowSet(values, 24)
    for (case, lag), found in fill_hidden(windows, stretches(windows, 0, 0), mean_of_others, "data").items():
        known = np.isfinite(values[0, :, 23 - lag : 80 - lag].T)
        assert not (np.isfinite(found.truth) & ~known).any()
        if case != "several":
            assert np.array_equal(np.isfinite(found.truth), known)


def answers_of(rng: np.random.Generator, steps: int, model: float, line: float) -> EdgeAnswers:
    truth = rng.standard_normal((steps, 4)).astype(np.float32)
    noise = rng.standard_normal((2, steps, 4)).astype(np.float32)
    age, place = np.zeros((2, steps, 4), np.int64)
    carried = truth + line * noise[1]
    return EdgeAnswers(np.arange(steps), truth, truth + model * noise[0], carried, carried, age, place)


@dataclasses.dataclass(frozen=True)
class Table:
    """Weights by sensor, age class and place, [C, A, P, experts], whoever is asleep."""

    table: NDArray[np.float64]

    def of(
        self, sensor: NDArray[np.int64], age: NDArray[np.int64], place: NDArray[np.int64], awake: Bools
    ) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.table[sensor, age, place]
        return found


def shares(steps: int, *share: float) -> dict[int, Table]:
    """The same weights of the experts at every step, for every sensor, age and place; the last one is the rest."""
    weights = [*share, 1 - sum(share)]
    return {step: Table(np.full((4, len(AGES), len(Place), len(weights)), weights)) for step in range(steps)}


def test_hidden_cells_have_the_gap_age_and_place_of_a_worker() -> None:
    windows = WindowSet(wave(), 24)
    found = fill_hidden(windows, stretches(windows, 0, 0), mean_of_others, "data")
    for lag in LAGS:
        inside = lag > 0
        assert (found["one", lag].age == 0).all()  # the previous step was observed
        assert (found["one", lag].place == (Place.INTERIOR if inside else Place.EDGE)).all()
        assert (found["all", lag].place == (Place.ROW_INTERIOR if inside else Place.ROW_EDGE)).all()
        assert (found["silent", lag].age == len(AGES) - 1).all()


def test_a_gap_before_the_hidden_step_increases_its_gap_age() -> None:
    values = wave()
    values[0, 1, 40:43] = np.nan  # step 43 is hidden: four steps since the last observation, at step 39
    windows = WindowSet(values, 24)
    found = fill_hidden(windows, stretches(windows, 0, 0), mean_of_others, "data", ("one",))["one", 0]
    row = found.steps.tolist().index(43)
    assert found.age[row].tolist() == [0, AGES.index(4), 0]


def test_the_blend_uses_the_weight_of_the_cells_sensor_age_and_place() -> None:
    answers = answers_of(np.random.default_rng(0), 2, 0.5, 1.0)
    answers.age[1, 2], answers.place[1, 2] = 3, Place.ROW_EDGE
    weights = shares(2, 1.0)
    weights[1].table[2, 3, Place.ROW_EDGE] = 0.0, 1.0
    expected = answers.model.copy()
    expected[1, 2] = answers.interpolation[1, 2]
    assert np.array_equal(blended(answers, weights), expected)


NAMES = ("pump-1", "pump-2")


def weights_of(
    values: Floats, fill: Fill, steps: NDArray[np.int64], closed: TimedFill | None = None, first: int = 0
) -> dict[int, NDArray[np.float64]]:
    """The weights of every key with all experts awake, by step."""
    times_ms = 1000 * np.arange(values.shape[2])
    found = expert_weights(values, 24, NAMES, fill, steps, closed, times_ms, first)
    count = 2 if closed is None else 3
    tables = {}
    for step, weights in found.items():
        keys = np.indices((values.shape[1], len(AGES), len(Place))).reshape(3, -1)
        of_key = weights.of(*keys, np.ones((keys.shape[1], count), np.bool_))
        tables[step] = of_key.reshape(values.shape[1], len(AGES), len(Place), count)
    return tables


def exact(values: Floats) -> Fill:
    """A model that returns the truth: it finds each window in the data by its observed cells."""

    def fill(seen: Floats, observed: Bools) -> Floats:
        filled = []
        for window, known in zip(seen, observed, strict=True):
            cuts = np.lib.stride_tricks.sliding_window_view(values, 24, axis=2)  # (G, C, R - T + 1, T)
            same = (np.where(known[:, None], cuts, 0) == window[:, None]).all(axis=(1, 3))
            group, start = np.argwhere(same)[0]
            filled.append(cuts[group, :, start])
        return np.stack(filled)

    return fill


def test_the_weights_favour_an_exact_model_and_avoid_a_wrong_one() -> None:
    values = wave(rows=160, groups=2)
    steps = np.arange(120, 140)
    right = weights_of(values, exact(values), steps)
    wrong = weights_of(values, lambda seen, observed: seen + np.float32(100), steps)
    assert sorted(right) == sorted(wrong) == steps.tolist()
    assert all((weights[:, 0, Place.EDGE] == [1, 0]).all() for weights in right.values())
    assert all((weights[:, 0, Place.EDGE] == [0, 1]).all() for weights in wrong.values())


def test_the_blend_mixes_the_closed_form_and_leaves_out_who_has_no_value() -> None:
    answers = answers_of(np.random.default_rng(0), 5, 0.5, 1.0)
    answers = dataclasses.replace(answers, gaussian=answers.truth + np.float32(1))
    expected = 0.25 * answers.model + 0.25 * answers.interpolation + 0.5 * (answers.truth + 1)
    np.testing.assert_allclose(blended(answers, shares(5, 0.25, 0.25)), expected, rtol=1e-5)
    answers.interpolation[:] = np.nan
    scores = ModelScores(4, 3)
    equal = (answers.model + answers.truth + 1) / 2
    np.testing.assert_allclose(blended(answers, dict.fromkeys(range(5), scores.weights(0))), equal, rtol=1e-5)


def test_the_weights_of_a_step_do_not_depend_on_that_step_or_later_ones() -> None:
    values = wave(rows=160, groups=2)
    steps = np.arange(100, 140)
    before = weights_of(values, mean_of_others, steps)
    later = values.copy()
    later[:, :, 120:] = 50 * np.random.default_rng(1).standard_normal(later[:, :, 120:].shape)
    after = weights_of(later, mean_of_others, steps)
    assert all(np.array_equal(before[step], after[step]) for step in range(100, 121))
    assert any(not np.array_equal(before[step], after[step]) for step in range(121, 140))


def lines_of(model: float, line: float) -> list[dict[str, object]]:
    about = {"dataset": "Wave", "run": "test", "d_model": 4, "masks": "deployment", "epochs": 3,
             "machine": "here", "date": "2026-11-21", "command": "x"}  # fmt: skip
    group = {("one", 0): answers_of(np.random.default_rng(0), 300, model, line)}
    none = np.zeros((1, 4), np.int64)
    group |= {
        (case, lag): EdgeAnswers(np.arange(1), *(np.full((1, 4), np.nan, np.float32) for _ in range(4)), none, none)
        for case in CASES
        for lag in LAGS
        if (case, lag) != ("one", 0)
    }
    return score([group], shares(300, 0.75), about)


def test_the_aim_is_checked_row_by_row() -> None:
    model, blended = lines_of(0.5, 1.0)
    assert misses(model) == misses(blended) == []
    worse, mixed = lines_of(1.0, 0.9)
    assert any("over the better baseline" in why for why in misses(worse))
    assert any("under last value" in why for why in misses(worse))
    assert float(mixed["mae"]) < float(worse["mae"])  # type: ignore[arg-type]


def test_the_page_shows_every_run_under_its_data_set(tmp_path: Path) -> None:
    file = tmp_path / "edge.jsonl"
    other = [{**line, "run": "other"} for line in lines_of(1.0, 0.9)]
    for _ in range(2):  # the second write replaces the first
        lines.put(file, lines_of(0.5, 1.0), IDENTITY)
        lines.put(file, other, IDENTITY)
    kept = lines.read(file)
    assert len(kept) == 4
    page = markdown(kept)
    assert page.count("## Wave: ") == 2
    assert page.count("| one sensor | 0 |") == 2
    assert "| yes |" in page
    assert "under last value |" in page
