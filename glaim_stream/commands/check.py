"""`glaim-stream check`."""

from __future__ import annotations

import asyncio
import json as json_format
from typing import Annotated

import typer

from glaim_stream.commands.flags import expand_flags
from glaim_stream.commands.options import StreamFlags
from glaim_stream.operate.check.findings import Outcome, Subject


@expand_flags
def check(
    *,
    stream: StreamFlags,
    only: Annotated[list[Subject] | None, typer.Option(help="Check only this subject; repeatable.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of lines.")] = False,
) -> None:
    """Check everything that a worker with these settings needs, and change nothing.

    Checks the catalogue and the contracts, Kafka with its topics and this user's rights, a real inference by every
    model, and the TLS files of the metrics port. Prints one line per check: ok, warning (a worker runs, but something
    differs from what the settings suggest) or failed. Exit code 1 when something failed.
    """
    from glaim_stream.operate.check.run import check as run

    findings = asyncio.run(run(stream.settings(), only or []))
    good = all(finding.outcome is not Outcome.FAILED for finding in findings)
    if json:
        print(json_format.dumps({"good": good, "checks": [finding.as_json() for finding in findings]}, indent=2))
    else:
        for finding in findings:
            print(f"{finding.outcome:<8} {finding}")
    if not good:
        raise typer.Exit(1)
