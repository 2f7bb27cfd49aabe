"""The pipelines and ladders that the builder makes of settings, and the packages that it imports."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from glaim_stream.build import ServedRung, create_ladder, create_pipeline, read_contracts
from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.errors import ContractError
from glaim_stream.core.settings import read_settings
from glaim_stream.imputers import State, Windows
from glaim_stream.windows import error_steps
from tests.support import catalogue as catalogue_of
from tests.support import contract

CATALOGUE = """
models:
  - {name: m, step_s: 60, window: 6, revise_after: 2, max_gap: 3, sensors: [{id: a}, {id: b}]}
groups: [{model: m, pattern: "g*"}]
"""
START_MS = 1_700_000_000_000 // 60_000 * 60_000
REPLAY = """
import sys
from glaim_stream.commands.main import app
app(sys.argv[1:], standalone_mode=False)
print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    path = tmp_path / "groups.yaml"
    path.write_text(CATALOGUE)
    return path


def test_a_replay_with_interpolation_imports_neither_faust_nor_torch_nor_the_triton_client(
    catalogue: Path, tmp_path: Path
) -> None:
    lines = [
        json.dumps({"group": "g1", "sensor": "a", "ts": START_MS + 60_000 * n, "value": n}) for n in range(6) if n != 2
    ]
    (tmp_path / "messages.jsonl").write_text("\n".join(lines))
    arguments = ["replay", tmp_path / "messages.jsonl", "--out", tmp_path / "rows.csv"]
    arguments += ["--catalogue", catalogue, "--model-repository", tmp_path, "--imputer", "interpolation"]
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    modules = {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}
    assert not modules & {"faust", "mode", "torch", "tritonclient", "grpc"}
    assert {"glaim_stream", "numpy"} <= modules
    assert "interpolation" in (tmp_path / "rows.csv").read_text()


def rungs(**settings: object) -> list[str]:
    return [rung.name for rung in create_ladder(read_settings(**settings), {}).rungs]


def test_interpolation_is_the_fallback_of_every_model_and_other_imputers_have_none(tmp_path: Path) -> None:
    assert rungs(imputer="triton") == ["triton", "interpolation"]
    assert rungs(imputer="local", model_repository=tmp_path) == ["local", "interpolation"]
    assert rungs(imputer="gaussian", model_repository=tmp_path) == ["gaussian", "interpolation"]
    for imputer in ("interpolation", "last_value"):
        assert rungs(imputer=imputer) == [imputer]


def test_without_probes_the_closed_form_is_a_rung(tmp_path: Path) -> None:
    assert rungs(imputer="triton", score_share=0) == ["triton", "gaussian", "interpolation"]


def test_with_probes_interpolation_is_the_only_rung_below_a_closed_form_without_a_network(tmp_path: Path) -> None:
    assert rungs(imputer="gaussian", model_repository=tmp_path, score_share=0.05) == ["interpolation"]


