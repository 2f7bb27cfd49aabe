"""`glaim-stream tail`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glaim_stream.commands.exit_codes import ANSWER_IS_NO
from glaim_stream.commands.flags import SettingsFlags, expand_flags
from glaim_stream.commands.moments import MOMENT, bounds_ms
from glaim_stream.commands.options import OFFSETS, File, NewestOnly, Text, parse_offsets

if TYPE_CHECKING:
    import pyarrow as pa

    from glaim_stream.core.settings import Settings
    from glaim_stream.kafka import Start

_TOPIC_PATIENCE_S = 30.0  # a worker creates its topics within seconds of its start
_WIDTHS = {
    "group": 16,
    "sensor": 20,
    "ts": 20,
    "value": 14,
    "method": 13,
    "interval or status": 28,
    "gap": 4,
    "rev": 3,
    "": 11,
}


@dataclass(frozen=True)
class TailFlags(SettingsFlags):
    """Flags of the output topic and of the catalogue, whose groups are known before they send."""

    kafka: Text = None
    output_topic: Text = None
    catalogue: File = None


class TextFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSONL = "jsonl"


@expand_flags
def tail(
    *,
    group: Annotated[
        list[str] | None, typer.Option(help="Only this group, or the groups of a pattern such as 'pump-*'; repeatable.")
    ] = None,
    sensor: Annotated[
        list[str] | None, typer.Option(help="Only this sensor, or the sensors of a pattern; repeatable.")
    ] = None,
    only_imputed: Annotated[bool, typer.Option("--only-imputed", help="Only imputed rows.")] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start with the oldest rows instead of the next.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", help=f"Start with the rows published at or after this time, {MOMENT}."),
    ] = None,
    from_offset: Annotated[
        list[str] | None, typer.Option("--from-offset", help=f"First output offset to read. {OFFSETS}")
    ] = None,
    partition: Annotated[list[int] | None, typer.Option(help="Read only this topic partition; repeatable.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="End after this many rows.")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.1, help="End when no message came for this many seconds.")
    ] = None,
    text_format: Annotated[TextFormat, typer.Option("--format", help="How rows are printed.")] = TextFormat.TABLE,
    out: Annotated[
        Path | None,
        typer.Option(help="Write to this .arrow, .parquet or .csv file instead; it appears whole at the end."),
    ] = None,
    newest_only: NewestOnly = None,
    stream: TailFlags,
) -> None:
    """Show the rows of the output topic as they come, or write them to a file, until Ctrl-C.

    Exit code 1 when --timeout ended it and no row had come.
    """
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.core.printable import printable
    from glaim_stream.kafka import Filter, Start, await_output, follow_rows
    from glaim_stream.output import RowFile

    if newest_only and out is None:
        raise SettingsError("--newest-only folds rows at the end and needs --out")
    settings = stream.settings()
    since_ms, _ = bounds_ms(since, None)
    start = Start(from_beginning, since_ms, parse_offsets(from_offset), partition or ())
    file = RowFile(out, newest_only=newest_only is not False) if out is not None else None
    await_output(
        settings, min(timeout or _TOPIC_PATIENCE_S, _TOPIC_PATIENCE_S), lambda why: print(why, file=sys.stderr)
    )
    if group or sensor:
        _require_known(settings, group or [], sensor or [], start)
    foreign = rows = 0

    def report(reason: str) -> None:
        nonlocal foreign
        foreign += 1
        print(f"not in the schema: {printable(reason)}", file=sys.stderr)

    end_on_sigterm()
    tables = follow_rows(
        settings,
        Filter(group or (), sensor or (), only_imputed),
        start=start,
        limit=limit,
        timeout_s=timeout,
        on_foreign=report,
    )
    try:
        with closing(tables), file or nullcontext():
            show = file.add if file is not None else _printer(text_format)
            for table in tables:
                show(table)
                rows += table.num_rows
    finally:
        if file is not None and file.path.exists():
            print(f"{file.path}: {file.rows} rows", file=sys.stderr)
        if foreign:
            print(f"{foreign} messages were not in the schema", file=sys.stderr)
    if not rows:
        print(f"error: {settings.output_topic}: expected rows, found none within {timeout:g} s", file=sys.stderr)
        raise typer.Exit(ANSWER_IS_NO)


def end_on_sigterm() -> None:
    """Take a service manager's SIGTERM for Ctrl-C, at which the file is finished too.

    It becomes a SIGINT, which asyncio answers by cancelling what runs. An exception raised by the handler itself would
    end whichever of the client's tasks it met, and be logged with a traceback. A shell starts jobs in the background
    with SIGINT ignored: these are ended by the exception.
    """

    def interrupt(*_: object) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, interrupt)


def _require_known(settings: Settings, groups: list[str], sensors: list[str], start: Start) -> None:
    """Require that each wanted group and sensor is in the topic or in the catalogue, if there is one.

    In a long topic only the newest messages are looked at, so that a name which only older ones hold is refused where
    the rows to come are wanted, and accepted with a note where older rows are.

    Raises:
        SettingsError: a name or pattern fits none.
    """
    from glaim_stream.core.catalogue import read_catalogue
    from glaim_stream.core.errors import CatalogueError, SettingsError, unknown_name
    from glaim_stream.kafka import fits, names_there

    there = names_there(settings, start.partitions)
    known = {"group": set(there.groups), "sensor": set(there.sensors)}
    with suppress(CatalogueError):
        rules = read_catalogue(settings.catalogue)
        known["group"] |= {name for rule in rules.groups for name in rule.ids}
        known["group"] |= {name for name in groups if rules.model_of(name) is not None}
        known["sensor"] |= {sensor.id for model in rules.models for sensor in model.sensors}
    for what, wanted in (("group", groups), ("sensor", sensors)):
        for each in wanted:
            if any(fits(name, [each]) for name in known[what]):
                continue
            where = settings.output_topic if there.whole else f"the newest messages of {settings.output_topic}"
            problem = unknown_name(f"a {what} of {where}", each, known[what])
            if there.messages and (there.whole or start.at_end):
                raise SettingsError(problem)
            print(f"note: {problem}", file=sys.stderr)


def _printer(text_format: TextFormat) -> Callable[[pa.Table], None]:
    if text_format is TextFormat.CSV:
        return _CsvPrinter()
    return _print_jsonl if text_format is TextFormat.JSONL else _TablePrinter()


class _CsvPrinter:
    """Printer of comma separated values with one header line."""

    def __init__(self) -> None:
        self._first = True

    def __call__(self, table: pa.Table) -> None:
        from pyarrow import csv

        if sys.stdout.isatty():  # a file or a program gets the names as they are
            table = _shown(table)
        csv.write_csv(table, sys.stdout.buffer, csv.WriteOptions(include_header=self._first))
        sys.stdout.buffer.flush()
        self._first = False


def _number(value: float, digits: int) -> str:
    """A number in few digits; a large one, such as a meter's, in twelve, so that its last ones show."""
    return f"{value:.{digits if abs(value) < 10**digits else 12}g}"


