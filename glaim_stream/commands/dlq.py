"""`glaim-stream dlq list | show | requeue`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.flags import SettingsCommand, SettingsFlags, expand_flags
from glaim_stream.commands.moments import MOMENT, bounds_ms
from glaim_stream.commands.options import Pairs, Text

if TYPE_CHECKING:
    from glaim_stream.core.settings import Settings
    from glaim_stream.operate.dlq import Letter, LetterFilter, RequeueReport, Survey

app = typer.Typer(
    help="Look at the records that could not be used, and send them back.", no_args_is_help=True, rich_markup_mode=None
)

Late = Annotated[
    bool, typer.Option("--late", help="Use the late topic: the readings that came too late for their window.")
]


@dataclass(frozen=True)
class LetterTopicFlags(SettingsFlags):
    """Flags of the broker and the topics of letters."""

    kafka: Text = None
    input_topic: Text = None
    topic_names: Pairs = None

    def read(self, late: bool) -> tuple[Settings, str]:
        """The settings, and the topic of the letters.

        Raises:
            SettingsError: a value cannot be used.
        """
        settings = self.settings()
        return settings, settings.late_topic if late else settings.dlq_topic


@dataclass(frozen=True)
class FilterFlags:
    """Flags that select letters."""

    cause: Annotated[list[str] | None, typer.Option(help="Only letters of this cause; repeatable.")] = None
    group: Annotated[
        list[str] | None, typer.Option(help="Only letters of this group, by the record's key; repeatable.")
    ] = None
    since: Annotated[
        str | None, typer.Option("--since", help=f"Only letters written at or after this time, {MOMENT}.")
    ] = None
    until: Annotated[str | None, typer.Option(help="Only letters written before this time, likewise.")] = None

    def read(self, places: list[str] | None = None) -> LetterFilter:
        """The filter of these flags and of letters named as PARTITION:OFFSET.

        Raises:
            SettingsError: a value cannot be used.
        """
        from glaim_stream.operate.dlq import LetterFilter, place_of

        since_ms, until_ms = bounds_ms(self.since, self.until)
        return LetterFilter(
            self.cause or (),
            self.group or (),
            [place_of(text) for text in places or ()],
            since_ms,
            until_ms,
        )


@app.command("list", cls=SettingsCommand)
@expand_flags
def list_letters(
    *,
    late: Late = False,
    filters: FilterFlags,
    each: Annotated[bool, typer.Option("--each", help="Print one line per letter instead of counts.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="With --each: print at most this many lines.")] = 100,
    topics: LetterTopicFlags,
) -> None:
    """Count the letters by cause and input partition, with the times of the first and the last, or list them."""
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.operate.dlq import survey

    settings, topic = topics.read(late)
    chosen = filters.read()
    if each:
        asyncio.run(_print_each(settings, topic, chosen, limit))
        return
    with progress_bar(topic, "messages") as progress:
        found = asyncio.run(survey(settings, topic, chosen, on_progress=progress))
    _print_counts(topic, found)


@app.command(cls=SettingsCommand)
@expand_flags
def show(
    places: Annotated[list[str], typer.Argument(help="Letters as PARTITION:OFFSET, as `dlq list --each` shows them.")],
    *,
    late: Late = False,
    topics: LetterTopicFlags,
) -> None:
    """Show whole letters: cause, headers, place in the input, and the original record.

    The record comes from the input topic where the letter holds only a part of it. No other topic is read.
    """
    from glaim_stream.operate.dlq import LetterFilter, place_of

    settings, topic = topics.read(late)
    asyncio.run(_show(settings, topic, LetterFilter(places=[place_of(text) for text in places])))


@app.command(cls=SettingsCommand)
@expand_flags
def requeue(
    places: Annotated[
        list[str] | None,
        typer.Argument(help="Letters as PARTITION:OFFSET. [default: all that match the filters]"),
    ] = None,
    *,
    late: Late = False,
    filters: FilterFlags,
    limit: Annotated[int | None, typer.Option(min=1, help="Send at most this many letters.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also letters that have been sent back already.")] = False,
    returned: Annotated[
        bool, typer.Option("--returned", help="Also letters of records that were sent back and failed again.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Send. Without it nothing is sent, and you see what would be.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing, even with --yes.")] = False,
    topics: LetterTopicFlags,
) -> None:
    """Send letters back to the input partition that they came from; only the rejected readings of a record.

    A letter is sent once: the letters' topic records which have been sent. Exit code 1 when some could not be sent.
    """
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.operate.dlq import requeue as run

    settings, topic = topics.read(late)
    chosen = filters.read(places)
    send = yes and not dry_run
    with progress_bar(topic, "letters") as progress:
        report = asyncio.run(
            run(
                settings,
                topic,
                chosen,
                send=send,
                again=again,
                returned=returned,
                limit=limit,
                on_progress=progress,
            )
        )
    _print_report(report, settings, topic, send=send, dry_run=dry_run)


def _print_counts(topic: str, found: Survey) -> None:
    from rich.table import Table

    from glaim_stream.commands.console import result_console
    from glaim_stream.core.printable import printable
    from glaim_stream.core.times import text_of_ms

    table = Table("cause", "partition", "letters", "readings", "came back", "requeued", "first written", "last written")
    for (cause, partition), count in sorted(found.counts.items()):
        counts = (count.letters, count.readings, count.came_back, count.requeued)
        times = (text_of_ms(count.first_ms), text_of_ms(count.last_ms))
        table.add_row(printable(cause), str(partition), *(f"{each:,}" for each in counts), *times)
    if found.counts:
        result_console().print(table)
    print(f"{topic}: {found.letters} letters")
    if found.foreign:
        print(f"{found.foreign} messages on it are not letters of a worker", file=sys.stderr)


async def _print_each(settings: Settings, topic: str, chosen: LetterFilter, limit: int) -> None:
    from rich.table import Table

    from glaim_stream.commands.console import result_console
    from glaim_stream.core.printable import printable
    from glaim_stream.core.times import text_of_ms
    from glaim_stream.operate.dlq import Letter, read_letters

    table = Table("letter", "written", "cause", "group", "original", "detail")
    more = 0
    async for letter in read_letters(settings, topic, chosen):
        if not isinstance(letter, Letter):
            continue
        if table.row_count == limit:
            more += 1
            continue
        table.add_row(
            "{}:{}".format(*letter.place),
            text_of_ms(letter.timestamp_ms),
            printable(letter.cause),
            printable(letter.group or ""),
            printable(f"{letter.topic} {letter.partition}:{letter.offset}"),
            printable(letter.detail)[:60],
        )
    result_console().print(table)
    if more:
        print(f"{more} more letters; --limit shows more of them")


async def _show(settings: Settings, topic: str, chosen: LetterFilter) -> None:
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.kafka import reader
    from glaim_stream.operate.dlq import describe_letter, find_original, read_letters

    found: list[Letter] = []
    sent_back: set[tuple[int, int]] = set()
    async for each in read_letters(settings, topic, chosen):
        if isinstance(each, list):
            sent_back.update(each)
        elif each is not None:
            found.append(each)
    missing = sorted(set(chosen.places) - {letter.place for letter in found})
    if missing:
        raise SettingsError(f"{topic} has no letter at {', '.join('{}:{}'.format(*place) for place in missing)}")
    async with reader(settings) as consumer:
        for number, letter in enumerate(found):
            record = await find_original(consumer, settings, letter)
            whole = record.value if letter.cut_from_bytes is not None and record is not None else letter.value
            lines = describe_letter(
                letter,
                topic,
                settings.input_topic,
                whole=whole,
                held=record is not None,
                sent_back=letter.place in sent_back,
                budget=settings.budget,
            )
            print(("\n" if number else "") + "\n".join(lines))


def _print_report(report: RequeueReport, settings: Settings, topic: str, *, send: bool, dry_run: bool) -> None:
    done = "sent" if send else "would send"
    print(
        f"{done} {report.sent} letters with {report.readings} readings or whole records "
        f"from {topic} to {settings.input_topic}; {report.matched} letters matched"
    )
    for count, what in (
        (report.already_sent, "were sent back already: --again sends them once more"),
        (report.came_back, "came back after having been sent back: --returned sends them once more"),
        (report.other_topic, f"came from another topic than {settings.input_topic}"),
        (report.beyond_limit, "are beyond the limit"),
    ):
        if count:
            print(f"{count} {what}")
    if not send and not dry_run and report.sent:
        print("nothing was sent: add --yes to send")
    for partition, offset in report.lost[:10]:
        print(
            f"error: {partition}:{offset} was cut, and the input topic no longer holds the whole record",
            file=sys.stderr,
        )
    for (partition, offset), error in report.failed[:10]:
        print(f"error: {partition}:{offset} was not acknowledged: {error}", file=sys.stderr)
    if report.lost or report.failed:
        print(f"error: {len(report.lost) + len(report.failed)} letters cannot be sent", file=sys.stderr)
        raise typer.Exit(1)
