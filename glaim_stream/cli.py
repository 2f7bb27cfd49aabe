"""The command `glaim-stream`."""
from __future__ import annotations
import typer
from glaim_stream.settings import read_settings
cli = typer.Typer(no_args_is_help=True)
@cli.command()
def worker() -> None:
    from glaim_stream.worker import run
    run(read_settings())
@cli.command()
def tail() -> None:
    pass
def main() -> None:
    cli()
