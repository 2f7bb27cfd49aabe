"""The command `python -m deploy.demo`."""

from __future__ import annotations

import shlex
import signal
import sys
from types import FrameType

from rich.console import Console
from rich.markup import escape

from deploy.demo.options import parse
from deploy.demo.run import run
from deploy.demo.screen import Screen
from deploy.demo.summary import Summary, show
from deploy.errors import DeployError
from glaim_stream.core.errors import GlaimError


def main(arguments: list[str] | None = None) -> int:
    """Run the demo.

    Returns:
        The exit status: 1 if a part failed, a reading was lost or the output is incomplete; 130 after Ctrl-C.
    """
    options = parse(arguments)
    given = sys.argv[1:] if arguments is None else arguments
    console = Console(highlight=False)

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    console.print(
        "[bold]glaim-stream demo[/]: Kafka, Triton and the worker on this machine; Ctrl-C stops all of them\n",
        soft_wrap=True,
    )
    try:
        with Screen(console) as screen:
            summary = run(options, screen, shlex.join(["python", "-m", "deploy.demo", *given]))
    except (GlaimError, DeployError) as error:
        console.print(f"\n[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("\nstopped; nothing is left running")
        return 130
    show(summary, console, report=options.out / "report.html")
    return verdict(summary, console)


def verdict(summary: Summary, console: Console) -> int:
    """The exit status; prints an error message for each reason that makes it 1."""
    if summary.lost:
        console.print(f"[bold red]error:[/] {summary.lost:,} readings are in neither the output nor the dead letters")
    for problem in summary.problems:
        console.print(f"[bold red]error:[/] the audit found {problem}")
    return 1 if summary.lost or summary.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
