"""`glaim-stream contract show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Look at the contract of a trained model.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _contract() -> None:
    """Keep `show` a subcommand while it is the only one."""


@app.command()
def show(model_directory: Annotated[Path, typer.Argument(help="Folder of the model, or its contract.json.")]) -> None:
    """Print a model's contract: shapes, sensors with their training statistics, and its evaluation."""
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
