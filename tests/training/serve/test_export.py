"""The exported model equals the trained one, matches its contract, and is written atomically."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glaim_stream.core.contract import read_contract, require_weights
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.models import DiskFolder, open_sealed, seal, version_numbers
from training import export
from training.checkpoint import Checkpoint
from training.config import ExportSpec, build
from training.data import MaskSpec, Scale, WindowBatch, fit_scale, load, split
from training.errors import ExportError, ExportRefused
from training.export import export_run, rehearse, write_model
from training.network import GLAIM, GLAIMConfig, build_network
from training.serve.check import check_answers, hard_windows
from training.serve.served import script, served_model
from training.serve.triton_config import libtorch_config, python_config

CONFIG = GLAIMConfig(3, window=24, d_model=8, layers=2, ffn=8, heads=2, dropout=0.1, d_psi=8, d_g=2, large_kernel=7)


def new_model() -> GLAIM:
    torch.manual_seed(3)
    return build_network(CONFIG).eval()


@pytest.fixture
def model() -> GLAIM:
    return new_model()


@pytest.fixture(scope="module")
def written(unit_scale: Scale, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's directory, alone in its repository; a test of it only reads."""
    return write(new_model(), unit_scale, tmp_path_factory.mktemp("repository"))


def state(model: GLAIM, scale: Scale) -> Checkpoint:
    numbers = {name: list(map(float, getattr(scale, name))) for name in ("mean", "std", "minimum", "maximum")}
    weights = dict(model.state_dict())
    return Checkpoint(
        config="{}", sensors=["a", "b", "c"], units=["", "hPa", "V"], scale=numbers, step_s=60.0, source="a.csv",
        source_sha256="0" * 64, rows=500, epoch=1, weights=weights, averaged=weights, optimiser={}, best_score=1.0,
        best_epoch=1, history=[], seconds=1.0, git_commit="unknown",
    )  # fmt: skip


def write(model: GLAIM, scale: Scale, root: Path, **settings: object) -> Path:
    spec = dataclasses.replace(ExportSpec(name="m", directory=str(root), emitted_steps=6), **settings)  # type: ignore[arg-type]
    shape = (1, 3, CONFIG.window)
    observed = np.random.default_rng(0).random(shape) > 0.3
    values = np.where(observed, np.float32(0.5), np.float32(0))
    warm = WindowBatch(values, observed, values, ~observed)
    return write_model(spec, state(model, scale), model, scale, MaskSpec("deployment"), warm, {"x": {}}, None)


def test_the_served_module_works_in_sensor_units(model: GLAIM, unit_scale: Scale) -> None:
    served = served_model(model, unit_scale, 6)
    _, values, observed = hard_windows(unit_scale, CONFIG.window)[1]
    mean = torch.from_numpy(unit_scale.mean).float().view(1, -1, 1)
    std = torch.from_numpy(unit_scale.std).float().view(1, -1, 1)
    with torch.inference_mode():
        answer = served(values, observed)
        expected = model((values - mean) / std, observed)[:, :, -6:] * std + mean
    torch.testing.assert_close(
        answer, torch.where(observed[:, :, -6:], values[:, :, -6:], expected), atol=2e-3, rtol=1e-5
    )
    assert torch.equal(answer[observed[:, :, -6:]], values[:, :, -6:][observed[:, :, -6:]])


def test_a_large_training_mean_takes_no_digits_of_a_row(model: GLAIM, unit_scale: Scale) -> None:
    """At 123,456,789 neighbouring float32 numbers are 8 apart; the worker has subtracted a centre from such rows."""
    meter = dataclasses.replace(unit_scale, mean=unit_scale.mean + 123_456_789)
    _, values, observed = hard_windows(unit_scale, CONFIG.window)[1]
    observed[:, :, 0] = True
    with torch.inference_mode():
        expected, answer = (served_model(model, scale, 6)(values, observed) for scale in (unit_scale, meter))
    torch.testing.assert_close(answer, expected, atol=2e-3, rtol=1e-5)


