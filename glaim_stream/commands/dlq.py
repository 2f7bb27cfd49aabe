"""`glaim-stream dlq list | show | requeue`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.options import DeadLetterTopic, InputTopic, Kafka, LateTopic

if TYPE_CHECKING:
    from glaim_stream.dlq.letters import Filter, Letter
    from glaim_stream.dlq.requeue import RequeueReport
    from glaim_stream.dlq.topic import Survey
    from glaim_stream.settings import Settings

app = typer.Typer(help="Look at what could not be used, and send it back.", no_args_is_help=True, rich_markup_mode=None)

Late = Annotated[bool, typer.Option("--late", help="The readings that came too late, which have a topic of their own.")]
Cause = Annotated[list[str] | None, typer.Option(help="Only letters of this cause; repeatable.")]
Group = Annotated[list[str] | None, typer.Option(help="Only letters of this group, by the record's key; repeatable.")]
Since = Annotated[str | None, typer.Option(help="Only letters written at or after this time, ISO 8601.")]
Until = Annotated[str | None, typer.Option(help="Only letters written before this time.")]


@app.command("list")
def list_letters(
    late: Late = False,
    cause: Cause = None,
    group: Group = None,
    since: Since = None,
    until: Until = None,
    each: Annotated[bool, typer.Option("--each", help="A line a letter instead of counts.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="With --each: most lines.")] = 100,
    kafka: Kafka = None,
    input_topic: InputTopic = None,
    dead_letter_topic: DeadLetterTopic = None,
    late_topic: LateTopic = None,
) -> None:
    """Count the letters by cause and by partition of the input, with their times, or list them."""
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.dlq.topic import survey

    settings, topic = _topic(late, kafka, input_topic, dead_letter_topic, late_topic)
    chosen = _filter(cause, group, since, until)
    if each:
        asyncio.run(_print_each(settings, topic, chosen, limit))
        return
    with progress_bar(topic, "messages") as progress:
        found = asyncio.run(survey(settings, topic, chosen, on_progress=progress))
    _print_counts(topic, found)


@app.command()
def show(
    places: Annotated[list[str], typer.Argument(help="Letters as PARTITION:OFFSET, as `dlq list --each` shows them.")],
    late: Late = False,
    kafka: Kafka = None,
    input_topic: InputTopic = None,
    dead_letter_topic: DeadLetterTopic = None,
    late_topic: LateTopic = None,
) -> None:
    """Show letters whole: cause, headers, the place in the input, and the original, from the input where it was cut."""
    from glaim_stream.dlq.letters import Filter, place_of

    settings, topic = _topic(late, kafka, input_topic, dead_letter_topic, late_topic)
    asyncio.run(_show(settings, topic, Filter(places=[place_of(text) for text in places])))


@app.command()
def requeue(
    places: Annotated[
        list[str] | None, typer.Argument(help="Letters as PARTITION:OFFSET; all that the filters take when none.")
    ] = None,
    late: Late = False,
    cause: Cause = None,
    group: Group = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many letters.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also letters that have been sent back already.")] = False,
    returned: Annotated[
        bool, typer.Option("--returned", help="Also letters of records that were sent back and failed again.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Send. Without it nothing is sent, and you see what would be.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing, whatever else is said.")] = False,
    kafka: Kafka = None,
    input_topic: InputTopic = None,
    dead_letter_topic: DeadLetterTopic = None,
    late_topic: LateTopic = None,
) -> None:
    """Send letters back to the partition of the input that they came from; only the rejected readings of a record.

    A letter is sent once: what was sent is noted in the letters' topic. Exit code 1 when some could not be sent.
    """
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.dlq.requeue import requeue as run

    settings, topic = _topic(late, kafka, input_topic, dead_letter_topic, late_topic)
    chosen = _filter(cause, group, since, until, places)
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


def _topic(
    late: bool, kafka: str | None, input_topic: str | None, dead_letter_topic: str | None, late_topic: str | None
) -> tuple[Settings, str]:
    from glaim_stream.settings import read_settings

    settings = read_settings(
        kafka=kafka, input_topic=input_topic, dead_letter_topic=dead_letter_topic, late_topic=late_topic
    )
    return settings, settings.late_topic if late else settings.dlq_topic


def _filter(
    causes: list[str] | None,
    groups: list[str] | None,
    since: str | None,
    until: str | None,
    places: list[str] | None = None,
) -> Filter:
    from glaim_stream.dlq.letters import Filter, place_of
    from glaim_stream.times import moment_ms

    return Filter(
        causes or (),
        groups or (),
        [place_of(text) for text in places or ()],
        None if since is None else moment_ms(since),
        None if until is None else moment_ms(until),
    )


def _print_counts(topic: str, found: Survey) -> None:
    from rich.table import Table

    from glaim_stream.commands.console import result_console
    from glaim_stream.times import text_of_ms

    table = Table("cause", "partition", "letters", "readings", "came back", "requeued", "first written", "last written")
    for (cause, partition), line in sorted(found.lines.items()):
        counts = (line.letters, line.readings, line.came_back, line.requeued)
        times = (text_of_ms(line.first_ms), text_of_ms(line.last_ms))
        table.add_row(cause, str(partition), *(f"{count:,}" for count in counts), *times)
    if found.lines:
        result_console().print(table)
    print(f"{topic}: {found.letters} letters")
    if found.foreign:
        print(f"{found.foreign} messages in it are no letters of a worker", file=sys.stderr)


async def _print_each(settings: Settings, topic: str, chosen: Filter, limit: int) -> None:
    from rich.table import Table

    from glaim_stream.commands.console import result_console
    from glaim_stream.dlq.letters import Letter
    from glaim_stream.dlq.topic import letters_of
    from glaim_stream.times import text_of_ms

    table = Table("letter", "written", "cause", "group", "original", "detail")
    more = 0
    async for letter in letters_of(settings, topic, chosen):
        if not isinstance(letter, Letter):
            continue
        if table.row_count == limit:
            more += 1
            continue
        table.add_row(
            "{}:{}".format(*letter.place),
            text_of_ms(letter.timestamp_ms),
            letter.cause,
            letter.group or "",
            f"{letter.topic} {letter.partition}:{letter.offset}",
            letter.detail[:60],
        )
    result_console().print(table)
    if more:
        print(f"{more} more letters; --limit shows more of them")


async def _show(settings: Settings, topic: str, chosen: Filter) -> None:
    from glaim_stream.dlq.text import lines_of
    from glaim_stream.dlq.topic import letters_of, original
    from glaim_stream.errors import SettingsError
    from glaim_stream.kafka.ranges import reader

    found: list[Letter] = []
    sent_back: set[tuple[int, int]] = set()
    async for each in letters_of(settings, topic, chosen):
        if isinstance(each, list):
            sent_back.update(each)
        elif each is not None:
            found.append(each)
    missing = sorted(set(chosen.places) - {letter.place for letter in found})
    if missing:
        raise SettingsError(f"{topic} has no letter at {', '.join('{}:{}'.format(*place) for place in missing)}")
    async with reader(settings) as consumer:
        for number, letter in enumerate(found):
            record = await original(consumer, settings, letter)
            whole = record.value if letter.cut_from_bytes is not None and record is not None else letter.value
            told = lines_of(letter, topic, whole=whole, held=record is not None, sent_back=letter.place in sent_back)
            print(("\n" if number else "") + "\n".join(told))


def _print_report(report: RequeueReport, settings: Settings, topic: str, *, send: bool, dry_run: bool) -> None:
    done = "sent" if send else "would send"
    print(
        f"{done} {report.sent} letters with {report.readings} readings or whole records "
        f"from {topic} to {settings.input_topic}; {report.wanted} letters matched"
    )
    for count, what in (
        (report.already, "were sent back already: --again sends them once more"),
        (report.came_back, "came back after having been sent back: --returned sends them once more"),
        (report.elsewhere, f"came from another topic than {settings.input_topic}"),
        (report.beyond_limit, "are beyond the limit"),
    ):
        if count:
            print(f"{count} {what}")
    if not send and not dry_run and report.sent:
        print("nothing was sent: add --yes to send")
    for partition, offset in report.gone[:10]:
        print(f"error: {partition}:{offset} was cut, and the input topic no longer holds the whole", file=sys.stderr)
    for (partition, offset), error in report.failed[:10]:
        print(f"error: {partition}:{offset} was not taken: {error}", file=sys.stderr)
    if report.gone or report.failed:
        print(f"error: {len(report.gone) + len(report.failed)} letters cannot be sent", file=sys.stderr)
        raise typer.Exit(1)
