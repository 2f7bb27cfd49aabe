"""The recipe for data without a configuration depends on its size and the training time, within bounds."""

from collections.abc import Mapping
from typing import Any

import pytest

from training.autoconfig.recipe import ENOUGH_STEPS, MOST_PASSES, NETWORKS, StepTime, choose, window_of
from training.config import build
from training.errors import NetworkTooSlow

STEP_S = 0.03  # per step of the network with width 32 and one layer


def machine(speed: float = 1.0) -> StepTime:
    """A measurement function: the time per step is proportional to the network's work."""

    def pace(model: Mapping[str, Any], batch: int) -> float:
        return STEP_S / speed * (model["d_model"] / 32) ** 2 * model["layers"] * batch / 8

    return pace


def settle(windows: int = 50_000, minutes: float = 10.0, speed: float = 1.0, **more: Any) -> dict[str, Any]:
    given = {"rows": 60_000, "window": 96, "sensors": 8} | more
    tables = choose(windows=windows, step_time=machine(speed), minutes=minutes, **given).tables
    model = {**tables["model"], "num_variables": given["sensors"]}
    build({"name": "x", **tables, "model": model})  # must be a valid configuration
    return {name: dict(table) for name, table in tables.items()}


@pytest.mark.parametrize(("rows", "window"), [(100_000, 96), (1280, 96), (1279, 48), (640, 48), (320, 24), (60, 96)])
def test_two_windows_fit_into_each_scored_part(rows: int, window: int) -> None:
    assert window_of(rows) == window


@pytest.mark.parametrize(("speed", "network"), [(20.0, 0), (1.0, 1), (0.4, 2), (0.05, 3)])
def test_the_largest_network_that_gets_enough_steps_is_chosen(speed: float, network: int) -> None:
    model = settle(speed=speed)["model"]
    assert (model["d_model"], model["layers"], model["ffn"]) == NETWORKS[network]


def test_the_steps_fill_the_time_and_the_cosine_schedule_ends_with_them() -> None:
    train = settle(minutes=10)["train"]
    total = train["epochs"] * train["iterations"]
    assert 0.5 * 600 < total * 2 * STEP_S < 0.6 * 600  # two layers; scores, export and report take their share
    assert total >= ENOUGH_STEPS
    assert train["schedule"] == "cosine"
    assert train["patience"] == train["epochs"]
    assert train["max_minutes"] == 15
    shorter = settle(minutes=8)
    assert shorter["model"] == settle(minutes=10)["model"]
    assert shorter["train"]["epochs"] * shorter["train"]["iterations"] == pytest.approx(0.8 * total, rel=0.05)


def test_the_network_corrects_the_closed_form_where_there_can_be_one() -> None:
    assert {"cascade", "own_form"} <= set(settle()["model"])
    assert "residual" not in settle()["model"]
    for model in (settle(sensors=100)["model"], settle(rows=96 * 11)["model"]):
        assert model["residual"]
        assert not {"cascade", "own_form"} & set(model)


def test_a_stated_start_of_the_network_is_kept() -> None:
    assert not {"cascade", "own_form", "residual"} & set(settle(stated={"residual"})["model"])


def test_little_data_gets_few_passes_and_a_small_network() -> None:
    tables = settle(windows=600, speed=1000.0)
    train = tables["train"]
    assert train["epochs"] * train["iterations"] * train["batch_size"] <= MOST_PASSES * 600
    assert train["iterations"] <= 600 // train["batch_size"]  # an epoch is at most one pass over the windows
    assert tables["model"]["d_model"] == 32
    assert tables["model"]["dropout"] > 0


def test_a_time_that_is_too_short_for_the_smallest_network_is_said_before_it_is_spent() -> None:
    with pytest.raises(NetworkTooSlow, match=r"60 steps take some .* minutes, scores included \(--minutes 1\)"):
        settle(minutes=1, speed=0.005)


@pytest.mark.parametrize("windows", [1, 7, 50])
def test_a_few_windows_still_make_a_run(windows: int) -> None:
    train = settle(windows=windows)["train"]
    assert min(train["epochs"], train["iterations"]) >= 1


def test_stated_steps_need_no_measurement() -> None:
    def never(*_: object) -> float:
        raise AssertionError

    tables = choose(60_000, 50_000, 96, 8, never, minutes=10, steps=False).tables
    assert "epochs" not in tables["train"]
    assert tables["masks"] == {"pattern": "deployment"}
    assert tables["export"]["version"] == 0
