"""`glaim-stream catalogue check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.options import ModelRepository

if TYPE_CHECKING:
    from glaim_stream.core.catalogue import Catalogue, Model

app = typer.Typer(help="Work with the catalogue, groups.yaml.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _catalogue() -> None:
    """Keep `check` a subcommand while it is the only one."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The catalogue, groups.yaml.")],
    model_repository: ModelRepository = None,
    group: Annotated[list[str] | None, typer.Option(help="Print which model this group gets; repeatable.")] = None,
) -> None:
    """Check a catalogue without starting anything: its rules, and whether the models' contracts fit."""
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
    unknown = [name for name in group or [] if catalogue.model_of(name) is None]
    for name in group or []:
        print(f"group {name}: {_model_name(catalogue, name)}")
    if unknown:
        known = [name for rule in catalogue.groups for name in (*rule.ids, rule.pattern) if name]
        problems = "; ".join(unknown_name("a group of the catalogue", name, known) for name in unknown)
        raise CatalogueError(f"{file}: {problems}. Their readings would be dead letters")
    print(f"{file}: good")


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
