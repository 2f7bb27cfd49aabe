"""Checks of files alone: what `glaim-stream check` does without a broker."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glaim_stream.core.catalogue import Catalogue, Model


def check_catalogue(file: Path, model_repository: Path | None, groups: Collection[str]) -> None:
    """Print a catalogue's rules, whether the models' contracts fit, and which model each of the groups gets.

    Raises:
        CatalogueError: it cannot be used, or has no model for one of the groups.
        ContractError: a contract cannot be read, or does not fit.
    """
    from rich.table import Table

    from glaim_stream.commands.console import result_console
    from glaim_stream.core.catalogue import read_catalogue
    from glaim_stream.core.errors import CatalogueError, listed, unknown_name

    catalogue = read_catalogue(file)
    console = result_console()
    models = Table("model", "sensors", "step", "window", "bucket", "lateness", "final after", "max gap", "contract")
    for model in catalogue.models:
        models.add_row(
            model.name,
            str(len(model.sensors)),
            f"{model.step_s:g} s",
            str(model.window),
            model.bucket,
            f"{model.lateness_s:g} s",
            f"{model.revise_after} steps",
            f"{model.max_gap} steps",
            _contract(model, model_repository),
        )
    console.print(models)
    rules = Table("model", "group ids", "pattern")
    for rule in catalogue.groups:
        rules.add_row(rule.model, listed(rule.ids), rule.pattern or "")
    console.print(rules)
    unknown = [name for name in groups if catalogue.model_of(name) is None]
    for name in groups:
        print(f"group {name}: {_model_name(catalogue, name)}")
    if unknown:
        known = [name for rule in catalogue.groups for name in (*rule.ids, rule.pattern) if name]
        problems = "; ".join(unknown_name("a group of the catalogue", name, known) for name in unknown)
        raise CatalogueError(f"{file}: {problems}. Their readings would be dead letters")
    print(f"{file}: good")


def show_contract(model_directory: Path) -> None:
    """Print a model's contract: shapes, sensors with their training statistics, and its evaluation.

    Raises:
        ContractError: it cannot be read.
    """
    from rich.table import Table

    from glaim_stream.commands.console import result_console
    from glaim_stream.core.contract import read_contract

    contract = read_contract(model_directory)
    print(
        f"{contract.name} version {contract.version}: {len(contract.sensors)} sensors, window of {contract.window} "
        f"steps of {contract.step_s:g} s, fills the newest {contract.emitted_steps}\n"
        f"trained on {contract.data.source} ({contract.data.rows} rows, sha256 {contract.data.sha256[:12]}), "
        f"masks {', '.join(contract.masks)}\n"
        f"TorchScript sha256 {contract.torchscript_sha256[:12]}, torch {contract.torch_version}, "
        f"commit {contract.git_commit[:12]}, made {contract.created}"
    )
    table = Table("sensor", "unit", "mean", "std", "lowest", "highest", "resolution")
    for sensor in contract.sensors:
        numbers = (sensor.mean, sensor.std, sensor.minimum, sensor.maximum, sensor.resolution)
        table.add_row(sensor.id, sensor.unit, *(f"{number:.4g}" for number in numbers))
    console = result_console()
    console.print(table)
    quantiles = contract.residual_quantiles
    ages = "none" if quantiles is None else f"{quantiles.levels} at the gap ages {quantiles.gap_ages}"
    print(f"intervals: {ages}")
    console.print_json(data=contract.metrics)


def _contract(model: Model, repository: Path | None) -> str:
    from glaim_stream.core.contract import read_contract

    if repository is None:
        return "not checked"
    contract = read_contract(repository / model.name)
    model.require_contract(contract)
    return f"fits version {contract.version}"


def _model_name(catalogue: Catalogue, group: str) -> str:
    index = catalogue.model_of(group)
    return "no model" if index is None else f"model {catalogue.models[index].name}"
