"""`glaim-stream replay`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.exit_codes import ANSWER_IS_NO
from glaim_stream.commands.flags import SettingsFlags, expand_flags
from glaim_stream.commands.moments import MOMENT
from glaim_stream.commands.options import File, NewestOnly, OffsetFlags, Text
from glaim_stream.commands.signals import exit_at_sigterm
from glaim_stream.commands.sources import FileFlags, MessageFlags, PlantFlags, require_other_files

if TYPE_CHECKING:
    from glaim_stream.feed.replay import ReplayReport, Target


@dataclass(frozen=True)
class ReplayFlags(SettingsFlags):
    """Flags of the input topic, the models and the imputer."""

    kafka: Text = None
    input_topic: Text = None
    catalogue: File = None
    model_repository: File = None
    imputer: Text = None
    triton: Text = None


@dataclass(frozen=True)
class TargetFlags:
    """Flags that say where rows and rejects go."""

    out: Annotated[
        Path | None, typer.Option(help="Write rows to this .arrow, .parquet or .csv file; it appears whole at the end.")
    ] = None
    output_topic: Annotated[
        str | None, typer.Option(help="Or publish them on this topic, created when absent. It has no default on "
                                 "purpose.")
    ] = None  # fmt: skip
    sink: Annotated[
        str | None,
        typer.Option(metavar="NAME=WHERE", help="Or hand them to an output that an installed package registers."),
    ] = None
    newest_only: NewestOnly = None
    rejects: Annotated[
        Path | None, typer.Option(help="Write what was rejected, with its cause, to this file of JSON lines.")
    ] = None
    outages: Annotated[
        Path | None, typer.Option(help="Write which groups went dark and spoke again to this file of JSON lines.")
    ] = None

    def target(self) -> Target:
        """The target of a replay.

        Raises:
            SettingsError: not exactly one output is given, or a flag lacks the one that it needs.
        """
        from glaim_stream.core.errors import SettingsError
        from glaim_stream.feed.replay import Target

        given = [each for each in (("file", self.out), ("topic", self.output_topic), ("", self.sink)) if each[1]]
        if len(given) != 1:
            raise SettingsError(
                f"expected one of --out FILE, --output-topic TOPIC and --sink NAME=WHERE, found {len(given) or 'none'}"
            )
        ((output, where),) = given
        if not output:
            output, sign, where = str(where).partition("=")
            if not (sign and output):
                raise SettingsError(f"--sink: expected NAME=WHERE, found {self.sink!r}")
        if self.newest_only and self.out is None:
            raise SettingsError("--newest-only folds rows at the end and needs --out")
        newest_only = self.out is not None and self.newest_only is not False
        return Target(output, str(where), newest_only, self.rejects, self.outages)


@expand_flags
def replay(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="CSV or Parquet as for `produce`, or raw messages: .jsonl (one a line), .arrows (Arrow IPC streams). "
            "Without it the input topic is read."
        ),
    ] = None,
    *,
    to: TargetFlags,
    offsets: OffsetFlags,
    since: Annotated[
        str | None,
        typer.Option("--since", help=f"Only a file's readings, or a topic's records, at or after this time, {MOMENT}."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only those before this time, likewise.")] = None,
    warm_up: Annotated[
        bool,
        typer.Option(
            "--warm-up/--no-warm-up",
            help="Topic only: first read what the windows at the beginning of the range need, and publish none of it.",
        ),
    ] = True,
    close: Annotated[
        bool | None,
        typer.Option(
            "--close/--leave-open",
            help="Publish the steps that are open at the end, as the worker does when nothing more comes. "
            "[default: close for a file, leave open for a topic]",
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="File only: distribute the groups over this many partitions, as a producer would; each partition has "
            "its own watermark. [env: GLAIM_PARTITIONS, else 4]",
        ),
    ] = None,
    plant: PlantFlags,
    messages: MessageFlags,
    form: FileFlags,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processes that replay partitions. [default: the cores that it may use]"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be read and written, and do neither.")
    ] = False,
    stream: ReplayFlags,
) -> None:
    """Fill a file, or a range of the input topic, through the same windows and imputer as the worker.

    Rows equal the worker's for the same input: observed values exactly, filled ones within a sensor's resolution, and
    to the byte with GLAIM_TRITON_FIXED_BATCH on both sides. Exit code 1 when the imputer failed on some of them, so
    that a fallback filled them, when an internal error hit a record, when a reading of a file was late, or when no row
    came out.
    """
    from glaim_stream.commands.replay_input import FileInput, TopicInput
    from glaim_stream.core.errors import SettingsError

    exit_at_sigterm()
    target = to.target()
    require_other_files(file, to.out, to.rejects, to.outages)
    settings = stream.settings(output_topic=to.output_topic, partitions=partitions)
    if target.output == "topic" and target.where == settings.input_topic:
        raise SettingsError(f"expected another topic than the input {settings.input_topic} for the rows")
    source: FileInput | TopicInput
    if file is None and not plant.plant:
        if partitions is not None:
            raise SettingsError("--partitions is for files: a topic has its own")
        source = TopicInput.find(settings, offsets, since, until, form.timezone or "UTC", warm_up=warm_up)
    else:
        if offsets.given:
            raise SettingsError("offsets and --partition are for the topic: a file has --since and --until")
        source = FileInput.open(file, plant, messages, form, since, until)
    for line in source.describe(settings):
        print(line)
    if dry_run:
        print(f"would write rows to {target.where}, filled by {settings.imputer}")
        return
    report = source.replay(settings, target, close=close, jobs=jobs)
    end_replay(report, target, late=source.late(report))


def end_replay(report: ReplayReport, target: Target, *, late: int) -> None:
    """Print what came out; `late` are the readings of a file that were rejected as late.

    Raises:
        typer.Exit: rows are missing, or were not filled as asked.
    """
    counts = report.counts
    print(
        f"{target.where}: {counts.rows} rows of {counts.readings} readings in {counts.records} "
        f"records, {counts.warm_up_records} more to warm up; {report.seconds:.1f} s"
    )
    if counts.rejects:
        causes = ", ".join(f"{count} {cause}" for cause, count in counts.rejects.most_common())
        print(f"rejected: {causes}" + (f"; see {target.rejects}" if target.rejects else "; --rejects FILE keeps them"))
    if counts.outages:
        print(
            f"groups that went dark or spoke again: {counts.outages}"
            + (f"; see {target.outages}" if target.outages else "; --outages FILE keeps them")
        )
    if counts.faults:
        print(
            f"error: internal errors in {counts.faults} batches: see the log, and `processing` among the rejects",
            file=sys.stderr,
        )
    if report.failures:
        failed = ", ".join(f"{rung} {count} times" for rung, count in report.failures.items())
        print(f"error: imputers failed, and fallbacks filled: {failed}", file=sys.stderr)
    if late:
        print(
            f"error: {late} readings of the file were rejected as late, though they were sent in order of time: their "
            "rows are missing",
            file=sys.stderr,
        )
    if not counts.rows:
        print(f"error: no row came out of {counts.readings} readings", file=sys.stderr)
    if report.failures or counts.faults or late or not counts.rows:
        raise typer.Exit(ANSWER_IS_NO)
