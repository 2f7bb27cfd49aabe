"""`glaim-stream audit`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.exit_codes import ANSWER_IS_NO
from glaim_stream.commands.flags import SettingsFlags, expand_flags
from glaim_stream.commands.moments import MOMENT, bounds_ms
from glaim_stream.commands.options import OFFSETS, File, Pairs, Text, parse_offsets

if TYPE_CHECKING:
    from glaim_stream.operate.audit import AuditReport


@dataclass(frozen=True)
class AuditFlags(SettingsFlags):
    """Flags of what an audit reads."""

    kafka: Text = None
    catalogue: File = None
    model_repository: File = None
    input_topic: Text = None
    output_topic: Text = None
    topic_names: Pairs = None
    consumer_group: Text = None


@expand_flags
def audit(
    *,
    stream: AuditFlags,
    from_offset: Annotated[
        list[str] | None, typer.Option("--from-offset", help=f"First input offset to read. {OFFSETS}")
    ] = None,
    until_offset: Annotated[
        list[str] | None, typer.Option(help=f"Judge only steps that have a reading below this input offset. {OFFSETS}")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            help=f"Judge only steps that begin at or after this time, in input and output: {MOMENT}.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", help=f"Judge only steps that end at or before this time, {MOMENT}."),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(min=0, help="Wait up to this many seconds for the workers to commit the whole input."),
    ] = 0.0,
    temp_folder: Annotated[
        Path | None,
        typer.Option(
            help="Folder for temporary files, some 250 bytes a reading; by default that of the system (TMPDIR)."
        ),
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="Number of examples to show of each problem.")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the whole report to this file.")] = None,
) -> None:
    """Check output, dead letters and late readings against the input, in memory that does not grow with them.

    Exit code 0: clean, 1: something is lost or wrong, 2: it cannot be determined, for
    example because the consumer group is unknown.
    """
    from glaim_stream.operate.audit import AuditRequest
    from glaim_stream.operate.audit import audit as run

    since_ms, until_ms = bounds_ms(since, until)
    request = AuditRequest(
        from_offset=parse_offsets(from_offset),
        until_offset=parse_offsets(until_offset),
        since_ms=since_ms,
        until_ms=until_ms,
        wait_s=wait,
        examples=examples,
        temp_folder=temp_folder,
    )
    report = run(stream.settings(), request)
    _print(report)
    if json_file is not None:
        partial = json_file.with_name(json_file.name + ".partial")
        partial.write_text(json.dumps(report.as_json(), indent=2) + "\n")
        partial.replace(json_file)
    if not report.clean:
        raise typer.Exit(ANSWER_IS_NO)


def _print(report: AuditReport) -> None:
    from rich.table import Table

    from glaim_stream.commands.console import result_console
    from glaim_stream.core.printable import printable
    from glaim_stream.operate.audit import PROBLEMS

    console = result_console()
    print(f"{report.input_topic} -> {report.output_topic}, consumer group {report.consumer_group}")
    counts = Table("looked at", "count")
    for name, count in report.counts.items():
        counts.add_row(name.replace("_", " "), f"{count:,}")
    for cause, count in report.dead_letters.items():
        counts.add_row(printable(f"dead letters: {cause}"), f"{count:,}")
    console.print(counts)
    problems = Table("problem", "count", "meaning")
    for name, finding in report.problems.items():
        style = "bold red" if finding.count else None
        problems.add_row(name.replace("_", " "), f"{finding.count:,}", PROBLEMS[name], style=style)
    console.print(problems)
    for name, finding in report.problems.items():
        for offence in finding.first:
            print(printable(f"{name}: {offence}"))
    for warning in report.warnings:
        print(printable(f"warning: {warning}"), file=sys.stderr)
    for part in report.partitions:
        committed = "nothing" if part.committed is None else f"{part.committed}, rebuild from {part.rebuild_from}"
        once = "" if part.once_from is None else f", exactly once from {part.once_from}"
        print(f"partition {part.partition}: read {part.begin} to {part.end}, committed {committed}{once}")
    verdict = "clean" if report.clean else "NOT clean"
    print(f"{verdict}: lost {report.lost}, holes {report.holes}, {report.seconds:.1f} s")