def test_the_scripted_model_equals_the_eager_one_also_on_hard_windows(model: GLAIM, unit_scale: Scale) -> None:
    served = served_model(model, unit_scale, 6)
    assert check_answers(served, script(served), unit_scale, CONFIG.window) < 1e-5
    names = [name for name, _, _ in hard_windows(unit_scale, CONFIG.window)]
    assert {
        "batch of 1",
        "batch of 8",
        "batch of 64",
        "nothing observed",
        "constant rows",
        "a single observation",
    } <= set(names)


def test_nan_counts_as_missing(model: GLAIM, unit_scale: Scale) -> None:
    served = served_model(model, unit_scale, 6)
    _, values, observed = hard_windows(unit_scale, CONFIG.window)[1]
    with_nan = torch.where(observed, values, torch.tensor(float("nan")))
    with torch.inference_mode():
        assert torch.equal(served(with_nan, torch.ones_like(observed)), served(values, observed))


def test_the_directory_is_complete_and_its_contract_fits(written: Path) -> None:
    files = {str(path.relative_to(written)) for path in written.rglob("*") if path.is_file()}
    assert files == {
        "config.pbtxt", "configs/cpu.pbtxt", "configs/python.pbtxt", "contract.json", "1/contract.json",
        "1/model.pt", "1/model.py", "1/manifest.json", "warmup/values", "warmup/observed",
    }  # fmt: skip
    contract = read_contract(written)
    require_weights(contract, (written / "1" / "model.pt").read_bytes())
    assert contract.sensor_ids == ["a", "b", "c"]
    assert contract.sensors[1].unit == "hPa"
    assert contract.sensors[1].resolution == pytest.approx(8e-4)
    assert (contract.window, contract.emitted_steps, contract.step_s) == (24, 6, 60.0)
    assert (written / "warmup" / "values").stat().st_size == 4 * 3 * 24
    assert (written / "warmup" / "observed").stat().st_size == 3 * 24
    assert (written.stat().st_mode & 0o777) == 0o755
    assert [path.name for path in written.parent.iterdir()] == ["m"]


def parsed(path: Path) -> dict[str, Any]:
    """A configuration parsed with Triton's schema, in which an unknown field is an error."""
    from google.protobuf import json_format, text_format
    from tritonclient.grpc import model_config_pb2

    config = text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())
    return json_format.MessageToDict(config, preserving_proto_field_name=True)


def test_every_configuration_has_the_required_settings(written: Path) -> None:
    gpu, cpu, python = (
        parsed(written / file) for file in ("config.pbtxt", "configs/cpu.pbtxt", "configs/python.pbtxt")
    )
    assert gpu["platform"] == cpu["platform"] == "pytorch_libtorch"
    assert python["backend"] == "python"
    assert gpu["instance_group"] == [{"kind": "KIND_GPU", "count": 1}]
    assert cpu["instance_group"] == python["instance_group"] == [{"kind": "KIND_CPU", "count": 2}]
    assert cpu["parameters"]["INTRA_OP_THREAD_COUNT"] == {"string_value": "1"}  # libtorch's name of the setting
    for config in (gpu, cpu, python):
        assert [(each["name"], each["dims"]) for each in config["input"]] == [
            ("VALUES", ["3", "24"]), ("OBSERVED", ["3", "24"]),
        ]  # fmt: skip
        assert [(each["name"], each["dims"]) for each in config["output"]] == [("IMPUTED", ["3", "6"])]
        assert config["version_policy"] == {"latest": {"num_versions": 2}}
        assert [each["batch_size"] for each in config["model_warmup"]] == [1, 8, 64]
        assert "default_queue_policy" not in config["dynamic_batching"]  # stalls of half a second
        # They differ in how the model runs; clients see the same model.
        shared = ("name", "max_batch_size", "input", "output", "dynamic_batching", "model_warmup", "version_policy")
        assert {key: config[key] for key in shared} == {key: gpu[key] for key in shared}


def test_the_number_of_loaded_versions_is_a_setting() -> None:
    for render in (libtorch_config, python_config):
        text = render("m", 3, 24, ExportSpec(name="m", served_versions=1))
        assert "version_policy: { latest { num_versions: 1 } }" in text
    with pytest.raises(ValueError, match="served_versions must be 1 or more, found 0"):
        ExportSpec(served_versions=0)


