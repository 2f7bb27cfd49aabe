"""`glaim-stream fill`: fills the holes of a file of readings and gives the same file back."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.console import progress_bar
from glaim_stream.commands.files import PIPE, Detected, content_of, opened
from glaim_stream.commands.flags import expand_flags
from glaim_stream.commands.signals import exit_at_sigterm

if TYPE_CHECKING:
    from glaim_stream.commands.train_process import Training
    from glaim_stream.files import Cells, Series
    from glaim_stream.form import ClosedForm
    from glaim_stream.tables import Outcome, Work

EXIT_NOTHING_FILLED = 1  # the file has holes, and none of them could be filled


@dataclass(frozen=True)
class ReadFlags(Detected):
    """Flags that state what would otherwise be detected in the file."""

    timezone: Annotated[str | None, typer.Option(help="Time zone of stamps that carry none. [default: UTC]")] = None
    group: Annotated[str | None, typer.Option(help="Column that names the group of a row. [default: detected]")] = None


@dataclass(frozen=True)
class WriteFlags:
    """Flags of what is written, and where."""

    out: Annotated[
        str | None,
        typer.Option(help="The filled file; `-`: standard output. [default: beside the input, as NAME-filled.csv]"),
    ] = None
    in_place: Annotated[bool, typer.Option("--in-place", help="Replace the input by the filled file.")] = False
    flags: Annotated[
        bool, typer.Option("--flags", help="Add columns of method and bounds beside each column of readings.")
    ] = False
    flags_out: Annotated[
        Path | None, typer.Option(help="Write a CSV file with method and bounds of each hole, one a row.")
    ] = None
    insert_rows: Annotated[bool, typer.Option("--insert-rows", help="Insert rows for the steps that have none.")] = (
        False
    )
    report: Annotated[Path | None, typer.Option(help="Write an HTML page with numbers and pictures.")] = None


@expand_flags
def fill(
    *,
    file: Annotated[
        str, typer.Argument(help="CSV, TSV, JSON lines, Parquet or Arrow, also gzip; `-`: standard input.")
    ],
    reading: ReadFlags,
    writing: WriteFlags,
    model: Annotated[
        Path | None,
        typer.Option(help="Folder with a fitted closed form, which fills instead of one fitted to the file."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Also train a network, in so many minutes for the whole command; it fills if it beats the closed "
            "form. Needs the extra `training`."
        ),
    ] = None,
    save_model: Annotated[Path | None, typer.Option(help="Write the closed form that filled into this folder.")] = None,
    max_gap: Annotated[
        int | None, typer.Option(min=1, help="Longest gap in steps to fill. [default: what the readings support]")
    ] = None,
    no_plausibility: Annotated[
        bool,
        typer.Option("--no-plausibility", help="Use readings far from their neighbours, too, to fill holes."),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processes that fill groups. [default: the cores that it may use]"),
    ] = None,
) -> None:
    """Fill the holes of a file and give the same table back: same rows, columns, order and observed cells.

    What the file is, and which of its cells were filled, goes to standard output; to standard error if the filled file
    goes to standard output.

    Exit codes: 0: the filled file was written, and each hole left in it is counted with its reason; 1: it was written,
    but none of its holes could be filled; 2: the file cannot be read, filled or written. A file that is written appears
    whole or not at all.
    """
    exit_at_sigterm()
    fill_file(
        file, reading, writing, model=model, minutes=minutes, save_model=save_model, max_gap=max_gap,
        plausibility=not no_plausibility, jobs=jobs,
    )  # fmt: skip


def fill_file(
    file: str,
    reading: ReadFlags,
    writing: WriteFlags,
    *,
    model: Path | None = None,
    minutes: float | None = None,
    save_model: Path | None = None,
    max_gap: int | None = None,
    plausibility: bool = True,
    jobs: int | None = None,
) -> None:
    """Do what `fill` does with these arguments.

    Raises:
        SettingsError: they contradict each other, or the file cannot be read, filled or written.
        typer.Exit: none of the holes could be filled.
    """
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.files import series_of, without_stray_rows
    from glaim_stream.tables import (
        cells_of,
        described,
        fill_cells,
        open_file,
        page,
        require_additions,
        require_insertable,
        summed,
        write,
    )

    if minutes is not None and not 0 < minutes < float("inf"):
        raise SettingsError(f"expected --minutes above 0, found {minutes:g}")
    if minutes is not None and jobs is not None:
        raise SettingsError("expected --jobs without --minutes: a network fills in one process")
    if minutes is not None and (model is not None or save_model is not None):
        raise SettingsError("expected --minutes without --model and --save-model; `glaim-stream fit` keeps a network")
    target = _target(file, writing)
    say = _say(sys.stderr if target == PIPE else sys.stdout)
    form = None if model is None else _model(model)
    name = "standard input" if file == PIPE else Path(file).name
    raw = content_of(file)
    user_file = open_file(
        name,
        raw,
        timezone=reading.timezone,
        group=reading.group,
        **reading.stated,
    )
    cells, stray = without_stray_rows(cells_of(user_file))
    found = series_of(cells)
    cells = found.expected(cells)
    known = described(name, user_file.form, cells, found, stray, gzipped=user_file.gzipped)
    say(known)
    require_additions(user_file, flags=writing.flags, insert_rows=writing.insert_rows)  # before the fit, which is long
    if writing.insert_rows:
        require_insertable(cells, found)
    depends_on = {"flags": [asdict(reading), max_gap, plausibility, None if form is None else form.digest]}
    with _work(target, raw, found, jobs, minutes, depends_on, say) as work:
        with progress_bar("fill", "parts") as progress, _training(minutes) as train:
            outcome = fill_cells(
                cells, found, form=form, train=train, max_gap=max_gap, timezone=user_file.form.timezone,
                plausibility=plausibility, work=work, progress=progress,
            )  # fmt: skip
        compress = target.endswith(".gz") or (user_file.gzipped and target in (PIPE, file))
        with opened(target) as out:
            inserted = write(
                user_file, cells, outcome, out, flags=writing.flags, insert_rows=writing.insert_rows, compress=compress
            )
    lines = summed(outcome, cells.holes, inserted if writing.insert_rows else None, user_file.form.moment)
    if train is not None:
        lines.insert(0, train.outcome or "no network was trained: no sensor has a closed form of plain numbers")
    say([*lines, f"wrote {'standard output' if target == PIPE else target}"])
    if writing.flags_out is not None:
        _write_flags(writing.flags_out, cells, outcome, user_file.form.moment)
        say([f"wrote {writing.flags_out}"])
    if writing.report is not None:
        with opened(str(writing.report)) as out:
            moment = user_file.form.moment if user_file.form.axis else None
            out.write(page(name, [*known, *lines], outcome, cells.holes, moment).encode())
        say([f"wrote {writing.report}"])
    if save_model is not None:
        if outcome.result.form is None:
            raise SettingsError(f"no closed form could be fitted: {outcome.result.refused}")
        outcome.result.form.save(save_model)
        say([f"wrote the closed form to {save_model}"])
    if cells.holes and not outcome.filled:
        raise typer.Exit(EXIT_NOTHING_FILLED)


@contextmanager
def _work(
    target: str,
    raw: bytes,
    found: Series,
    jobs: int | None,
    minutes: float | None,
    depends_on: Mapping[str, object],
    say: Callable[[Sequence[str]], object],
) -> Iterator[Work]:
    """How the groups are worked on: several processes and a folder of finished parts where these are worth it."""
    from glaim_stream.core.cores import usable_cores
    from glaim_stream.core.unfinished import kept_parts
    from glaim_stream.tables import Work

    small = sum(each.size for each in found.values) < Work.WORTH
    if len(found.values) < 2 or (jobs is None and (small or minutes is not None)):
        yield Work()
        return
    jobs = jobs or usable_cores()
    path = Path(os.path.realpath(target))
    if target == PIPE or (path.exists() and not path.is_file()):
        yield Work(jobs)
        return
    program = [f"{name} {version(name)}" for name in ("glaim-stream", "numpy")]
    state = {"input": hashlib.sha256(raw).hexdigest(), "program": program, **depends_on}
    with kept_parts(path.with_name(f"{path.name}.parts"), state, finished="*.npz") as folder:
        if folder.said:
            say([folder.said])
        yield Work(jobs, folder)


@contextmanager
def _training(minutes: float | None) -> Iterator[Training | None]:
    """A training, if minutes are given."""
    if minutes is None:
        yield None
        return
    from glaim_stream.commands.train_process import training

    say = _say(sys.stderr)
    with training(minutes, lambda line: say([line])) as train:
        yield train


def _target(file: str, writing: WriteFlags) -> str:
    """Where the filled file goes: a path, or PIPE.

    Raises:
        SettingsError: two files to write are one, or one of them is the input.
    """
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.tables import same_file

    others = [path for path in (writing.flags_out, writing.report) if path is not None]
    if writing.in_place:
        if writing.out is not None or file == PIPE:
            raise SettingsError("expected --in-place with a file and without --out")
        target = file
    elif writing.out is not None:
        target = writing.out
        if PIPE not in (file, target) and same_file(Path(file), Path(target)):
            raise SettingsError(f"--out {target} is the input: name another file, or give --in-place")
    elif file == PIPE:
        target = PIPE
    else:
        path = Path(file)
        stem, dot, suffixes = path.name.partition(".")
        target = str(path.with_name(f"{stem}-filled{dot}{suffixes}"))
        if Path(target).exists():
            raise SettingsError(f"{target} exists: replace it with --out {target}, or name another file")
    for index, path in enumerate(others):
        taken = [Path(each) for each in (file, target) if each != PIPE] + others[:index]
        if any(same_file(path, each) for each in taken):
            raise SettingsError(f"{path} is also the input or another output: name another file")
    return target


def _model(folder: Path) -> ClosedForm:
    from glaim_stream.form import ClosedForm

    return ClosedForm.load(folder)


def _write_flags(path: Path, cells: Cells, outcome: Outcome, moment: Callable[[int], str]) -> None:
    """Write holes and doubtful readings: row (from 1), time, group, sensor, method, value, lower and upper bound."""
    import csv
    import io

    import numpy as np

    from glaim_stream.core.times import NO_TIME

    with opened(str(path)) as out:
        text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("row", "time", "group", "sensor", "method", "value", "lower", "upper"))
        for column, done in zip(cells.columns, outcome.columns, strict=True):
            methods = done.methods()
            for row in np.flatnonzero(column.hole | done.doubted).tolist():
                time_ms = int(cells.times_ms[row])
                value = column.value if done.doubted[row] else done.value
                numbers = (float(each[row]) for each in (value, done.lower, done.upper))
                writer.writerow(
                    (
                        row + 1,
                        "" if time_ms == NO_TIME else moment(time_ms),
                        cells.groups[column.group[row]],
                        cells.sensors[column.sensor[row]],
                        methods[row],
                        *(repr(number) if np.isfinite(number) else "" for number in numbers),
                    )
                )
        text.flush()
        text.detach()


def _say(stream: IO[str]) -> Callable[[Sequence[str]], None]:
    from glaim_stream.core.printable import printable

    def say(lines: Sequence[str]) -> None:
        for line in lines:
            print(printable(line), file=stream)
        stream.flush()

    return say
