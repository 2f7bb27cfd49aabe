"""Closed forms between repositories. They have no version numbers: the one fitted to newer rows replaces the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.form import artefact
from glaim_stream.models.folders import folder_of
from glaim_stream.models.form_manifest import (
    FORM_MANIFEST,
    FORM_SIGNATURE,
    manifest_of_form,
    place_form,
    require_sealed,
)
from glaim_stream.models.manifest import MAX_FILE_BYTES, MAX_MANIFEST_BYTES
from glaim_stream.models.store import WITHOUT_FOLDERS, Store, local_path

_UNTIL = "until_ms"


@dataclass(frozen=True)
class FoundForm:
    """A closed form as it is in a repository.

    until_ms: end of the rows to which it was fitted.
    """

    content: bytes
    manifest: bytes | None
    signature: bytes | None
    until_ms: int


def copy_form(
    source: Store,
    target: Store,
    model: str,
    trust: Trust,
    *,
    follow: bool = False,
    say: Callable[[str], object] = print,
) -> bool:
    """Copy a model's closed form where the target has none or an older one; return whether it did.

    Args:
        source: repository with the form, or without one.
        target: repository that gets it.
        model: name of the model.
        trust: checks that a form must pass.
        follow: copy an older one too, as after a rollback.
        say: receives a line on the change.

    Raises:
        ModelError: the source's form is damaged, or does not match its manifest or `trust`.
    """
    found = _found(source, model)
    if found is None:
        return False
    require_sealed(model, found.content, found.manifest, found.signature, trust)
    try:
        present = _found(target, model)
    except ModelError:  # damaged: it is replaced
        present = None
    if present is not None and (present.content == found.content or not (follow or found.until_ms > present.until_ms)):
        return False
    folder = local_path(target)
    if folder is not None:
        place_form(folder / model, found.content, manifest=found.manifest, signature=found.signature)
    else:
        _upload(target, model, found)
    say(f"{model}: closed form")
    return True


def _upload(target: Store, model: str, found: FoundForm) -> None:
    """Each object appears whole, and the form last."""
    manifest = found.manifest or manifest_of_form(model, found.content)
    if target.fs.type_name not in WITHOUT_FOLDERS:
        target.fs.create_dir(f"{target.path}/{model}", recursive=True)
    files = {FORM_MANIFEST: manifest, FORM_SIGNATURE: found.signature, FORM_FILE: found.content}
    for name, content in files.items():
        if content is not None:
            with target.fs.open_output_stream(f"{target.path}/{model}/{name}") as out:
                out.write(content)
        elif target.has(f"{model}/{name}"):  # the signature of the manifest before
            target.fs.delete_file(f"{target.path}/{model}/{name}")


def _found(store: Store, model: str) -> FoundForm | None:
    folder = folder_of(store, model)
    content = folder.read(FORM_FILE, MAX_FILE_BYTES)
    if content is None:
        return None
    text = artefact.text_of(artefact.from_bytes(content, f"{store.location}/{model}/{FORM_FILE}"))
    manifest, signature = (folder.read(name, MAX_MANIFEST_BYTES) for name in (FORM_MANIFEST, FORM_SIGNATURE))
    return FoundForm(content, manifest, signature, int(text.get(_UNTIL) or 0))
