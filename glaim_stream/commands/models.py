"""`glaim-stream models`: list, wait, fetch, push, seal, rollback, release, prune."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.exit_codes import DONE
from glaim_stream.commands.signals import exit_at_sigterm

if TYPE_CHECKING:
    from rich.table import Table

    from glaim_stream.models import ListedForm, Store

app = typer.Typer(
    help="Manage a model repository: list, wait, fetch, push, seal, roll back, release, delete old weights.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

WHERE = "Folder, or URI: file:///..., s3://bucket/folder?region=..., gs://..., abfss://..."
Repository = Annotated[str, typer.Argument(help=WHERE)]
Models = Annotated[list[str] | None, typer.Option("--model", help="Only this model; repeatable.")]
Wait = Annotated[
    float, typer.Option(min=0, help="Seconds to wait for a repository that answers and holds a first model.")
]
Tries = Annotated[
    int, typer.Option(min=1, help="Attempts in all when the repository cannot be reached; 1, 2, 4 ... 30 s apart.")
]
_POLL_S = 1.0


@app.command("list")
def list_(repository: Repository) -> None:
    """Show every version and closed form: training data, whether files match contract and manifest, and use.

    Exit code 1 when a version or a form is incomplete.
    """
    from rich.table import Table

    from glaim_stream.commands.console import result_console
    from glaim_stream.core.settings import read_settings
    from glaim_stream.models import held, listed_forms, listing, open_store

    store, trust = open_store(repository), read_settings().trust
    forms = list(listed_forms(store, trust))
    models = store.models()
    withdrawn = any(store.withdrawn(name) for name in store.known())
    found = listing(store, trust) if models or withdrawn or not forms else []
    table = Table("model", "version", "is", "trained on", "rows", "made", "sensors", "window", "weights", "manifest")
    for each in found:
        contract = each.contract
        about = ("?", "?", "?", "?", "?")
        if contract is not None:
            data = contract.data
            about = (data.source, str(data.rows), contract.created, str(len(contract.sensors)), str(contract.window))
        table.add_row(each.model, str(each.version), each.state, *about, each.weights, each.manifest)
    if found:
        result_console().print(table)
    if forms:
        result_console().print(_table_of(forms))
    for name in store.known():
        found_hold = held(store, name)
        if found_hold is not None:
            print(f"{name} is {found_hold}. `glaim-stream models release {repository} {name}` lets new versions in")
    if any([each.problem for each in found] + [each.problem for each in forms]):
        sys.exit(1)


def _table_of(forms: list[ListedForm]) -> Table:
    from rich.table import Table

    from glaim_stream.core.times import text_of_ms

    table = Table("model", "closed form", "is", "fitted until", "sensors", "steps", "manifest")
    for each in forms:
        found = each.found
        if found is None:
            table.add_row(each.model, "?", each.state, "?", "?", "?", each.problem)
            continue
        until = text_of_ms(found.until_ms) if found.until_ms else "?"
        sensors, steps = str(len(found.form.sensors)), str(found.form.steps)
        table.add_row(each.model, found.digest, each.state, until, sensors, steps, each.manifest)
    return table


@app.command("wait")
def wait_(repository: Repository, limit: Annotated[float, typer.Option("--for", help="Seconds.")] = 3600.0) -> None:
    """Wait until a repository can be reached and holds a model, whether or not all of its versions are complete.

    Exit code 2 when it does not in time.
    """
    from glaim_stream.models import open_store

    exit_at_sigterm(DONE)
    _await_models(open_store(repository), limit)


@app.command()
def fetch(
    source: Repository,
    to: Annotated[Path, typer.Option(help="Repository on this machine; created when absent.")],
    model: Models = None,
    keep: Annotated[int, typer.Option(min=1, help="Number of the newest versions to fetch; Triton serves two.")] = 2,
    missing_only: Annotated[
        bool, typer.Option("--missing-only", help="Only models without any version there: fills an empty volume.")
    ] = False,
    mirror: Annotated[
        bool, typer.Option("--mirror", help="Remove versions here that the source no longer has, as after a rollback.")
    ] = False,
    wait: Wait = 0.0,
    tries: Tries = 5,
    every: Annotated[
        float, typer.Option(min=0, help="Look for new versions every so many seconds, until SIGTERM. 0: once.")
    ] = 0.0,
) -> None:
    """Copy models to this machine. Each arrives whole or not at all, its weights checked against its contract."""
    from glaim_stream.core.errors import GlaimError, ModelError
    from glaim_stream.core.settings import read_settings
    from glaim_stream.models import fetch as bring
    from glaim_stream.models import is_here, open_store

    if missing_only and mirror:
        raise ModelError(
            "expected --missing-only or --mirror, found both: one keeps what is there, the other follows the source"
        )
    store = open_store(source)
    if is_here(store, to):
        raise ModelError(f"expected another repository than {to} to fetch models from")
    trust = read_settings().trust

    def once() -> int:
        return bring(store, to, models=model or (), keep=keep, missing_only=missing_only, mirror=mirror, trust=trust)

    exit_at_sigterm(DONE)
    if wait:
        _await_models(store, wait)
    changes = _persistently(once, tries)
    if not changes:
        print(f"{to}: nothing new in {store.location}")
    while every:
        time.sleep(every)
        try:
            once()
        except (OSError, GlaimError) as error:  # the versions here are served meanwhile
            print(f"error: {error}; trying again in {every:g} s", file=sys.stderr, flush=True)


@app.command()
def push(
    source: Annotated[Path, typer.Argument(help="Repository on this machine.")],
    to: Repository,
    model: Models = None,
    tries: Tries = 5,
) -> None:
    """Copy the versions that the other repository lacks; a version counts there once it is whole."""
    from glaim_stream.core.settings import read_settings
    from glaim_stream.models import open_store
    from glaim_stream.models import push as put_up

    target, trust = open_store(to), read_settings().trust
    if not _persistently(lambda: put_up(source, target, models=model or (), trust=trust), tries):
        print(f"{target.location}: nothing new in {source}")


@app.command()
def seal(
    repository: Annotated[Path, typer.Argument(help="Repository on this machine.")],
    model: Models = None,
) -> None:
    """Write the manifest of every version and closed form anew: for those without one, or after a change of the files.

    It states what is there, so look at it first. A signature does not outlive it: sign again.
    """
    from glaim_stream.core.errors import ModelError
    from glaim_stream.models import open_store, seal_form
    from glaim_stream.models import seal as write_manifest

    store = open_store(str(repository))
    available = sorted({*store.models(), *store.forms()})
    absent = sorted(set(model or ()) - set(available))
    if absent or not available:
        raise ModelError(
            f"expected {', '.join(absent) or 'a model'} in {repository}, found {', '.join(available) or 'none'}"
        )
    for name in model or available:
        for version in store.versions(name):
            files = write_manifest(repository / name, version).files
            print(f"{name}: the manifest of version {version} lists {len(files)} files")
        if seal_form(repository / name):
            print(f"{name}: the closed form has a manifest")


@app.command()
def rollback(
    repository: Repository,
    model: Annotated[str, typer.Argument(help="Name of the model.")],
    to: Annotated[
        str | None,
        typer.Option(
            help="Version that becomes the newest again, also a withdrawn one, or 0 for none; with --form the form, by "
            "its name in `models list`. [default: the one before]"
        ),
    ] = None,
    form: Annotated[bool, typer.Option("--form", help="Withdraw the closed form, not a version.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")] = False,
) -> None:
    """Withdraw the newest version: the one before is served again. It is kept beside the repository, never deleted.

    With --form the closed form is withdrawn: the one before, of the last five, is used again. Without a version the
    closed form fills, without both last value and interpolation.

    No training, learning or push adds a version until `models release`.
    """
    from glaim_stream.core.errors import ModelError
    from glaim_stream.core.settings import read_settings
    from glaim_stream.models import open_store, rollback_form
    from glaim_stream.models import rollback as withdraw

    store, trust = open_store(repository), read_settings().trust
    if form:
        rollback_form(store, model, to, dry_run=dry_run, trust=trust)
        return
    if to is not None and not to.isdecimal():
        raise ModelError(f"expected the number of a version after --to, or --form with it, found {to!r}")
    withdraw(store, model, None if to is None else int(to), dry_run=dry_run, trust=trust)


@app.command()
def release(repository: Repository, model: Annotated[str, typer.Argument(help="Name of the model.")]) -> None:
    """Let new versions in again after a rollback."""
    from glaim_stream.models import open_store
    from glaim_stream.models import release as let_in

    released = let_in(open_store(repository), model)
    print(f"{model}: {'new versions are let in again' if released else 'it is not held'}")


@app.command()
def prune(
    repository: Repository,
    keep: Annotated[
        int, typer.Option(min=2, help="Number of the newest versions of a model to keep; Triton serves two.")
    ],
    model: Models = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")] = False,
    tries: Tries = 5,
) -> None:
    """Delete the weights of old versions. Their contracts stay, and their numbers are never reused."""
    from glaim_stream.models import open_store
    from glaim_stream.models import prune as delete

    store = open_store(repository)
    if not _persistently(lambda: len(delete(store, keep=keep, models=model or (), dry_run=dry_run)), tries):
        print(f"{store.location}: nothing older than the newest {keep} versions")


def _await_models(store: Store, wait_s: float) -> None:
    """Wait until a repository can be reached and holds a model or a closed form.

    Raises:
        ModelError: it does not within this time.
    """
    from glaim_stream.core.errors import ModelError

    end_s, said = time.monotonic() + wait_s, ""
    while True:
        try:
            if store.known():
                return
            found = "none"
        except OSError as error:
            found = str(error)
        if time.monotonic() >= end_s:
            raise ModelError(f"expected a model in {store.location} within {wait_s:g} s, found {found}")
        if found != said:
            print(f"expected a model in {store.location}, found {found}; waiting", file=sys.stderr, flush=True)
            said = found
        time.sleep(_POLL_S)


def _persistently(do: Callable[[], int], tries: int) -> int:
    """Again after what a network or a disk may get over; what is wrong with the models themselves is said at once.

    Raises:
        ModelError: the last try failed too.
    """
    from glaim_stream.core.errors import ModelError
    from glaim_stream.core.retry import MODEL_STORE

    pauses = MODEL_STORE.pauses()
    for left in range(tries - 1, -1, -1):
        try:
            return do()
        except OSError as error:
            if not left:
                raise ModelError(f"after {tries} tries: {error}") from error
            pause_s = next(pauses)
            print(f"{error}; trying again in {pause_s:.1f} s, {left} times more", file=sys.stderr, flush=True)
            time.sleep(pause_s)
    raise AssertionError("a try either returns or raises")
