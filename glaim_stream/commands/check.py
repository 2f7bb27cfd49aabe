"""`glaim-stream check`."""

from __future__ import annotations

import asyncio
import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from glaim_stream.commands.flags import expand_flags
from glaim_stream.commands.options import StreamFlags
from glaim_stream.operate.check import Grade, Subject


@expand_flags
def check(
    *,
    stream: StreamFlags,
    only: Annotated[list[Subject] | None, typer.Option(help="Check only this subject; repeatable.")] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help="With --catalogue alone: print which model this group gets; repeatable."),
    ] = None,
    contract: Annotated[
        Path | None,
        typer.Option(help="Only print the contract of a model: its folder, or its contract.json."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of lines.")] = False,
) -> None:
    """Check everything that a worker with these settings needs, and change nothing.

    Checks the catalogue and the contracts, Kafka with its topics and this user's rights, a real inference by every
    model, and the TLS files of the metrics port. Prints one line per check: ok, warning (a worker runs, but something
    differs from what the settings suggest) or failed. Exit code 1 when something failed.

    With --catalogue alone, or with --model-repository, it reads these files and nothing else, and prints the rules and
    whether the models' contracts fit.
    """
    from glaim_stream.commands.offline import check_catalogue, show_contract
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.operate.check import check as run

    if contract is not None:
        show_contract(contract)
        return
    files_alone = stream == StreamFlags(catalogue=stream.catalogue, model_repository=stream.model_repository)
    if stream.catalogue is not None and files_alone and not only and not json:
        check_catalogue(stream.catalogue, stream.model_repository, group or [])
        return
    if group:
        raise SettingsError("--group needs --catalogue, and no other flags but --model-repository")
    findings = asyncio.run(run(stream.settings(), only or []))
    good = all(finding.outcome is not Grade.FAILED for finding in findings)
    if json:
        print(json_format.dumps({"good": good, "checks": [finding.as_json() for finding in findings]}, indent=2))
    else:
        for finding in findings:
            print(f"{finding.outcome:<8} {finding}")
    if not good:
        raise typer.Exit(1)
