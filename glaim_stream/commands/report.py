"""`glaim-stream report`: how complete the readings of a topic or a file are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.exit_codes import ANSWER_IS_NO
from glaim_stream.commands.files import PIPE, Detected, content_of, opened
from glaim_stream.commands.flags import SettingsFlags, expand_flags
from glaim_stream.commands.moments import MOMENT, bounds_ms
from glaim_stream.commands.options import File, Pairs, Text
from glaim_stream.commands.sources import naming_group_column

if TYPE_CHECKING:
    from glaim_stream.operate.completeness import CompletenessReport


@dataclass(frozen=True)
class ReportTopicFlags(SettingsFlags):
    """Flags of the topics that are read."""

    kafka: Text = None
    output_topic: Text = None
    topic_names: Pairs = None
    catalogue: File = None


@dataclass(frozen=True)
class ReportFileFlags(Detected):
    """Flags of a file."""

    file_timezone: Annotated[
        str | None,
        typer.Option(
            help="Zone of the file's times that name none. [default: that in the name of their column, or --timezone]"
        ),
    ] = None
    group_column: Annotated[
        str | None, typer.Option(help="Column that names the group of a row. [default: detected]")
    ] = None
    step: Annotated[
        float | None, typer.Option(help="Seconds from one reading to the next. [default: found from the times]")
    ] = None
    fill: Annotated[
        bool, typer.Option("--fill", help="Fill the holes as `glaim-stream fill` does, and count by which method.")
    ] = False


@expand_flags
def report(
    *,
    file: Annotated[
        str | None,
        typer.Argument(
            help="A file of readings, as for fill; `-`: standard input. Without it the output topic is read.",
            show_default=False,
        ),
    ] = None,
    stream: ReportTopicFlags,
    since: Annotated[
        str | None, typer.Option("--since", help=f"Only steps that begin at or after this time, {MOMENT}.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only steps that end at or before this time, likewise.")] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Only this group, or the groups of a pattern such as 'pump-*'; repeatable.")
    ] = None,
    timezone: Annotated[str, typer.Option(help="Zone whose midnight begins a day, such as Europe/Berlin.")] = "UTC",
    worst: Annotated[int, typer.Option(min=1, help="How many sensors to print, the least complete first.")] = 20,
    json_file: Annotated[
        str | None, typer.Option("--json", help="Write every figure to this JSON file; `-`: standard output.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to look at, one HTML file.")] = None,
    temp_folder: Annotated[
        Path | None,
        typer.Option(help="Folder for temporary files, some 100 bytes a row; by default that of the system (TMPDIR)."),
    ] = None,
    reading: ReportFileFlags,
) -> None:
    """Report by sensor and day what was expected, arrived, late, filled by which method, and null, and the longest gap.

    Figures are of the output topic and the late topic, or of a file; reading changes nothing. docs/completeness.md
    defines each. Exit code 1: there was no row or reading in the range, or some messages could not be read.
    """
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.core.times import zone_of

    zone = zone_of(timezone)
    since_ms, until_ms = bounds_ms(since, until, timezone=timezone)
    _require_targets(file, json_file, html)
    if file is None:
        given = [each.name for each in fields(reading) if getattr(reading, each.name)]
        if given:
            raise SettingsError(f"expected a file with --{given[0].replace('_', '-')}, found none")
        from glaim_stream.commands.console import progress_bar
        from glaim_stream.operate.completeness import ReportRequest, topic_report

        settings = stream.settings()
        request = ReportRequest(zone, since_ms, until_ms, tuple(group or ()), temp_folder)
        with progress_bar(settings.output_topic, "messages") as progress:
            made = topic_report(settings, request, on_progress=progress)
    else:
        named = [each.name for each in fields(stream) if getattr(stream, each.name) is not None]
        if named:
            raise SettingsError(f"expected a file or --{named[0].replace('_', '-')}, found both")
        made = _of_file(file, reading, timezone, since_ms, until_ms, group or [])
    if not made.sensors:
        print(f"error: {made.title}: {_nothing(made, since, until)}", file=sys.stderr)
        raise typer.Exit(ANSWER_IS_NO)
    _write(made, json_file, html, worst)
    if made.unread:
        raise typer.Exit(ANSWER_IS_NO)


def _of_file(
    file: str,
    reading: ReportFileFlags,
    timezone: str,
    since_ms: int | None,
    until_ms: int | None,
    groups: Sequence[str],
) -> CompletenessReport:
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.core.times import zone_of
    from glaim_stream.operate.completeness import FileRequest, file_report

    if reading.step is not None and not 0.001 <= reading.step < float("inf"):
        raise SettingsError(f"expected --step of at least 0.001 seconds, found {reading.step:g}")
    request = FileRequest(
        zone_of(timezone),
        since_ms,
        until_ms,
        groups,
        None if reading.step is None else round(reading.step * 1000),
        reading.fill,
    )
    with naming_group_column(), progress_bar("fill", "parts") as progress:
        return file_report(
            "standard input" if file == PIPE else Path(file).name,
            content_of(file),
            request,
            progress=progress,
            timezone=reading.file_timezone or (None if timezone == "UTC" else timezone),
            group=reading.group_column,
            **reading.stated,
        )


def _require_targets(file: str | None, json_file: str | None, html: Path | None) -> None:
    """Require that the files to write are different ones, and none the input.

    Raises:
        SettingsError: two are one.
    """
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.tables import same_file

    paths = [Path(each) for each in (file, json_file, html) if each is not None and str(each) != PIPE]
    for number, path in enumerate(paths):
        if any(same_file(path, each) for each in paths[:number]):
            raise SettingsError(f"{path} is also the input or another output: name another file")


def _nothing(made: CompletenessReport, since: str | None, until: str | None) -> str:
    stretch = " and ".join(f"{word} {text}" for word, text in (("since", since), ("until", until)) if text is not None)
    return f"expected rows{' ' + stretch if stretch else ''}, found none"


def _write(made: CompletenessReport, json_file: str | None, html: Path | None, worst: int) -> None:
    from glaim_stream.commands.report_text import show

    # The files first: whoever reads the table may stop early, as `| head` does.
    if json_file is not None and json_file != PIPE:
        _write_json(made, json_file)
    if html is not None:
        from glaim_stream.operate.completeness import page

        with opened(str(html)) as target:
            target.write(page(made).encode())
    out: IO[str] = sys.stderr if json_file == PIPE else sys.stdout
    show(made, out, worst=worst)
    for path in (json_file, html):
        if path is not None and path != PIPE:
            print(f"wrote {path}", file=out)
    if json_file == PIPE:
        _write_json(made, json_file)


def _write_json(made: CompletenessReport, json_file: str) -> None:
    from glaim_stream.operate.completeness import pieces

    with opened(json_file) as target:
        for piece in pieces(made):
            target.write(piece.encode())
