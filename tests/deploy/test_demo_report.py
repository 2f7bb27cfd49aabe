"""The report of the demo: one complete, well-formed page that needs no network; and the summary."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from deploy.demo import panels
from deploy.demo.__main__ import verdict
from deploy.demo.grid import Grid, Layer, Outcome
from deploy.demo.measure import Measured
from deploy.demo.report import page
from deploy.demo.scenario import Scenario, plant
from deploy.demo.score import gain_percent, score
from deploy.demo.summary import Summary, write
from glaim_stream.output import Method
from tests.well_formed import Balanced


def filled(shape: tuple[int, ...], value: float, holes: np.ndarray) -> Layer:
    values = np.where(holes, np.float32(value), np.float32(np.nan)).astype(np.float32)
    return Layer(values, values - 1, values + 1, np.where(holes, Method.MODEL, -1).astype(np.int8))


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return plant(hours=4, groups=2, seed=5)


@pytest.fixture(scope="module")
def measured(scenario: Scenario) -> Measured:
    grid: Grid = scenario.grid
    truth = np.full(grid.shape, np.nan, np.float32)
    truth[:, :, 20:30] = 50.0
    truth[0, :, 40] = 51.0
    holes = np.isfinite(truth)
    holes[1, 0, 60:64] = True  # a gap in the data itself: its true values are unknown
    observed = np.where(holes, np.float32(np.nan), np.float32(49.0))

    def outcome(value: float) -> Outcome:
        layer = filled(grid.shape, value, holes)
        last = np.where(holes, Method.MODEL, Method.OBSERVED).astype(np.int8)
        return Outcome(observed, layer, layer, last)

    contenders = {
        "model": outcome(50.5), "gaussian": outcome(50.2), "interpolation": outcome(52.0), "last_value": outcome(49.0),
    }  # fmt: skip
    sensors = scenario.model.sensors
    scored = score(
        truth,
        {name: each.final.value for name, each in contenders.items()},
        eligible=holes,
        sensors=grid.sensors,
        units=[sensor.unit for sensor in sensors],
        deviation=np.ones(len(sensors)),
    )
    share = {"final": 0.93, "provisional": 0.9}
    by_kind = {"reading": scored, "sensor": scored, "group": scored}
    return Measured(grid, truth, contenders["model"], contenders, scored, scored, by_kind, share, 0.9)


@pytest.fixture
def summary(measured: Measured, scenario: Scenario) -> Summary:
    return Summary(
        scenario=scenario.name, title=scenario.title, detail=scenario.detail, readings_in=1000, readings_out=1000,
        dead_letters=0, lost=0, holes=100, hidden=96, filled={"model": 98, "interpolation": 0, "none": 2},
        rows_out=1200, mae=measured.final.mae,
        scores={
            "final": measured.final.document(),
            "provisional": measured.provisional.document(),
            "by_kind": {kind: each.document() for kind, each in measured.by_kind.items()},
        },
        interval_coverage=measured.interval_coverage, interval_level=0.9, latency_ms={"p50": 40.0, "p99": 120.0},
        readings_per_second=2000.0, speed=2400.0, hours=4.0, imputer="Triton at x:1", kafka="Apache Kafka at y:2",
        machine={"cpu": "A <fast> & small one", "cores": 2}, date="2026-01-01T00:00:00+00:00",
        audit={"clean": True}, command="python -m deploy.demo", arrow_file="demo-output/imputed.arrow", arrow_rows=1100,
        seconds={"streaming": 3.0}, notes=["No Triton: this is <no> Linux."],
    )  # fmt: skip


@pytest.fixture
def html(summary: Summary, measured: Measured, scenario: Scenario) -> str:
    return page(summary, measured, scenario)


def test_page_is_well_formed_and_loads_nothing_from_elsewhere(html: str) -> None:
    parser = Balanced(html)
    assert {"way", "sensors", "errors"} <= set(parser.ids)
    assert parser.tags.count("figure") == panels.MOST_PANELS + 1
    assert "nan" not in " ".join(re.findall(r' (?:d|points|x|y|height|width)="([^"]*)"', html)).lower()
    assert parser.links == []
    assert not {"script", "link", "img", "iframe", "object"} & set(parser.tags)
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(", html)
    assert len(html) < 3_000_000


def test_names_from_the_data_are_escaped(html: str) -> None:
    assert "A &lt;fast&gt; &amp; small one" in html
    assert "this is &lt;no&gt; Linux" in html
    assert "<fast>" not in html


def test_worse_model_is_reported_as_worse(summary: Summary, measured: Measured, scenario: Scenario) -> None:
    summary.mae = {"model": 2.0, "interpolation": 1.0, "last_value": 3.0}
    assert gain_percent(summary.mae) == 100
    assert "more error than the better baseline" in page(summary, measured, scenario)


def test_summary_is_json_with_the_documented_keys(summary: Summary, tmp_path: Path) -> None:
    summary.latency_ms = {"p50": float("nan"), "p99": 3.0}
    write(summary, tmp_path / "summary.json")
    document = json.loads((tmp_path / "summary.json").read_text())
    assert {
        "readings_in", "readings_out", "dead_letters", "lost", "holes", "filled", "mae", "latency_ms",
        "readings_per_second", "arrow_file", "command", "machine", "date", "seconds", "meaning",
    } <= set(document)  # fmt: skip
    assert document["latency_ms"] == {"p50": None, "p99": 3.0}
    assert set(document["mae"]) == {"model", "gaussian", "interpolation", "last_value"}


@pytest.mark.parametrize(
    ("lost", "problems", "status"), [(0, [], 0), (3, [], 1), (0, ["2 steps without a final row"], 1)]
)
def test_lost_or_incomplete_output_fails_the_demo(
    summary: Summary, tmp_path: Path, lost: int, problems: list[str], status: int
) -> None:
    summary.lost, summary.problems = lost, problems
    console = Console(width=200, record=True, file=(tmp_path / "screen").open("w"))
    assert verdict(summary, console) == status
    assert ("error" in console.export_text()) == bool(status)
