"""The example of docs/extending.md, installed as another distribution, and the errors of names that do not fit."""

import json
import math
import os
import sqlite3
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from glaim_stream.build import create_experts
from glaim_stream.core import registry
from glaim_stream.core.catalogue import Model, Sensor
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.registry import EXPERTS, FORMATS, IMPUTERS, OUTPUTS
from glaim_stream.core.settings import Settings, read_settings

ROOT = Path(__file__).parents[1]
START_S, DAY, STEPS = 1_700_006_400, 24, 24 * 12  # hourly steps from midnight on
CATALOGUE = """
models:
  - {name: m, sensors: [{id: flow}], step_s: 3600, window: 48, max_gap: 20, revise_after: 2, experts: [yesterday]}
groups: [{model: m, ids: [pump-7, pump-8]}]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example as an installer leaves it."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--no-build-isolation",
    ]
    places = ["--python", sys.executable, "--target", str(folder), str(ROOT / "examples" / "extension")]
    subprocess.run([*command, *places], check=True)
    return folder


def replayed(installed: Path, folder: Path, *flags: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "glaim_stream", "replay", str(folder / "senml.jsonl"), "--partitions", "1", *flags]
    environment = os.environ | {
        "PYTHONPATH": str(installed),
        "GLAIM_CATALOGUE": str(folder / "groups.yaml"),
        "GLAIM_MODEL_REPOSITORY": str(folder),
        "GLAIM_IMPUTER": "median",
        "GLAIM_SCORE_SHARE": "1",
        **settings,
    }
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def flow(step: int) -> float:
    return round(100 + 50 * math.sin(2 * math.pi * step / DAY), 3)


def is_hole(step: int) -> bool:
    return step % 31 in (5, 6, 7)


@pytest.fixture(scope="module")
def folder(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve days of a daily wave with holes of three steps, as SenML, replayed into SQLite."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "groups.yaml").write_text(CATALOGUE)
    lines = []
    for step in range(STEPS):
        for group in ("pump-7", "pump-8"):
            if not (group == "pump-7" and is_hole(step)):
                lines.append([{"bn": f"{group}/", "bt": START_S, "n": "flow", "t": step * 3600, "v": flow(step)}])
    lines.append([{"bn": "pump-7/", "n": "flow", "t": 0}])  # without a value
    (folder / "senml.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    flags = ["--sink", f"sqlite={folder / 'rows.db'}", "--rejects", str(folder / "rejects.jsonl")]
    done = replayed(installed, folder, *flags)
    assert done.returncode == 0, done.stderr
    return folder


def rows(folder: Path) -> dict[int, tuple[float, str]]:
    """Value and method of pump-7 by step."""
    file = sqlite3.connect(folder / "rows.db")
    found = file.execute(
        "SELECT (unixepoch(ts) - ?) / 3600, value, method FROM filled WHERE \"group\" = 'pump-7'", (START_S,)
    )
    return {step: (value, method) for step, value, method in found}


def test_an_output_gets_the_rows_of_a_format(folder: Path) -> None:
    found = rows(folder)
    assert set(range(STEPS - 1)) <= set(found)
    assert all(found[step] == (flow(step), "observed") for step in range(STEPS - 1) if not is_hole(step))


def test_an_unusable_record_of_a_format_is_rejected(folder: Path) -> None:
    (letter,) = map(json.loads, (folder / "rejects.jsonl").read_text().splitlines())
    assert (letter["cause"], letter["detail"]) == ("undecodable", "not readable as senml: 'v'")


def test_an_expert_takes_over_where_it_is_better(folder: Path) -> None:
    late = {step: found for step, found in rows(folder).items() if is_hole(step) and STEPS // 2 <= step < STEPS - 1}
    assert len(late) > 9
    for step, (value, method) in late.items():
        assert method == "blend"
        assert abs(value - flow(step)) < 1.0, (step, value, flow(step))  # the median is 50 away from the wave's crest


def test_an_imputer_fills_holes(installed: Path, folder: Path, tmp_path: Path) -> None:
    lines = (folder / "senml.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "senml.jsonl").write_text("".join(lines[:30]))
    (tmp_path / "groups.yaml").write_text(CATALOGUE.replace(", experts: [yesterday]", ""))
    done = replayed(installed, tmp_path, "--sink", f"sqlite={tmp_path / 'rows.db'}", GLAIM_SCORE_SHARE="0")
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path)
    assert [method for step, (_, method) in sorted(found.items()) if is_hole(step)] == ["model"] * 3
    assert found[5][0] == flow(2)  # the median of the steps 0 to 4, which were known when step 5 became final


def test_an_output_that_holds_the_rows_is_not_written_again(installed: Path, folder: Path) -> None:
    done = replayed(installed, folder, "--sink", f"sqlite={folder / 'rows.db'}")
    assert done.returncode != 0
    assert "expected an output without rows of partition 0 from offset 0 on, found rows up to" in done.stderr


@pytest.mark.parametrize("kind", [FORMATS, OUTPUTS, EXPERTS, IMPUTERS])
def test_a_name_that_is_not_registered_lists_those_that_are(kind: registry.Registry) -> None:
    with pytest.raises(SettingsError) as raised:
        kind.find("nobody")
    assert "found 'nobody'" in str(raised.value)
    assert kind.group in str(raised.value)
    assert all(name in str(raised.value) for name in kind.names)


@pytest.mark.parametrize("kind", [FORMATS, OUTPUTS, IMPUTERS])
def test_a_name_of_ours_is_not_taken_twice(kind: registry.Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = EntryPoint(kind.names[0], "other:thing", kind.group)
    monkeypatch.setattr(registry, "installed", lambda group: (theirs,))
    with pytest.raises(SettingsError, match=r"expected it to be registered once, found glaim_stream.* and other:thing"):
        kind.find(kind.names[0])


def test_what_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "installed", lambda group: (EntryPoint("gone", "no_such_module:X", group),))
    with pytest.raises(SettingsError, match="imputer 'gone': no_such_module:X cannot be imported: No module named"):
        IMPUTERS.find("gone")


def test_all_that_is_ours_can_be_imported() -> None:
    for kind in (FORMATS, OUTPUTS, EXPERTS, IMPUTERS):
        assert all(kind.find(name) is not None for name in kind.names)


def test_a_setting_names_the_imputers_that_exist() -> None:
    with pytest.raises(SettingsError, match=r"GLAIM_IMPUTER: expected triton, local, .*last_value, found 'nobody'"):
        read_settings(imputer="nobody")


class Numbered:
    name = "numbered"

    def __init__(self, number: int) -> None:
        self.number = number


@pytest.mark.parametrize("numbers", [{"a": 2}, {"a": 7, "b": 7}])
def test_an_expert_has_a_number_of_its_own(numbers: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EXPERTS, "find", lambda name: lambda settings, models: Numbered(numbers[name]))
    model = Model(name="m", sensors=[Sensor(id="s")], step_s=1, experts=list(numbers))
    with pytest.raises(SettingsError, match=f"expected experts with numbers of their own from 3 on, found {numbers}"):
        create_experts(Settings(imputer="gaussian", score_share=1), [model])


def test_an_expert_needs_a_blend() -> None:
    model = Model(name="m", sensors=[Sensor(id="s")], step_s=1, experts=["a"])
    with pytest.raises(SettingsError, match=r"expected a blend.*found imputer interpolation with score_share 0"):
        create_experts(Settings(imputer="interpolation"), [model])


def test_experts_are_blended_in_the_order_of_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"a": 9, "b": 4}
    monkeypatch.setattr(EXPERTS, "find", lambda name: lambda settings, models: Numbered(numbers[name]))
    model = Model(name="m", sensors=[Sensor(id="s")], step_s=1, experts=["a", "b"])
    (rungs,) = create_experts(Settings(imputer="gaussian", score_share=1), [model]).values()
    assert [rung.rung.number for rung in rungs] == [4, 9]  # type: ignore[attr-defined]