def test_a_new_version_keeps_the_old_one(model: GLAIM, unit_scale: Scale, tmp_path: Path) -> None:
    write(model, unit_scale, tmp_path)
    target = write(model, unit_scale, tmp_path, version=2)
    assert (target / "1" / "model.pt").is_file()
    assert read_contract(target).version == 2


def test_every_version_matches_its_manifest_with_the_configuration_that_it_shares(
    model: GLAIM, unit_scale: Scale, tmp_path: Path
) -> None:
    target = write(model, unit_scale, tmp_path, version=1)
    (target / "config.pbtxt").write_text("an operator's instance count")
    with pytest.raises(ModelError, match=r"m version 1 is refused: .*config\.pbtxt"):
        write(model, unit_scale, tmp_path, version=2)
    assert version_numbers(target) == [1]
    seal(target, 1)
    write(model, unit_scale, tmp_path, version=2)
    trust = Trust(require_manifest=True)
    for version in (1, 2):
        sealed = open_sealed(DiskFolder(target), "m", version, trust, "here")
        assert sealed is not None
        assert sealed.contents["config.pbtxt"] == b"an operator's instance count"
    write(model, unit_scale, tmp_path, version=2, max_batch=128)  # replaces the version, and the shared configuration
    for version in (1, 2):
        sealed = open_sealed(DiskFolder(target), "m", version, trust, "here")
        assert sealed is not None
        assert b"max_batch_size: 128" in sealed.contents["config.pbtxt"]


