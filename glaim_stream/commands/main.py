"""The command `glaim-stream`. Commands import what they need when they run, so that --help stays fast."""

from __future__ import annotations

import os
import sys

import typer

from glaim_stream.commands import (
    audit,
    catalogue,
    check,
    contract,
    dlq,
    dump,
    explain,
    learn,
    models,
    produce,
    replay,
    schema,
    size,
    tail,
    worker,
)
from glaim_stream.dlq.printable import printable
from glaim_stream.errors import GlaimError

EXIT_UNUSABLE = 2  # settings, files or a broker cannot be used; 1 means that a check failed
_LINE_END = "\n"
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")  # the first takes precedence

app = typer.Typer(
    name="glaim-stream",
    help="Repairs sensor streams while they flow: fills the holes of Kafka readings, live.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(worker.worker)
app.command()(check.check)
app.command()(produce.produce)
app.command()(replay.replay)
app.command()(tail.tail)
app.command()(dump.dump)
app.command()(learn.learn)
app.command()(explain.explain)
app.command()(audit.audit)
app.add_typer(dlq.app, name="dlq")
app.add_typer(catalogue.app, name="catalogue")
app.add_typer(contract.app, name="contract")
app.add_typer(models.app, name="models")
app.command()(schema.schema)
app.command()(size.size)


def main() -> None:
    """Run the command; an error of the user's input is one line on stderr and exit code 2, without a traceback."""
    # The closed form solves many small systems, which the threads of numpy's BLAS slow down by a factor of 3 and more.
    # BLAS reads the variable when numpy is first imported, which the commands do.
    if not any(name in os.environ for name in _THREADS):
        os.environ[_THREADS[0]] = "1"
    try:
        app()
    except GlaimError as error:
        print(f"error: {printable(str(error), keep=_LINE_END)}", file=sys.stderr)
        sys.exit(EXIT_UNUSABLE)
    except BrokenPipeError:
        # The reader of stdout is gone, as with `| head`.
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        # Errors of both Kafka clients, recognised by their package so that neither must be imported.
        if type(error).__module__.partition(".")[0] not in ("kafka", "aiokafka"):
            raise
        print(f"error: Kafka: {error!r}", file=sys.stderr)
        sys.exit(EXIT_UNUSABLE)
