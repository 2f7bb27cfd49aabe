"""The demo's output on the terminal: phases with their durations, and live counters while it streams.

If the output is not a terminal, these are plain lines.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

_PLAIN_EVERY_S = 5.0


@dataclass
class Counters:
    """Progress of the stream."""

    sent: int = 0
    to_send: int = 0
    rows: int = 0
    filled: Mapping[str, int] = field(default_factory=dict)
    behind: int | None = None  # records that the worker has not committed yet


class Screen:
    """Shows phases one after the other; use it as a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.seconds: dict[str, float] = {}
        self.counters: Counters | None = None
        self._current: tuple[str, float] | None = None
        self._plain_at = 0.0
        self._spinner = Spinner("dots")
        self._live = Live(self, console=self.console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Screen:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def phase(self, name: str) -> None:
        """End the current phase and start another."""
        self.end_phase()
        self._current = (name, time.monotonic())

    def end_phase(self) -> None:
        """End the current phase, print its duration and store it in `seconds`."""
        if self._current is None:
            return
        name, start_s = self._current
        took_s = time.monotonic() - start_s
        self.seconds[name] = round(self.seconds.get(name, 0.0) + took_s, 2)
        self._current = None
        self.console.print(f"  [green]✓[/] {name:<38}[dim]{took_s:>7.1f} s[/]")

    def info(self, line: str) -> None:
        """Print a line that stays on the screen."""
        self.console.print(f"    [dim]{escape(line)}[/]", soft_wrap=True)

    def warn(self, line: str) -> None:
        """Print a highlighted line that stays on the screen."""
        self.console.print(f"  [yellow]![/] {escape(line)}", soft_wrap=True)

    def count(self, counters: Counters) -> None:
        """Show the counters; if the output is not a terminal, print a line every few seconds."""
        self.counters = counters
        if not self.console.is_terminal and time.monotonic() - self._plain_at >= _PLAIN_EVERY_S:
            self._plain_at = time.monotonic()
            filled = ", ".join(f"{count:,} {name}" for name, count in counters.filled.items() if count)
            self.console.print(
                f"    {counters.sent:,} of {counters.to_send:,} readings in, {counters.rows:,} rows out"
                + (f", holes filled: {filled}" if filled else ""),
                soft_wrap=True,
            )

    def stop_counting(self) -> None:
        """Remove the counters from the screen."""
        self.counters = None

    def __rich__(self) -> RenderableType:
        """The live part below the permanent lines."""
        parts: list[RenderableType] = []
        if self._current is not None:
            name, start_s = self._current
            self._spinner.update(text=Text(f"{name:<38}{time.monotonic() - start_s:>7.1f} s"))
            parts.append(self._spinner)
        if self.counters is not None:
            parts.append(_counters(self.counters))
        return Group(*parts)


def _counters(counters: Counters) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", min_width=18)
    table.add_column(justify="right", min_width=10)
    table.add_column()
    bar = ProgressBar(total=max(1, counters.to_send), completed=counters.sent, width=36)
    table.add_row("readings in", f"[bold]{counters.sent:,}[/]", bar)
    table.add_row("rows out", f"[bold]{counters.rows:,}[/]", "")
    for name, count in counters.filled.items():
        if count:
            table.add_row("holes filled", f"[bold cyan]{count:,}[/]", f"by {name.replace('_', ' ')}")
    if counters.behind is not None:
        table.add_row("not committed yet", f"{counters.behind:,}", "")
    return table
