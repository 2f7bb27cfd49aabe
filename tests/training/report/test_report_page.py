"""The page of a real, tiny run: well formed, self-contained, and consistent with its JSON."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.drawing import number
from tests.well_formed import Balanced
from training import checkpoint as checkpoints
from training.config import build
from training.data import load, split
from training.fit import loop
from training.report import __main__ as command
from training.report.matrix import matrix
from training.report.page import page
from training.report.write import scores_of, write_page

SIZES = {"d_model": 8, "layers": 1, "ffn": 8, "heads": 2, "d_psi": 8, "d_g": 2, "window": 24, "large_kernel": 7}


def groups_csv(path: Path, rows: int = 400) -> Path:
    """Write two groups of three coupled sensors, one with HTML characters in its name, with short and long gaps."""
    rng = np.random.default_rng(3)
    drive = rng.standard_normal((2, rows)).cumsum(axis=1) / 6
    lines = ["time," + ",".join(f"{g}/{s}" for g in ("north", "south") for s in ("flow", "<p&q>", "temp"))]
    for row in range(rows):
        cells = [f"{(s + 1) * drive[g, row] + 0.05 * rng.standard_normal():.4f}" for g in range(2) for s in range(3)]
        cells = ["" if rng.random() < 0.03 or (350 < row < 380 and c == 1) else v for c, v in enumerate(cells)]
        lines.append(f"{1_767_225_600_000 + 60_000 * row},{','.join(cells)}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The directory of a run of two epochs of three iterations, and its data."""
    directory = tmp_path_factory.mktemp("run")
    data = groups_csv(directory / "pumps.csv")
    config = build(
        {
            "name": "pumps", "model": {**SIZES, "num_variables": 3}, "masks": {"pattern": "deployment"},
            "data": {"file": str(data), "separator": "/", "split": [0.6, 0.2, 0.2], "units": {"flow": "m3/h"}},
            "train": {"epochs": 2, "iterations": 3, "validation_windows": 10},
        }
    )  # fmt: skip
    series = load(config.data, data)
    loop.train_network(config, series, split(series, config.data, SIZES["window"]), directory, say=lambda _: None)
    return directory, data


@pytest.fixture(scope="module")
def written(run: tuple[Path, Path]) -> tuple[str, dict[str, Any]]:
    """The page and the content of its JSON file."""
    target = write_page(run[0], windows=12, command="python -m training.fit pumps.csv")
    return target.read_text(), json.loads(target.with_name("report.json").read_text())


def test_the_page_can_be_reproduced_from_its_json(written: tuple[str, dict[str, Any]]) -> None:
    text, report = written
    assert page(report) == text


def test_the_page_is_well_formed_self_contained_and_small(written: tuple[str, dict[str, Any]]) -> None:
    text, _ = written
    seen = Balanced(text)
    assert "script" not in seen.tags
    assert "img" not in seen.tags
    assert all(link.startswith("#") and link[1:] in seen.ids for link in seen.links)
    assert len(seen.ids) == len(set(seen.ids))
    assert not re.search(r"url\(|@import|https?://", text)
    assert seen.unnamed == 0
    assert len(text) < 500_000
    assert "NaN" not in text
    assert "None" not in text


def test_names_are_escaped_and_no_local_path_is_shown(
    run: tuple[Path, Path], written: tuple[str, dict[str, Any]]
) -> None:
    text, report = written
    assert "<p&q>" not in text
    assert "&lt;p&amp;q&gt;" in text
    assert str(run[0]) not in text + json.dumps(report)
    assert report["config"]["data"]["file"] == "pumps.csv"


