"""Exports a checkpoint to a directory that Triton serves, with checks.

    python -m training.export build/runs/plant-pump

Writes model_repo/<name>/ with config.pbtxt (GPU), configs/{cpu,python}.pbtxt (CPU), contract.json, warm-up data, and
<version>/{model.pt, model.py, contract.json, manifest.json}. The served module takes and returns sensor units: it
includes the standardisation of the training data and the normalisation of each window. It is scripted, saved, loaded
again, and compared with the plain module on batches of 1, 8 and 64 and on difficult windows; if they differ, nothing is
written.

A model that does not beat the baselines on the test part is refused (exit code 3, see `training.serve.verdict`), and
the served versions stay; --force exports it nevertheless. A new version goes beside the existing ones: `export.version
= 0` takes the next number. All versions of a model share one configuration and one catalogue entry, so a version with
other sensors, another window or step is an error: it is another model and needs another name.

Exit codes: 0 written, 2 error, 3 refused.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glaim_stream.core.contract import (
    CONTRACT_FILE,
    Contract,
    DataFingerprint,
    ResidualQuantiles,
    SensorContract,
    file_digest,
    read_contract,
    sensors_digest,
    write_contract,
)
from glaim_stream.models import require_known_operators, staging
from training import checkpoint as checkpoints
from training.checkpoint import Checkpoint
from training.config import ExportSpec, RunConfig, data_path
from training.data import GroupSeries, MaskSpec, Scale, WindowBatch, WindowSet, hide, load, split
from training.errors import ExportError, ExportRefused, exits_with_errors
from training.evaluate import evaluate_run, model_fill, restore
from training.network import GLAIM, build_network
from training.runtime import keep_memory
from training.serve import (
    FEW_WINDOWS,
    check_answers,
    compare,
    judge,
    libtorch_config,
    libtorch_cpu_config,
    placed,
    put,
    python_config,
    residual_quantiles,
    script,
    served_model,
    write_manifest,
    write_warmup,
)

Say = Callable[[str], None]
BACKEND = Path(__file__).parent / "serve" / "triton_python_backend.py"


def write_model(
    spec: ExportSpec, state: Checkpoint, model: GLAIM, scale: Scale, masks: MaskSpec, warm: WindowBatch,
    metrics: Mapping[str, Any], quantiles: ResidualQuantiles | None,
) -> Path:  # fmt: skip
    """Write a version of model_repo/<name> atomically; other versions of the same model are kept.

    Raises:
        ExportError: the scripted module differs from the plain one, or the version does not fit beside the others.
        ModelError: the network uses an operator that is not allowed.
    """
    spec = placed(spec, model.window, state.sensors, state.step_s)
    served = served_model(model, scale, spec.emitted_steps)
    root = Path(spec.directory)
    target = root / spec.name
    with staging(root) as folder:
        made = folder / spec.name
        version_folder = made / str(spec.version)
        version_folder.mkdir(parents=True)
        weights = version_folder / "model.pt"
        script(served).save(str(weights))
        loaded: torch.jit.ScriptModule = torch.jit.load(str(weights))
        check_answers(served, loaded, scale, model.window)
        shutil.copyfile(BACKEND, version_folder / "model.py")
        sensors = len(state.sensors)
        (made / "config.pbtxt").write_text(libtorch_config(spec.name, sensors, model.window, spec))
        (made / "configs").mkdir()
        for file, text in (
            ("cpu.pbtxt", libtorch_cpu_config(spec.name, sensors, model.window, spec)),
            ("python.pbtxt", python_config(spec.name, sensors, model.window, spec)),
        ):
            (made / "configs" / file).write_text(text)
        values = warm.values[0] * scale.std[:, None] + scale.mean[:, None]
        write_warmup(made, values.astype(np.float32), warm.observed[0])
        contract = _contract(spec, state, model, scale, masks, metrics, quantiles, file_digest(weights))
        for place in (version_folder, made):  # the version's contract, and the model's while no newer one is there
            write_contract(contract, place)
        require_known_operators(weights.read_bytes())
        write_manifest(made, target, spec.version)
        put(made, target, spec.version)
    return target


def _contract(
    spec: ExportSpec, state: Checkpoint, model: GLAIM, scale: Scale, masks: MaskSpec,
    metrics: Mapping[str, Any], quantiles: ResidualQuantiles | None, digest: str,
) -> Contract:  # fmt: skip
    sensors = [
        SensorContract(
            id=name,
            unit=unit,
            mean=float(scale.mean[row]),
            std=float(scale.std[row]),
            minimum=float(scale.minimum[row]),
            maximum=float(scale.maximum[row]),
            resolution=1e-4 * float(scale.std[row]),
        )
        for row, (name, unit) in enumerate(zip(state.sensors, state.units, strict=True))
    ]
    return Contract(
        name=spec.name,
        version=spec.version,
        window=model.window,
        emitted_steps=spec.emitted_steps,
        step_s=state.step_s,
        sensors=sensors,
        sensors_sha256=sensors_digest(state.sensors),
        masks=masks.names,
        metrics=dict(metrics),
        residual_quantiles=quantiles,
        data=DataFingerprint(source=state.source, rows=state.rows, sha256=state.source_sha256),
        torchscript_sha256=digest,
        git_commit=checkpoints.git_commit(),
        torch_version=torch.__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def brief_metrics(report: Mapping[str, Any]) -> dict[str, Any]:
    """The averages of an evaluation, for the contract: case -> method -> mse and mae, standardised."""
    return {
        case: {name: {k: round(float(score[k]), 6) for k in ("mse", "mae")} for name, score in found["methods"].items()}
        for case, found in report.get("cases", {}).items()
    }


def destination(config: RunConfig, sensors: Sequence[str], step_s: float, directory: str = "") -> ExportSpec:
    """Complete the run's export section: name, repository and version.

    Raises:
        ExportError: the model does not fit beside the existing versions.
    """
    spec = dataclasses.replace(
        config.export, name=config.export.name or config.name, directory=directory or config.export.directory
    )
    return placed(spec, config.model.window, sensors, step_s)


def rehearse(config: RunConfig, series: GroupSeries, directory: str = "") -> None:
    """Check before hours of training for later failures, by placing and scripting an untrained network.

    Raises:
        ExportError: the model would not fit beside the existing versions, or cannot be served.
        ModelError: the repository cannot be written to.
    """
    spec = destination(config, series.sensors, series.step_s, directory)
    with staging(Path(spec.directory)):  # a read-only volume fails now instead of after the training
        pass
    model = build_network(dataclasses.replace(config.model, num_variables=len(series.sensors)))
    ones = np.ones(len(series.sensors))
    script(served_model(model, Scale(ones, ones, ones, ones), spec.emitted_steps))


def export_run(
    state: Checkpoint, report: Mapping[str, Any], *, data: Path | None = None, directory: str = "", most: int = 600,
    force: bool = False, say: Say = print,
) -> Path:  # fmt: skip
    """Export a checkpoint: apply the verdict, measure residuals on the validation part, write the model's directory.

    Args:
        state: The weights to serve.
        report: Evaluation of the weights on the test part by `training.evaluate`.
        data: The data file, if it has moved since the training.
        directory: The model repository, if it is not the run's own.
        most: Windows for each gap age of the residuals.
        force: Export even a model that is no better than the baselines.
        say: Receives each note for the operator as a line.

    Raises:
        ExportRefused: the model is no better than the baselines; nothing was written.
        ExportError: the model cannot be served, or does not fit beside the existing versions.
        DataError: the data cannot be read.
    """
    config, model, scale = restore(state)
    spec = destination(config, state.sensors, state.step_s, directory)
    target = Path(spec.directory) / spec.name
    verdict = judge(report)
    if verdict.refusals:
        stays = f"; {target} is unchanged" if target.exists() else ""
        sentence = f"{config.name} does not beat the baselines: {'; '.join(verdict.refusals)}"
        if not force:
            raise ExportRefused(f"{sentence}. Not exported{stays}")
        say(f"forced: {sentence}")
    for note in verdict.notes:
        say(f"note: {note}")
    for line in worse_than_before(target, state, report):
        say(f"note: {line}")
    series = load(config.data, data or data_path(config.data.file))
    if list(series.sensors) != state.sensors:
        raise ExportError(f"the checkpoint was trained on sensors {state.sensors}, the data has {list(series.sensors)}")
    parts = split(series, config.data, config.model.window)
    windows = WindowSet(scale.apply(parts.validation.values), config.model.window, 1, config.train.minimum_observed)
    if len(windows) < FEW_WINDOWS:
        say(
            f"note: the intervals rest on {len(windows)} validation windows only and will be too narrow: give the "
            f"validation part more rows, or data.history = {config.model.window}"
        )
    lag = max(1, spec.emitted_steps // 2)
    quantiles = residual_quantiles(windows, model_fill(model), scale, lag=lag, most=most, seed=config.train.seed)
    warm_values = windows.take(windows.spread(1))
    rng = np.random.default_rng(config.train.seed)
    warm = hide(warm_values, config.masks.sample(rng, np.isfinite(warm_values)))
    return write_model(spec, state, model, scale, config.masks, warm, brief_metrics(report), quantiles)


def worse_than_before(target: Path, state: Checkpoint, report: Mapping[str, Any]) -> list[str]:
    """List the cases in which the present version did better on the same data and the same hidden cells.

    They are notes and no reason to refuse: one or two percent are random variation, and the operator may have traded
    one case for another on purpose. Scores on other data cannot be compared.
    """
    if not (target / CONTRACT_FILE).is_file():
        return []
    before = read_contract(target)
    if before.data.sha256 != state.source_sha256:
        return []
    lines = compare(before.metrics, brief_metrics(report))
    return [f"version {before.version} did better on the same test cells, {line}" for line in lines]


def scores(run: Path, state: Checkpoint, *, data: Path | None = None) -> Mapping[str, Any]:
    """Read the evaluation beside a checkpoint, or make one if it is absent or scored other weights."""
    evaluation = run / f"{json.loads(state.config)['name']}.json"
    if evaluation.is_file():
        report: Mapping[str, Any] = json.loads(evaluation.read_text())
        if report.get("best_epoch") == state.best_epoch and report["data"]["sha256"] == state.source_sha256:
            return report
    return evaluate_run(state, data=data)


@exits_with_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m training.export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="a run's directory: best.pt and, if it was evaluated, <name>.json")
    parser.add_argument("--data", type=Path, help="the data file, if it has moved since the training")
    parser.add_argument("--model-repo", default="", help="where to write (default: the run's export.directory)")
    parser.add_argument("--force", action="store_true", help="export even a model that does not beat the baselines")
    given = parser.parse_args(arguments)
    keep_memory()
    torch.set_num_threads(1)
    state = checkpoints.load(given.run / "best.pt")
    report = scores(given.run, state, data=given.data)
    written = export_run(state, report, data=given.data, directory=given.model_repo, force=given.force)
    print(f"wrote {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
