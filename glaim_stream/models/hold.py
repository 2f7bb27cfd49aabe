"""Holds: after a rollback no new version and no new closed form enters the repository until somebody releases it.

Otherwise the next scheduled training, from the same data, would put a similar version back. The hold is
a file beside the withdrawn versions, `<repository>.withdrawn/<model>/hold.json`, so that every process that sees the
repository sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from glaim_stream.core.errors import ModelError
from glaim_stream.core.times import text_of_ms
from glaim_stream.models.store import WITHOUT_FOLDERS, Store, open_store

HOLD_FILE = "hold.json"


@dataclass(frozen=True, slots=True)
class Hold:
    """The reason why a model takes no new versions."""

    withdrawn: list[int]  # versions
    newest: int | None  # the newest version after the rollback, 0 without any; None if only forms were withdrawn
    since_ms: int  # epoch ms
    forms: list[str] = field(default_factory=list)  # first digits of the digests of closed forms

    def __str__(self) -> str:
        found = [_plural("version", list(map(str, self.withdrawn))), _plural("closed form", self.forms)]
        at = "" if self.newest is None else f" at version {self.newest}" if self.newest else " without a version"
        what = " and ".join(filter(None, found))
        return f"held{at} since {text_of_ms(self.since_ms)}{f': {what} rolled back' if what else ''}"


def _plural(what: str, names: list[str]) -> str:
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""


def held(store: Store, model: str) -> Hold | None:
    """The hold of a model; None if it has none.

    Raises:
        ModelError: the file cannot be read.
    """
    aside = store.aside
    if not aside.has(f"{model}/{HOLD_FILE}"):
        return None
    with aside.fs.open_input_stream(f"{aside.path}/{model}/{HOLD_FILE}") as file:
        content = file.read()
    try:
        return msgspec.json.decode(content, type=Hold)
    except msgspec.MsgspecError as error:
        raise ModelError(
            f"{aside.location}/{model}/{HOLD_FILE} cannot be read: {error}. "
            f"`glaim-stream models release {store.location} {model}` removes it"
        ) from error


def hold(
    store: Store,
    model: str,
    withdrawn: Sequence[int],
    newest: int | None,
    now_ms: int,
    *,
    form: str = "",
    back: str = "",
) -> None:
    """Hold a model at a version, or at its former closed form; what an earlier hold withdrew is added.

    Args:
        store: the repository.
        model: name of the model.
        withdrawn: versions that are withdrawn.
        newest: the newest version that remains, 0 without any; None: unchanged.
        now_ms: start of a new hold, epoch ms.
        form: first digits of the digest of a closed form that is withdrawn.
        back: the same of one that is put back.
    """
    before = held(store, model)
    forms = [each for each in (before.forms if before is not None else ()) if each != back]
    forms += [form] if form else []
    if newest is None and before is not None:
        newest = before.newest
    versions = sorted({*withdrawn, *(before.withdrawn if before is not None else ())} - {newest})  # it may be back
    since_ms = now_ms if before is None else before.since_ms
    aside = store.aside
    if aside.fs.type_name not in WITHOUT_FOLDERS:
        aside.fs.create_dir(f"{aside.path}/{model}", recursive=True)
    with aside.fs.open_output_stream(f"{aside.path}/{model}/{HOLD_FILE}") as out:
        out.write(msgspec.json.encode(Hold(versions, newest, since_ms, list(dict.fromkeys(forms)))))


def release(store: Store, model: str) -> bool:
    """Remove the hold of a model; False if it has none."""
    aside = store.aside
    if not aside.has(f"{model}/{HOLD_FILE}"):
        return False
    aside.fs.delete_file(f"{aside.path}/{model}/{HOLD_FILE}")
    return True


def require_released(store: Store, model: str) -> None:
    """Require that a model takes new versions.

    Raises:
        ModelError: the model is held.
    """
    found = held(store, model)
    if found is not None:
        raise ModelError(
            f"{store.location}: {model} is {found}. Until it is released it takes no new version and no new closed "
            f"form: `glaim-stream models release {store.location} {model}`"
        )


def require_folder_released(folder: Path) -> None:
    """`require_released` for a model's folder on this machine."""
    require_released(open_store(str(folder.absolute().parent)), folder.name)