@pytest.mark.parametrize(
    ("imputer", "share", "expected"),
    [
        ("local", None, True), ("local", 0.05, True), ("local", 0.0, False),
        ("gaussian", None, False), ("gaussian", 0.05, True), ("gaussian", 0.0, False),
        ("interpolation", 0.05, False),
    ],
)  # fmt: skip
def test_with_probes_the_closed_form_is_an_expert(
    imputer: str, share: float | None, expected: bool, catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glaim_stream import build

    monkeypatch.setattr(build, "read_contracts", lambda settings, catalogue: {})
    settings = read_settings(catalogue=catalogue, model_repository=tmp_path, imputer=imputer, score_share=share)
    pipeline, _ = create_pipeline(settings)
    assert (pipeline.form_expert is not None) == expected
    assert pipeline.scored == expected


@pytest.mark.parametrize(("imputer", "expected"), [("triton", ["m"]), ("gaussian", []), ("interpolation", [])])
def test_a_network_serves_a_model_with_a_contract_where_the_imputer_is_one(
    imputer: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glaim_stream import build

    monkeypatch.setattr(build, "read_contracts", lambda settings, catalogue: {"m": contract(2, window=6)})
    settings = read_settings(model_repository=tmp_path, imputer=imputer)
    assert create_pipeline(settings, catalogue_of(sensors=2))[0].networks == expected


@pytest.mark.parametrize("imputer", ["local", "gaussian", "interpolation"])
@pytest.mark.parametrize("share", [0.0, 0.05])
@pytest.mark.parametrize("topic", ["", "quality"])
def test_a_rebuild_reads_as_far_back_as_the_pipeline_looks(
    imputer: str, share: float, topic: str, catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glaim_stream import build

    monkeypatch.setattr(build, "read_contracts", lambda settings, catalogue: {})
    settings = read_settings(
        catalogue=catalogue, model_repository=tmp_path, imputer=imputer, score_share=share, quality_topic=topic
    )
    pipeline, _ = create_pipeline(settings, quality=True)
    read = error_steps(scored=settings.scored, quality=settings.quality)
    assert pipeline.error_steps == read


def test_only_a_rung_served_by_triton_can_be_checked(tmp_path: Path) -> None:
    ladder = create_ladder(read_settings(imputer="triton", score_share=0, model_repository=tmp_path), {})
    assert [isinstance(rung, ServedRung) for rung in ladder.rungs] == [True, False, False]


async def test_failures_and_states_of_a_rung_are_reported() -> None:
    failures, states = list[tuple[str, str]](), list[tuple[str, str, State]]()
    ladder = create_ladder(
        read_settings(imputer="triton", triton="localhost:1", triton_deadline_s=0.2),
        {"m": contract(1)},
        on_failure=lambda *names: failures.append(names),
        on_state=lambda *said: states.append(said),
    )
    values = np.ones((1, 1, 6), np.float32)
    await ladder.impute(Windows("learned", values, values > 0, 1))
    assert (failures, states) == ([], []), "a model without a contract has no network, which is no failure"
    await ladder.impute(Windows("m", values, values > 0, 1))
    await ladder.close()
    assert failures == [("triton", "m")]
    assert [(rung, model) for rung, model, _ in states] == [("triton", "m")]


def test_a_learned_model_needs_no_contract(tmp_path: Path) -> None:
    settings = read_settings(imputer="triton", model_repository=tmp_path)
    assert dict(read_contracts(settings, catalogue_of(learn=True))) == {}


def test_a_contract_is_needed_only_with_a_model(catalogue: Path, tmp_path: Path) -> None:
    found = read_catalogue(catalogue)
    settings = {"catalogue": catalogue, "model_repository": tmp_path}
    assert dict(read_contracts(read_settings(imputer="interpolation", **settings), found)) == {}
    with pytest.raises(ContractError):
        read_contracts(read_settings(imputer="triton", **settings), found)


def test_messages_leave_room_for_their_envelope_below_the_broker_limit(catalogue: Path, tmp_path: Path) -> None:
    settings = read_settings(
        catalogue=catalogue, model_repository=tmp_path, imputer="interpolation", max_message_bytes=50_000
    )
    pipeline, _ = create_pipeline(settings)
    assert pipeline._max_message_bytes == 48_000


@pytest.mark.parametrize(
    ("imputer", "requested", "expected"),
    [("local", True, True), ("local", False, False), ("gaussian", True, True), ("interpolation", True, False)],
)
def test_upgrades_need_a_model_or_a_form_and_can_be_disabled(
    imputer: str, requested: bool, expected: bool, catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glaim_stream import build

    monkeypatch.setattr(build, "read_contracts", lambda settings, catalogue: {})
    settings = read_settings(catalogue=catalogue, model_repository=tmp_path, imputer=imputer)
    pipeline, _ = create_pipeline(settings, upgrades=requested)
    assert pipeline._upgrades is expected
    assert create_pipeline(settings)[0]._upgrades is (imputer != "interpolation"), "upgrades are enabled by default"