def _shown(table: pa.Table) -> pa.Table:
    """The table with its texts as a terminal may get them."""
    import pyarrow as pa

    from glaim_stream.core.printable import printable

    for number, column in enumerate(table.schema):
        if pa.types.is_string(column.type):
            texts = [None if text is None else printable(text) for text in table[number].to_pylist()]
            table = table.set_column(number, column, pa.array(texts, column.type))
    return table


def _print_jsonl(table: pa.Table) -> None:
    import json

    from glaim_stream.core.times import text_of_ms

    times = ("ts", "event_time")
    for name in times:
        table = table.set_column(table.column_names.index(name), name, table[name].cast("int64"))
    for row in table.to_pylist():
        texts = {name: None if row[name] is None else text_of_ms(row[name]) for name in times}
        print(json.dumps({**row, **texts}))
    sys.stdout.flush()


def _style(row: dict[str, Any]) -> str | None:
    if row["observed"]:
        return None if row["quality"] == "good" else "yellow"
    return "red" if row["quality"] == "bad" else "cyan"


def _symbol(status: int) -> str:
    from glaim_stream.core.vocabulary import Status

    return Status(status).symbol if status in list(Status) else f"0x{status:08X}"


class _TablePrinter:
    """Printer of tables that together form one: equal widths, and one header."""

    def __init__(self) -> None:
        from glaim_stream.commands.console import plain_console

        self._console = plain_console(None if sys.stdout.isatty() else sum(_WIDTHS.values()) + 2 * len(_WIDTHS))
        self._first = True

    def __call__(self, table: pa.Table) -> None:
        from rich.table import Table

        from glaim_stream.core.printable import printable
        from glaim_stream.core.times import text_of_ms

        shown = Table(box=None, show_header=self._first, padding=(0, 2, 0, 0), pad_edge=False)
        for name, width in _WIDTHS.items():
            right = name in ("value", "gap", "rev")
            shown.add_column(name, width=width, no_wrap=True, justify="right" if right else "left")
        table = table.set_column(table.column_names.index("ts"), "ts", table["ts"].cast("int64"))
        for row in table.to_pylist():
            style = _style(row)
            if row["lower"] is not None:
                trust = f"{_number(row['lower'], 5)} to {_number(row['upper'], 5)}"
            else:  # the status, where it adds something to the method
                has_status = row["value"] is None or (row["observed"] and row["quality"] != "good")
                trust = _symbol(row["status"]) if has_status else ""
            shown.add_row(
                printable(row["group"]),
                printable(row["sensor"]),
                text_of_ms(row["ts"]),
                "null" if row["value"] is None else _number(row["value"], 6),
                printable(row["method"]),
                trust,
                str(row["gap_age"]),
                str(row["revision"]),
                "final" if row["final"] else "provisional",
                style=style,
            )
        self._console.print(shown)
        self._first = False
