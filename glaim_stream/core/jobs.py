"""Work on the parts of a whole, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any, cast

from glaim_stream.core.blas import one_thread
from glaim_stream.core.errors import GlaimError, SettingsError

Task = Callable[[Any, Callable[[int], object]], Any]  # takes a part, and a function that is told what is done of it


@dataclass(frozen=True, slots=True)
class _Done:
    """What a process has done of its part so far."""

    amount: int


@contextmanager
def shared_out(
    task: Task,
    parts: Sequence[Any],
    *,
    jobs: int,
    died: Callable[[Any, str], str],
    on_done: Callable[[int, int], object] = lambda place, amount: None,
) -> Iterator[Iterator[tuple[int, Any]]]:
    """Apply a task to each part; yield the places of the parts and the results as they come.

    Args:
        task: function that a new process can import, or a `functools.partial` of one.
        parts: what each call takes; a process gets a part when it has finished the one before.
        jobs: number of processes; 1 works in this one.
        died: makes the message about a process that has died, of its part and how it ended.
        on_done: called with the place of a part and what its task says that it has done of it.

    Raises:
        GlaimError: a task has raised it, or a process has died.
    """
    if jobs == 1 or len(parts) < 2:
        yield ((place, task(part, lambda amount, at=place: on_done(at, amount))) for place, part in enumerate(parts))  # type: ignore[misc]
        return
    # Not by a fork, which copies locks of Arrow's threads.
    context = multiprocessing.get_context("spawn")
    workers: dict[Connection, BaseProcess] = {}
    try:
        for _ in range(min(jobs, len(parts))):
            ours, theirs = context.Pipe()
            workers[ours] = context.Process(target=_serve, args=(theirs, task), daemon=True)
            workers[ours].start()
            theirs.close()  # so that the pipe ends with the process
        yield _results(workers, parts, died, on_done)
    finally:
        for pipe, process in workers.items():
            pipe.close()
            process.terminate()
            process.join()


def _results(
    workers: dict[Connection, BaseProcess],
    parts: Sequence[Any],
    died: Callable[[Any, str], str],
    on_done: Callable[[int, int], object],
) -> Iterator[tuple[int, Any]]:
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
            try:
                result = pipe.recv()
            except (EOFError, ConnectionResetError):
                workers[pipe].join()
                raise SettingsError(died(parts[at[pipe]], _end_of(workers[pipe].exitcode))) from None
            if isinstance(result, _Done):
                on_done(at[pipe], result.amount)
                continue
            place = at.pop(pipe)
            if isinstance(result, MemoryError):
                raise SettingsError(died(parts[place], "lack of memory"))
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


def _serve(pipe: Connection, task: Task) -> None:
    """Answer parts until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the process that started this one ends it
    Thread(target=_end_with_parent, daemon=True).start()
    with one_thread(), suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            part = pipe.recv()
            try:
                result: Any = task(part, lambda amount: pipe.send(_Done(amount)))
            except (GlaimError, MemoryError) as error:
                result = error
            pipe.send(result)


def _end_with_parent() -> None:
    """End this process when its parent dies, so that it writes nothing more beside what a next run writes."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
