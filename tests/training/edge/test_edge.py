"""The stream's table asks what it says, walks forward without looking ahead, and holds each row against the aim."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from training.benchmark import lines
from training.data.masks import Bools
from training.data.series import Floats
from training.data.windows import WindowSet
from training.edge.__main__ import main
from training.edge.answers import Answers, ask, stretches
from training.edge.cases import CASES, LAGS, questions
from training.edge.table import IDENTITY, markdown, misses, score
from training.edge.walk import walk

KNOWN = np.ones((3, 4, 24), np.bool_)
NUMBERS = np.arange(3)


def wave(rows: int = 80, sensors: int = 3, groups: int = 1, gaps: float = 0.0) -> Floats:
    """Sensors that move alike, [G, C, R], a few cells unknown."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((groups, 1, rows)).cumsum(axis=2)
    values = (common + 0.1 * rng.standard_normal((groups, sensors, rows))).astype(np.float32)
    values[rng.random(values.shape) < gaps] = np.nan
    return values


def mean_of_others(values: Floats, observed: Bools) -> Floats:
    """A model: what the group's observed sensors say at the step on average, 0 where none does."""
    count = observed.sum(axis=1, keepdims=True)
    mean = np.where(count > 0, (values * observed).sum(axis=1, keepdims=True) / np.maximum(count, 1), 0.0)
    return np.where(observed, values, mean).astype(np.float32)


@pytest.mark.parametrize("case", ["one", "several", "all"])
def test_a_question_takes_out_one_step_and_nothing_else(case: str) -> None:
    for question in questions(case, KNOWN, NUMBERS, "data"):
        (lag,) = question.lags
        steps = np.flatnonzero(question.hidden.any(axis=(0, 1)))
        assert steps.tolist() == [23 - lag]
        sensors = question.hidden.any(axis=2).sum(axis=1)
        low, high = {"one": (1, 1), "several": (2, 3), "all": (4, 4)}[case]
        assert ((sensors >= low) & (sensors <= high)).all()


@pytest.mark.parametrize("case", CASES)
def test_every_lag_is_asked_of_every_sensor_at_most_once(case: str) -> None:
    asked = {lag: np.zeros((3, 4), int) for lag in LAGS}
    for question in questions(case, KNOWN, NUMBERS, "data"):
        for lag in question.lags:
            asked[lag] += question.hidden[:, :, -1 - lag]
    for count in asked.values():
        assert (count == 1).all() if case != "several" else (count <= 1).all()


def test_a_silent_sensor_shows_nothing_in_the_whole_window() -> None:
    for sensor, question in enumerate(questions("silent", KNOWN, NUMBERS, "data")):
        assert question.hidden[:, sensor].all()
        assert question.hidden.sum() == 3 * 24


def test_a_window_draws_the_same_set_whatever_stands_beside_it() -> None:
    both = next(questions("several", KNOWN, NUMBERS, "data")).hidden[2]
    alone = next(questions("several", KNOWN[:1], NUMBERS[2:], "data")).hidden[0]
    assert np.array_equal(both, alone)


def test_an_unknown_case_is_refused() -> None:
    with pytest.raises(ValueError, match="found 'two'"):
        next(questions("two", KNOWN, NUMBERS, "data"))


def test_answers_are_what_the_methods_say_without_the_asked_value() -> None:
    values = wave()
    windows = WindowSet(values, 24)
    answers = ask(windows, stretches(windows, 0, 0), mean_of_others, "data")
    found = answers["one", 2]
    assert found.steps.tolist() == list(range(23, 80))
    now = values[0, :, 21:78].T  # two steps before the newest
    np.testing.assert_array_equal(found.truth, now)
    np.testing.assert_array_equal(found.last_value, values[0, :, 20:77].T)
    np.testing.assert_allclose(found.interpolation, (values[0, :, 20:77].T + values[0, :, 22:79].T) / 2, rtol=1e-5)
    others = (now.sum(axis=1, keepdims=True) - now) / 2
    np.testing.assert_allclose(found.model, others, rtol=1e-4, atol=1e-5)
    assert np.isnan(answers["silent", 0].last_value).all()


