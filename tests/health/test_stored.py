"""Habits in the file of a closed form: the same ones come back, and readers without them see the same form."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from glaim_stream.core.errors import ModelError
from glaim_stream.form import ClosedForm, artefact, fit
from glaim_stream.health.detect import detect
from glaim_stream.health.habits import Habits, learn
from glaim_stream.health.live import LiveHabits
from glaim_stream.health.stored import form_with_habits, pack, unpack, with_habits
from tests.health.plant import LEARNED, RATE, STEP_MS, fault, later, place, plant


@lru_cache(maxsize=1)
def form() -> ClosedForm:
    sensors, groups = plant()
    parts = [each.part(0, 1440) for each in groups]
    values, observed = (np.stack([getattr(each, name) for each in parts]) for name in ("values", "observed"))
    start_ms = parts[0].first * STEP_MS
    return fit(values, observed, start_ms=start_ms, step_ms=STEP_MS, sensors=sensors, steps=24).form


@lru_cache(maxsize=1)
def habits() -> Habits:
    sensors, groups = plant()
    return learn([each.part(0, LEARNED) for each in groups], sensors, form=form(), rate=RATE)


def test_habits_from_a_file_find_the_same_events() -> None:
    content = with_habits(form().to_bytes(), habits())
    found = unpack(artefact.from_bytes(content, "f"), ClosedForm.from_bytes(content, "f"))
    assert found is not None
    series = later()
    series.values[place("flow"), fault()] = series.values[place("flow"), fault()[0]]
    series.values[place("vibration"), fault()] += np.linspace(0, 5, len(fault()))
    events = detect(habits(), series)
    assert events
    assert detect(found, series) == events


def test_the_form_in_the_file_is_the_same_with_and_without_habits() -> None:
    plain = form().to_bytes()
    content = with_habits(plain, habits())
    assert ClosedForm.from_bytes(content, "f").digest == form().digest
    assert with_habits(content, None) == plain
    assert unpack(artefact.from_bytes(plain, "f"), form()) is None


def test_habits_with_another_kind_of_drift_are_used_without_it() -> None:
    arrays = pack(habits())
    arrays["health.text"] = np.frombuffer(arrays["health.text"].tobytes().replace(b', "drift": 2', b""), np.uint8)
    found = unpack(arrays, form())
    assert found is not None
    assert not LiveHabits(found).judges_drift
    assert LiveHabits(habits()).judges_drift
    series = later()
    series.values[place("flow"), fault()] = series.values[place("flow"), fault()[0]]
    series.values[place("vibration"), fault()] += np.linspace(0, 50, len(fault()))
    assert {str(each.kind) for each in detect(habits(), series)} >= {"frozen", "drift"}
    kinds = {str(each.kind) for each in detect(found, series)}
    assert "frozen" in kinds
    assert not kinds & {"drift", "shift"}


def test_habits_that_were_learned_without_stamps_are_used_without_the_clock() -> None:
    arrays = pack(habits())
    found = unpack(arrays, form())
    assert found is not None
    assert LiveHabits(found).judges_clock
    arrays["health.text"] = np.frombuffer(arrays["health.text"].tobytes().replace(b', "clock": 1', b""), np.uint8)
    former = unpack(arrays, form())
    assert former is not None
    assert not LiveHabits(former).judges_clock
    series = later()
    assert series.offset is not None
    series.offset[place("flow"), fault()] = np.random.default_rng(1).uniform(-0.5, 0.5, len(fault()))
    assert {str(each.kind) for each in detect(found, series)} == {"clock"}
    assert detect(former, series) == []


def test_too_few_readings_give_a_form_without_habits_and_say_so() -> None:
    content, problem = form_with_habits(form(), [each.part(0, 200) for each in plant()[1]])
    assert problem == "habits need 384 steps of a group, found 200"
    assert content == form().to_bytes()


@pytest.mark.parametrize("damage", ["schema", "sensors", "shape", "missing"])
def test_habits_that_do_not_fit_the_form_are_refused(damage: str) -> None:
    arrays = pack(habits())
    other = form()
    match damage:
        case "schema":
            text = arrays["health.text"].tobytes().replace(b'"schema": 1', b'"schema": 2')
            arrays["health.text"] = np.frombuffer(text, np.uint8)
        case "sensors":
            other = replace(form(), sensors=tuple(reversed(form().sensors)))
        case "shape":
            arrays["health.unit.runs"] = arrays["health.unit.runs"][1:]
        case "missing":
            del arrays["health.threshold.clock"]
    with pytest.raises(ModelError, match="habits"):
        unpack(arrays, other)