def test_the_page_shows_the_scores_of_the_json(written: tuple[str, dict[str, Any]]) -> None:
    text, report = written
    assert report["verdict"]["sentence"] in text
    for case in report["cases"].values():
        for scores in case["methods"].values():
            assert number(scores["mse"]) in text
            assert number(scores["mae"]) in text
            for sensor in scores["sensors"].values():
                assert number(sensor["mae_unit"]) in text
    for example in [*report["examples"]["blocks"], *report["examples"]["edge"]]:
        assert f"MAE {number(example['mae_unit'])}" in text
    for places in report["gaps"]["curves"].values():
        assert all(number(mae) in text for curve in places.values() for mae in curve["mae"]["model"])
    for row in report["dependencies"]["matrix"]:
        assert sum(row) == pytest.approx(1, abs=1e-4)
        assert all(f"{value:.2f}".removeprefix("0") in text for value in row)


def test_only_known_cells_are_scored(written: tuple[str, dict[str, Any]]) -> None:
    """The 29-row gap of north's second sensor lies in the test part, so the case `edge_all` has fewer of its cells."""
    _, report = written
    cells = {name: row["cells"] for name, row in report["cases"]["edge_all"]["methods"]["model"]["sensors"].items()}
    assert 0 < cells["<p&q>"] < cells["flow"] <= 12


def test_stored_scores_are_used_only_if_they_belong_to_the_checkpoint(run: tuple[Path, Path]) -> None:
    directory, _ = run
    state = checkpoints.load(directory / "best.pt")
    file = directory / "pumps.json"
    found = {"best_epoch": state.best_epoch, "data": {"sha256": state.source_sha256}, "cases": {}, "command": "fit"}
    file.write_text(json.dumps(found))
    assert scores_of(directory, state) == found
    file.write_text(json.dumps({**found, "best_epoch": state.best_epoch + 1}))
    assert scores_of(directory, state) is None
    file.unlink()
    assert scores_of(directory, state) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{empty}"], "expected a checkpoint"),
        (["{run}", "--contract", "{empty}"], "expected a model contract"),
        (["{run}", "--data", "{empty}/none.csv"], "expected a data file"),
        (["{run}", "--windows", "3"], "expected --windows of 10 or more, found 3"),
    ],
)
def test_a_mistake_gives_an_error_message_and_exit_code_2(
    run: tuple[Path, Path], tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([each.format(run=run[0], empty=tmp_path) for each in arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error


def widened(report: dict[str, Any], sensors: int) -> dict[str, Any]:
    """The report with many copies of the first sensor."""
    names = [f"sensor-{index}" for index in range(sensors)]
    wide = json.loads(json.dumps(report))
    first = wide["data"]["sensors"][0]
    wide["data"]["sensors"] = [{**first, "name": name} for name in names]
    for case in wide["cases"].values():
        for scores in case["methods"].values():
            scores["sensors"] = dict.fromkeys(names, scores["sensors"][first["name"]])
    for judged in wide["verdict"]["cases"].values():
        judged["sensors"] = dict.fromkeys(names, judged["sensors"][first["name"]])
    wide["gaps"]["sensors"] = dict.fromkeys(names, wide["gaps"]["sensors"][first["name"]])
    for places in wide["intervals"]["coverage"].values():
        for place in places.values():
            place["by_sensor"] = dict.fromkeys(names, place["by_sensor"][first["name"]])
    weights = np.random.default_rng(0).dirichlet(np.ones(sensors), sensors)
    wide["dependencies"]["matrix"] = weights.round(6).tolist()
    return wide


@pytest.mark.parametrize("sensors", [20, 64, 200])
def test_tables_of_many_sensors_are_folded_and_the_page_stays_below_two_megabytes(
    written: tuple[str, dict[str, Any]], sensors: int
) -> None:
    report = widened(written[1], sensors)
    text = page(report)
    Balanced(text)
    assert len(text) < 2_000_000
    assert f"8 of {sensors} sensors" in text
    assert f"all {sensors} sensors" in text


def test_a_map_of_many_sensors_covers_every_pair_once() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(70), 70)
    drawn = matrix({"matrix": weights.tolist()}, [f"s{index}" for index in range(70)])
    assert sum(int(width) for width in re.findall(r"h(\d+)v1", drawn)) == 70 * 70
