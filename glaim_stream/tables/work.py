"""Work on the groups of a table: in this process or in several, with results that a later run takes up.

Groups are independent once their sensors are fitted. Neighbouring groups make a part, by their sizes alone, so parts
do not depend on the number of processes, and results come in the order of the groups.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar, cast

from glaim_stream.core.blas import one_thread
from glaim_stream.core.errors import GlaimError, SettingsError
from glaim_stream.form import artefact
from glaim_stream.tables.fitted import SensorFits
from glaim_stream.tables.groups import Group, Progress
from glaim_stream.tables.saved import arrays_of
from glaim_stream.tables.unfinished import Unfinished

_PART_CELLS = 20_000  # least cells of a part: a twentieth of a second of work
_MOST_PARTS = 1_000  # of a table, each a file of the folder

# Takes the fit, a group and what else is asked of it; returns arrays of plain numbers.
Task = Callable[..., artefact.Arrays]


@dataclass(frozen=True)
class Work:
    """How the groups of a table are worked on.

    jobs: number of processes; 1 works in this one.
    unfinished: folder with the results of finished parts; None keeps none.
    """

    WORTH: ClassVar = 4_000_000  # cells of a table below which processes take longer to start than they save

    jobs: int = 1
    unfinished: Unfinished | None = None

    def each(
        self,
        name: str,
        task: Task,
        fitted: SensorFits,
        groups: Sequence[tuple[Group, *tuple[Any, ...]]],
        progress: Progress | None = None,
    ) -> list[artefact.Arrays]:
        """Apply a task to each group, and return its results in their order.

        Args:
            name: name of the task, for progress, messages and the folder.
            task: function of a module, called with the fit and the entries of one of `groups`.
            fitted: fit of the sensors; results of another fit are not taken up.
            groups: each group, and what else the task needs for it.
            progress: called with the numbers of finished and of all groups.

        Raises:
            SettingsError: a process has died; the message names the groups that it worked on.
        """
        parts = _parts([each[0] for each in groups])
        found: dict[int, list[artefact.Arrays]] = {}
        digest = ""
        if self.unfinished is not None:
            digest = artefact.digest_of(arrays_of(fitted, {}))
            for number, part in enumerate(parts):
                kept = self.unfinished.read(name, number, digest)
                if kept is not None and len(kept) == len(part):
                    found[number] = kept

        def report() -> None:
            if progress is not None:
                progress(sum(map(len, found.values())), len(groups))

        report()
        left = [number for number in range(len(parts)) if number not in found]
        with self._results(name, task, fitted, [[groups[at] for at in parts[number]] for number in left]) as results:
            for place, result in results:
                found[left[place]] = result
                if self.unfinished is not None:
                    self.unfinished.write(name, left[place], digest, result)
                report()
        return [each for number in range(len(parts)) for each in found[number]]

    @contextmanager
    def _results(
        self, name: str, task: Task, fitted: SensorFits, parts: Sequence[Sequence[tuple[Any, ...]]]
    ) -> Iterator[Iterator[tuple[int, list[artefact.Arrays]]]]:
        if self.jobs == 1 or len(parts) < 2:
            yield ((place, [task(fitted, *each) for each in part]) for place, part in enumerate(parts))
            return
        # Not by a fork, which copies locks of Arrow's threads.
        context = multiprocessing.get_context("spawn")
        workers: dict[Connection, BaseProcess] = {}
        try:
            for _ in range(min(self.jobs, len(parts))):
                ours, theirs = context.Pipe()
                workers[ours] = context.Process(target=_serve, args=(theirs, task, fitted), daemon=True)
                workers[ours].start()
                theirs.close()  # so that the pipe ends with the process
            yield _shared_out(name, workers, parts, None if self.unfinished is None else str(self.unfinished.folder))
        finally:
            for pipe, process in workers.items():
                pipe.close()
                process.terminate()
                process.join()


def _parts(groups: Sequence[Group]) -> list[range]:
    """Neighbouring groups as parts of about equal size."""
    least = max(_PART_CELLS, sum(group.values.size for group in groups) // _MOST_PARTS)
    out, first, cells = [], 0, 0
    for place, group in enumerate(groups):
        cells += group.values.size
        if cells >= least or place == len(groups) - 1:
            out.append(range(first, place + 1))
            first, cells = place + 1, 0
    return out


def _shared_out(
    name: str, workers: dict[Connection, BaseProcess], parts: Sequence[Sequence[tuple[Any, ...]]], folder: str | None
) -> Iterator[tuple[int, list[artefact.Arrays]]]:
    """Give each process a part when it has finished the one before; yield places and results as they come."""
    todo = iter(range(len(parts)))
    at: dict[Connection, int] = {}

    def give(pipe: Connection) -> None:
        if (place := next(todo, None)) is not None:
            at[pipe] = place
            with suppress(BrokenPipeError):  # the process is dead, which its answer tells
                pipe.send(parts[place])

    for pipe in workers:
        give(pipe)
    while at:
        for pipe in cast(list[Connection], wait(list(at))):
            place = at.pop(pipe)
            try:
                result = pipe.recv()
            except (EOFError, ConnectionResetError):
                workers[pipe].join()
                raise SettingsError(_died(name, parts[place], _end_of(workers[pipe].exitcode), folder)) from None
            if isinstance(result, MemoryError):
                raise SettingsError(_died(name, parts[place], "lack of memory", folder))
            if isinstance(result, BaseException):
                raise result
            give(pipe)
            yield place, result


def _end_of(code: int | None) -> str:
    try:
        name = signal.Signals(-(code or 0)).name
    except ValueError:
        return f"exit code {code}"
    return f"{name}, as where memory is short" if name == "SIGKILL" else name


def _died(name: str, part: Sequence[tuple[Any, ...]], how: str, folder: str | None) -> str:
    names = [repr(each[0].name) for each in part]
    which = f"group {names[0]}" if len(names) == 1 else f"groups {names[0]} to {names[-1]}"
    kept = f"; what is finished is in {folder}, and the same command goes on from there" if folder else ""
    return f"{name} {which}: its process ended by {how}: give fewer --jobs, or --jobs 1{kept}"


def _serve(pipe: Connection, task: Task, fitted: SensorFits) -> None:
    """Answer parts until the pipe ends, as it does when the process at its other end dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the process that started this one ends it
    with one_thread(), suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            part = pipe.recv()
            try:
                result: Any = [task(fitted, *each) for each in part]
            except (GlaimError, MemoryError) as error:
                result = error
            pipe.send(result)