def test_cells_that_nobody_knows_are_not_asked_for() -> None:
    values = wave(gaps=0.2)
    windows = WindowSet(values, 24)
    for (case, lag), found in ask(windows, stretches(windows, 0, 0), mean_of_others, "data").items():
        known = np.isfinite(values[0, :, 23 - lag : 80 - lag].T)
        assert not (np.isfinite(found.truth) & ~known).any()
        if case != "several":
            assert np.array_equal(np.isfinite(found.truth), known)


def test_a_few_windows_are_taken_in_stretches_that_run_step_by_step() -> None:
    windows = WindowSet(wave(rows=500, groups=2), 24)
    index = stretches(windows, 1, 100)
    assert index.size == 100
    assert (windows.groups[index] == 1).all()
    assert (np.diff(windows.starts[index]) > 1).sum() == 3


def answers_of(rng: np.random.Generator, steps: int, model: float, line: float) -> Answers:
    truth = rng.standard_normal((steps, 4)).astype(np.float32)
    noise = rng.standard_normal((2, steps, 4)).astype(np.float32)
    return Answers(np.arange(steps), truth, truth + model * noise[0], truth + line * noise[1], truth + line * noise[1])


def test_the_walk_never_looks_ahead() -> None:
    answers = answers_of(np.random.default_rng(0), 50, 0.5, 1.0)
    before = walk(answers)
    answers.truth[30:] += 100.0  # what is only known later
    after = walk(answers)
    assert np.array_equal(before[:31], after[:31])
    assert not np.array_equal(before[31], after[31])


@pytest.mark.parametrize(("model", "line", "margin"), [(0.1, 1.0, 1.15), (1.0, 0.1, 1.15), (0.7, 0.6, 1.0)])
def test_the_walk_is_about_as_good_as_the_better_method_or_better(model: float, line: float, margin: float) -> None:
    answers = answers_of(np.random.default_rng(0), 400, model, line)
    error = np.square(walk(answers) - answers.truth).mean()
    assert error < margin * min(model, line) ** 2


def test_where_the_baseline_has_nothing_to_go_by_the_model_stands_alone() -> None:
    answers = answers_of(np.random.default_rng(0), 20, 0.5, 1.0)
    answers.interpolation[:] = np.nan
    assert np.array_equal(walk(answers), answers.model)


def lines_of(model: float, line: float) -> list[dict[str, object]]:
    about = {"dataset": "Wave", "run": "test", "d_model": 4, "masks": "deployment", "epochs": 3,
             "machine": "here", "date": "2026-11-21", "command": "x"}  # fmt: skip
    group = {("one", 0): answers_of(np.random.default_rng(0), 300, model, line)}
    group |= {
        (case, lag): Answers(np.arange(1), *(np.full((1, 4), np.nan, np.float32) for _ in range(4)))
        for case in CASES
        for lag in LAGS
        if (case, lag) != ("one", 0)
    }
    return score([group], about)


def test_a_line_has_what_the_table_promises_and_unasked_cases_have_none() -> None:
    found = lines_of(0.5, 1.0)
    assert [line["method"] for line in found] == ["model", "blend"]
    assert found[0]["mse"] == pytest.approx(0.25, rel=0.1)
    assert found[0]["last_value_mse"] == pytest.approx(1.0, rel=0.1)
    assert found[0]["cells"] == 1200
    assert found[0]["windows"] == 300


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
    for _ in range(2):  # a second time takes the place of the first
        lines.put(file, lines_of(0.5, 1.0), IDENTITY)
        lines.put(file, other, IDENTITY)
    kept = lines.read(file)
    assert len(kept) == 4
    page = markdown(kept)
    assert page.count("## Wave: ") == 2
    assert page.count("| one sensor | 0 |") == 2
    assert "| yes |" in page
    assert "under last value |" in page


def test_without_a_model_the_command_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "expected a RUN or --served" in capsys.readouterr().err
    assert main([str(tmp_path / "nothing"), "--results", str(tmp_path / "edge.jsonl")]) == 2
    assert "expected a checkpoint" in capsys.readouterr().err
