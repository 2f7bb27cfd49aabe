"""groups.yaml: its meaning, and the error message for each mistake."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.catalogue import Model, Sensor, parse_catalogue, read_catalogue
from glaim_stream.core.errors import CatalogueError, ContractError
from tests.support import catalogue, contract

YAML = """
models:
  - name: pump
    step_s: 60
    sensors: [{id: pressure, unit: bar, min: 0, max: 16, resolution: 0.01}, {id: flow}]
groups:
  - {model: pump, ids: [pump-1, pump-2]}
  - {model: pump, pattern: 'well-*'}
"""


def document(**model: Any) -> dict[str, Any]:
    entry = {"name": "a", "step_s": 1, "sensors": [{"id": "s0"}]} | model
    return {"models": [entry], "groups": [{"model": "a", "pattern": "*"}]}


def test_a_catalogue_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "groups.yaml"
    path.write_text(YAML)
    read = read_catalogue(path)
    (model,) = read.models
    assert (model.window, model.step_ms, model.lateness_ms, model.bucket) == (96, 60_000, 0, "last")
    assert model.sensor_ids == ["pressure", "flow"]
    assert [sensor.limits for sensor in model.sensors] == [(0, 16), (-math.inf, math.inf)]
    assert [read.model_of(group) for group in ("pump-1", "well-9", "pump-3", "WELL-9")] == [0, 0, None, None]


def test_an_id_takes_precedence_over_an_earlier_pattern() -> None:
    models = [{"name": name, "step_s": 1, "sensors": [{"id": "s0"}]} for name in ("a", "b")]
    groups = [{"model": "a", "pattern": "*"}, {"model": "b", "ids": ["x"]}]
    read = parse_catalogue({"models": models, "groups": groups}, source="test")
    assert [read.model_of("x"), read.model_of("y")] == [1, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"models: [", "is not YAML"),
        (b"\xff\xfe\xfd", "is not YAML"),
        (b"- a list", "must map `models` and `groups`, found list"),
        (b"", "must map `models` and `groups`, found NoneType"),
        (b"models: []\ngroups: []", "models: expected 1 or more entries, found 0"),
    ],
)
def test_a_file_that_is_no_catalogue_is_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "groups.yaml"
    path.write_bytes(content)
    with pytest.raises(CatalogueError, match=message):
        read_catalogue(path)


def test_an_absent_file_is_reported_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match=r"expected a catalogue at .*nowhere\.yaml: No such file"):
        read_catalogue(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"windw": 96}, r"models\.0\.windw: there is no such setting"),
        ({"window": 1}, "expected 2 or more, found 1"),
        ({"step_s": 0}, r"models\.0\.step_s"),
        ({"step_s": 0.0005}, "whole milliseconds"),
        ({"step_s": 1.0004}, "whole milliseconds"),
        ({"step_s": 15 * 24 * 3600}, "expected .* or less"),
        ({"step_s": math.nan}, "finite"),
        ({"lateness_s": -1}, "lateness_s"),
        ({"window": 20, "max_gap": 12, "revise_after": 8}, "together must be below the window of 20"),
        ({"sensors": [{"id": "a"}, {"id": "a"}]}, r"found twice: \['a'\]"),
        ({"sensors": [{"id": "a", "min": 2, "max": 2}]}, "min 2.0 must be below max 2.0"),
        ({"sensors": [{"id": ""}]}, "at least 1 character"),
        ({"sensors": [{"id": "a", "resolution": 0}]}, "expected more than 0"),
        ({"sensors": []}, "expected 1 or more entries"),
        ({"bucket": "first"}, "'last' or 'mean'"),
    ],
)
def test_an_invalid_model_is_rejected_with_a_reason(model: dict[str, Any], message: str) -> None:
    with pytest.raises(CatalogueError, match=message):
        parse_catalogue(document(**model), source="test")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([{"model": "b", "pattern": "*"}], r"groups name model 'b', the catalogue has \['a'\]"),
        ([{"model": "a"}], "needs ids or a pattern, found neither"),
        ([{"model": "a", "ids": ["x"]}, {"model": "a", "ids": ["x"]}], r"belongs to one model, found twice: \['x'\]"),
        ([], "expected 1 or more entries"),
    ],
)
def test_invalid_groups_are_rejected_with_a_reason(groups: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(CatalogueError, match=message):
        parse_catalogue(document() | {"groups": groups}, source="test")


def test_two_models_with_the_same_name_are_rejected() -> None:
    twice = document()
    with pytest.raises(CatalogueError, match="model names must be unique"):
        parse_catalogue(twice | {"models": twice["models"] * 2}, source="test")


@given(st.integers(1, 14 * 24 * 3600 * 1000))
def test_every_whole_number_of_milliseconds_is_a_valid_step(step_ms: int) -> None:
    model = Model(name="a", sensors=[Sensor(id="s0")], step_s=step_ms / 1000)
    assert model.step_ms == step_ms


def test_a_contract_that_fits_is_accepted() -> None:
    catalogue().models[0].require_contract(contract())


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"sensors": 3}, r"was trained on sensors \['s0', 's1', 's2'\] in this order, found \['s0', 's1'\]"),
        ({"window": 7}, "the contract has window 7, the catalogue 6"),
        ({"step_s": 2.0}, "the contract has step_s 2.0, the catalogue 1.0"),
        ({"emitted_steps": 2}, "revise_after must be at most 1, found 2"),
    ],
)
def test_a_contract_that_does_not_fit_is_rejected(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        catalogue().models[0].require_contract(contract(**overrides))


def test_groups_may_have_the_model_learn() -> None:
    models = [{"name": name, "step_s": 1, "sensors": [{"id": "s0"}], "learn": name == "b"} for name in ("a", "b")]
    groups = [{"model": "a", "pattern": "a*"}, {"model": "learn", "pattern": "*"}]
    read = parse_catalogue({"models": models, "groups": groups}, source="test")
    assert [read.model_of("a1"), read.model_of("x")] == [0, 1]


@pytest.mark.parametrize("learned", [[], ["a", "b"]])
def test_the_model_learn_must_be_one(learned: list[str]) -> None:
    models = [{"name": name, "step_s": 1, "sensors": [{"id": "s0"}], "learn": name in learned} for name in ("a", "b")]
    with pytest.raises(CatalogueError, match="expected one with `learn: true`, found"):
        parse_catalogue({"models": models, "groups": [{"model": "learn", "pattern": "*"}]}, source="test")


def test_no_model_has_the_name_learn() -> None:
    with pytest.raises(CatalogueError, match="cannot have the name 'learn'"):
        parse_catalogue(document(name="learn"), source="test")