def test_a_model_whose_scripted_output_differs_is_not_written(
    model: GLAIM, unit_scale: Scale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(model, unit_scale, tmp_path)
    before = (tmp_path / "m" / "contract.json").read_bytes()
    torch.manual_seed(4)
    other = script(served_model(build_network(CONFIG).eval(), unit_scale, 6))
    monkeypatch.setattr(export, "script", lambda served: other)
    with pytest.raises(ExportError, match="differ by"):
        write(model, unit_scale, tmp_path)
    assert (tmp_path / "m" / "contract.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_model_that_answers_nan_is_not_written(model: GLAIM, unit_scale: Scale, tmp_path: Path) -> None:
    with torch.no_grad():
        model.gaterecon.out.bias.fill_(float("nan"))
    with pytest.raises(ExportError, match="finite"):
        write(model, unit_scale, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("steps", [0, 25])
def test_emitted_steps_outside_the_window_are_rejected(model: GLAIM, unit_scale: Scale, steps: int) -> None:
    with pytest.raises(ExportError, match=r"1\.\.24"):
        served_model(model, unit_scale, steps)


def test_the_scripted_model_has_the_tensor_names_of_triton(written: Path) -> None:
    schema = torch.jit.load(str(written / "1" / "model.pt")).forward.schema
    assert [argument.name for argument in schema.arguments][1:] == ["VALUES", "OBSERVED"]
    text = (written / "contract.json").read_text()
    assert json.loads(text)["masks"] == MaskSpec("deployment").names


SIZES = {"window": 24, "d_model": 8, "layers": 1, "ffn": 8, "heads": 2, "d_psi": 8, "d_g": 2, "large_kernel": 7}


def trained(csv: Path, root: Path, **export: object) -> Checkpoint:
    """A checkpoint of an untrained network for the three sensors of `csv`."""
    tables: dict[str, Any] = {"name": "m", "data": {"file": str(csv)}, "model": {"num_variables": 3, **SIZES}}
    config = build({**tables, "export": {"directory": str(root), "emitted_steps": 6, **export}})
    series = load(config.data, csv)
    scale = fit_scale(split(series, config.data, 24).train)
    torch.manual_seed(0)
    checkpoint = state(build_network(config.model), scale)
    return dataclasses.replace(
        checkpoint, config=config.to_json(), sensors=list(series.sensors), source=csv.name, source_sha256=series.sha256
    )


def scored(mae: float, names: tuple[str, ...] = ("s0", "s1", "s2")) -> dict[str, Any]:
    """An evaluation with an error of 1 for both baselines and `mae` for the model, half of it for s0."""

    def method(error: float) -> dict[str, Any]:
        rows = {name: {"cells": 10, "mse": error, "mae": error * (0.5 if name == "s0" else 1)} for name in names}
        return {"mse": error, "mae": error, "sensors": rows}

    methods = {"model": method(mae), "interpolation": method(1.0), "last_value": method(1.0)}
    for name in ("interpolation", "last_value"):
        methods[name]["sensors"]["s0"]["mae"] = 1.0
    return {"cases": {"edge_one": {"label": "newest step, one sensor", "cells": 30, "methods": methods}}}


def test_a_winning_model_is_exported_and_a_losing_one_only_by_force(wide_csv: Path, tmp_path: Path) -> None:
    """A losing model is rejected and changes nothing in the repository, unless its export is forced."""
    root, messages = tmp_path / "repo", list[str]()
    checkpoint = trained(wide_csv, root, version=0)
    export_run(checkpoint, scored(0.5), most=5, say=messages.append)
    assert messages == []
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}

    with pytest.raises(ExportRefused) as rejected:
        export_run(checkpoint, scored(1.5), most=5, say=messages.append)
    for part in (
        "m does not beat the baselines", "newest step, one sensor: MSE 1.500 against 1.000 of interpolation",
        "behind in MAE for s1, s2", f"{root / 'm'} is unchanged",
    ):  # fmt: skip
        assert part in str(rejected.value)
    assert rejected.value.exit_code == 3
    assert messages == []
    with pytest.raises(ExportError, match=r"another export\.name"):
        export_run(dataclasses.replace(checkpoint, sensors=["s0", "s1", "s3"]), scored(0.5), most=5)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before

    target = export_run(checkpoint, scored(1.5), most=5, force=True, say=messages.append)
    contract = read_contract(target)
    assert contract.version == 2
    assert contract.metrics["edge_one"]["model"] == {"mse": 1.5, "mae": 1.5}
    assert (target / "1" / "model.pt").read_bytes() == before[target / "1" / "model.pt"]
    assert messages[0].startswith("forced: m does not beat the baselines")
    assert messages[1:] == [
        "note: version 1 did better on the same test cells, edge_one: MSE 0.500 against 1.500 now, "
        "MAE 0.500 against 1.500 now"
    ]
    assert export.worse_than_before(target, checkpoint, scored(1.6)) != []
    assert export.worse_than_before(target, dataclasses.replace(checkpoint, source_sha256="other"), scored(1.6)) == []


def test_an_export_that_would_fail_after_training_fails_before_it(wide_csv: Path, tmp_path: Path) -> None:
    checkpoint = trained(wide_csv, tmp_path)
    config = build(json.loads(checkpoint.config))
    series = load(config.data, wide_csv)
    rehearse(config, series)
    with pytest.raises(ExportError, match="emitted_steps must lie in"):
        rehearse(dataclasses.replace(config, export=dataclasses.replace(config.export, emitted_steps=99)), series)
    assert not list(tmp_path.glob("m*"))  # nothing is written
    export_run(checkpoint, scored(0.5), most=5, say=lambda _: None)
    with pytest.raises(ExportError, match=r"another export\.name"):
        rehearse(dataclasses.replace(config, model=dataclasses.replace(config.model, window=32)), series)


def test_intervals_from_few_windows_are_reported(
    wide_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    monkeypatch.setattr(export, "FEW_WINDOWS", 10_000)
    export_run(trained(wide_csv, tmp_path), scored(0.5), most=5, say=messages.append)
    assert any("the intervals rest on" in line for line in messages)


def test_stored_scores_of_other_weights_are_not_used(
    wide_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = trained(wide_csv, tmp_path / "repo")
    monkeypatch.setattr(export, "evaluate_run", lambda state, data: {"anew": True})
    assert export.scores(tmp_path, checkpoint) == {"anew": True}
    report = {"best_epoch": checkpoint.best_epoch, "data": {"sha256": checkpoint.source_sha256}}
    (tmp_path / "m.json").write_text(json.dumps(report))
    assert export.scores(tmp_path, checkpoint) == report
    assert export.scores(tmp_path, dataclasses.replace(checkpoint, best_epoch=9)) == {"anew": True}
