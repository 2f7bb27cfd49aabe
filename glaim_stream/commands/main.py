"""The command `glaim-stream`. Commands import what they need when they run, so that --help stays fast."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from glaim_stream.commands import (
    audit,
    check,
    demo,
    dlq,
    dump,
    exit_codes,
    explain,
    fill,
    fit,
    health,
    learn,
    models,
    produce,
    replay,
    report,
    schema,
    settings,
    size,
    tail,
    worker,
)
from glaim_stream.commands.flags import SettingsCommand
from glaim_stream.core.errors import GlaimError
from glaim_stream.core.printable import printable

_LINE_END = "\n"
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")  # the first takes precedence


class _Commands(TyperGroup):
    """The commands; a value of the wrong kind gets this project's words instead of pydantic's."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            if isinstance(error.__cause__, ValidationError):
                from glaim_stream.core.validation import problems_of

                error.message = problems_of(error.__cause__)[0][1]
            raise


app = typer.Typer(
    name="glaim-stream",
    cls=_Commands,
    help="Repairs sensor streams while they flow: fills the holes of Kafka readings, live.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=exit_codes.help_text(),
    context_settings={"help_option_names": ["-h", "--help"]},  # inherited by every command
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"glaim-stream {version('glaim-stream')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before the command."""


app.command()(fill.fill)
app.command()(demo.demo)
app.command(cls=SettingsCommand)(worker.worker)
app.command(cls=SettingsCommand)(check.check)
app.command(cls=SettingsCommand)(produce.produce)
app.command(cls=SettingsCommand)(replay.replay)
app.command(cls=SettingsCommand)(tail.tail)
app.command(cls=SettingsCommand)(dump.dump)
app.command(context_settings=fit.PASSED_ON)(fit.fit)
app.command(cls=SettingsCommand)(learn.learn)
app.command(cls=SettingsCommand)(explain.explain)
app.command()(health.health)
app.command(cls=SettingsCommand)(audit.audit)
app.command(cls=SettingsCommand)(report.report)
app.add_typer(dlq.app, name="dlq")
app.add_typer(models.app, name="models")
app.command()(schema.schema)
app.command("settings")(settings.list_settings)
app.command()(size.size)


def main() -> None:
    """Run the command; an error of the user's input is one line on stderr and exit code 2, without a traceback."""
    # The closed form solves many small systems, which the threads of numpy's BLAS slow down by a factor of 3 and more.
    # BLAS reads the variable when numpy is first imported, which the commands do.
    if not any(name in os.environ for name in _THREADS):
        os.environ[_THREADS[0]] = "1"
    try:
        app(prog_name="glaim-stream")
    except GlaimError as error:
        _end(str(error))
    except BrokenPipeError:
        # The reader of stdout is gone, as with `| head`.
        sys.stderr.close()
        sys.exit(exit_codes.DONE)
    except KeyboardInterrupt:
        sys.exit(exit_codes.INTERRUPTED)
    except OSError as error:
        _end(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
    except MemoryError as error:
        _end(f"it needs more memory than this machine has: {error}")
    except Exception as error:
        # Errors of both Kafka clients, recognised by their package so that neither must be imported.
        if type(error).__module__.partition(".")[0] not in ("kafka", "aiokafka"):
            raise
        _end(f"Kafka: {error!r}")


def _end(problem: str) -> NoReturn:
    """Print one line on standard error, and leave."""
    print(f"error: {printable(problem, keep=_LINE_END)}", file=sys.stderr)
    sys.exit(exit_codes.UNUSABLE)
