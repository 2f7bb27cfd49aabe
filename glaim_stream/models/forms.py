"""Closed forms between repositories. They have no version numbers: the one fitted to newer rows replaces the other."""

from __future__ import annotations

from collections.abc import Callable

from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.models.form_history import find_form, is_withdrawn, keep_form, remove_form, write_form
from glaim_stream.models.form_manifest import place_form, require_sealed
from glaim_stream.models.store import Store, local_path


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
    found = find_form(source, model)
    if found is None:
        return follow and _remove_withdrawn(source, target, model, say)
    until_ms = found.until_ms
    require_sealed(model, found.content, found.manifest, found.signature, trust)
    try:
        present = find_form(target, model)
        if present is not None and (present.content == found.content or not (follow or until_ms > present.until_ms)):
            return False
    except ModelError:  # damaged: it is replaced
        present = None
    if not follow and is_withdrawn(target, model, found):
        say(f"{model}: closed form {found.digest} was withdrawn from {target.location} and is not copied again")
        return False
    if present is not None and not follow:
        keep_form(target, model)
    folder = local_path(target)
    if folder is not None:
        place_form(folder / model, found.content, manifest=found.manifest, signature=found.signature)
    else:
        write_form(target, model, model, found)
    say(f"{model}: closed form")
    return True


def _remove_withdrawn(source: Store, target: Store, model: str, say: Callable[[str], object]) -> bool:
    present = find_form(target, model)
    if present is None or not is_withdrawn(source, model, present):
        return False
    remove_form(target, model)
    say(f"{model}: closed form {present.digest} was withdrawn from {source.location}: removed here too")
    return True
