"""The closed forms that a model had: kept beside the repository, so that the newest can be withdrawn.

<repository>.withdrawn/<model>/forms/<n>/                    former forms; the highest number is the newest
                              /forms/withdrawn-<digest>/     forms that were rolled back
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.form import ClosedForm, artefact
from glaim_stream.models.folders import folder_of
from glaim_stream.models.form_manifest import (
    FORM_FILES,
    FORM_MANIFEST,
    FORM_SIGNATURE,
    manifest_of_form,
    place_form,
    require_sealed,
)
from glaim_stream.models.hold import hold
from glaim_stream.models.manifest import MAX_FILE_BYTES, MAX_MANIFEST_BYTES
from glaim_stream.models.store import WITHOUT_FOLDERS, Store, local_path

KEPT_FORMS = 5
NONE = "0"  # the name of no form
_DIGITS = 8
_WITHDRAWN = "withdrawn-"


@dataclass(frozen=True)
class FoundForm:
    """A closed form as it is in a repository."""

    content: bytes
    manifest: bytes | None
    signature: bytes | None
    where: str

    @cached_property
    def until_ms(self) -> int:
        """End of the rows to which it was fitted, epoch ms; 0 if that is unknown.

        Raises:
            ModelError: the file is damaged.
        """
        return int(artefact.text_of(artefact.from_bytes(self.content, self.where)).get("until_ms") or 0)

    @cached_property
    def form(self) -> ClosedForm:
        """The form itself.

        Raises:
            ModelError: the file is damaged.
        """
        return ClosedForm.from_arrays(artefact.from_bytes(self.content, self.where))

    @property
    def digest(self) -> str:
        """First digits of the digest, as in the `model_version` of its rows."""
        return self.form.digest[:_DIGITS]


@dataclass(frozen=True)
class ListedForm:
    """One closed form; `problem` is empty if it may be used, and `found` is then not None."""

    model: str
    state: str  # in use, kept, withdrawn
    found: FoundForm | None
    problem: str = ""
    manifest: str = "none"  # none, matches, signed


def find_form(store: Store, model: str) -> FoundForm | None:
    """The closed form in the folder `model` of a store; None if there is none.

    Raises:
        ModelError: it is not a file.
    """
    folder = folder_of(store, model)
    content = folder.read(FORM_FILE, MAX_FILE_BYTES)
    if content is None:
        return None
    manifest, signature = (folder.read(name, MAX_MANIFEST_BYTES) for name in (FORM_MANIFEST, FORM_SIGNATURE))
    return FoundForm(content, manifest, signature, f"{store.location}/{model}/{FORM_FILE}")


def write_form(store: Store, place: str, model: str, found: FoundForm) -> None:
    """Write a closed form and its manifest to a folder of a store; in a bucket each object appears whole.

    The form is last, so a folder without one is incomplete.
    """
    if store.fs.type_name not in WITHOUT_FOLDERS:
        store.fs.create_dir(f"{store.path}/{place}", recursive=True)
    manifest = found.manifest or manifest_of_form(model, found.content)
    files = {FORM_MANIFEST: manifest, FORM_SIGNATURE: found.signature, FORM_FILE: found.content}
    for name, content in files.items():
        if content is not None:
            with store.fs.open_output_stream(f"{store.path}/{place}/{name}") as out:
                out.write(content)
        elif store.has(f"{place}/{name}"):  # the signature of the manifest before
            store.fs.delete_file(f"{store.path}/{place}/{name}")


def remove_form(store: Store, model: str) -> None:
    """Remove the form in use, itself first."""
    for name in FORM_FILES:
        if store.has(f"{model}/{name}"):
            store.fs.delete_file(f"{store.path}/{model}/{name}")


def keep_form(store: Store, model: str) -> None:
    """Copy the form in use beside the repository before another replaces it; the newest `KEPT_FORMS` stay there."""
    found = find_form(store, model)
    if found is None:
        return
    aside, numbers = store.aside, _numbers(store, model)
    if numbers:
        newest = find_form(aside, _place(model, numbers[-1]))
        if newest is not None and newest.content == found.content:  # a replacement was interrupted
            return
    write_form(aside, _place(model, numbers[-1] + 1 if numbers else 1), model, found)
    for number in numbers[: 1 - KEPT_FORMS]:
        aside.fs.delete_dir(f"{aside.path}/{_place(model, number)}")


def is_withdrawn(store: Store, model: str, found: FoundForm) -> bool:
    """Whether this form was rolled back in this repository."""
    return store.aside.has(f"{_place(model, f'{_WITHDRAWN}{found.digest}')}/{FORM_FILE}")


def rollback_form(
    store: Store,
    model: str,
    to: str | None = None,
    *,
    dry_run: bool = False,
    trust: Trust | None = None,
    say: Callable[[str], object] = print,
) -> None:
    """Withdraw the closed form of a model: a former one is used again, or none, and the model is held (`hold`).

    Args:
        store: the repository.
        model: name of the model.
        to: name of the form to use, its `digest`, a kept or a withdrawn one; `0`: none; None: the one before.
        dry_run: change nothing.
        trust: checks that the restored form must pass.
        say: receives lines on the change.

    Raises:
        ModelError: there is no form, or no such one was kept, or those that were kept are damaged or do not match
            `trust`.
    """
    aside, current = store.aside, find_form(store, model)
    former, place = (None, "") if to == NONE else _former(store, model, current, to, trust or Trust())
    if current is None and former is None:
        raise ModelError(
            f"expected a closed form of {model} in {store.location}, found {', '.join(store.forms()) or 'none'}"
        )
    would = "would be" if dry_run else "is"
    if not dry_run:  # the hold is first: a form may be learned now
        digest, back = ("" if each is None else each.digest for each in (current, former))
        hold(store, model, [], None, time.time_ns() // 1_000_000, form=digest, back=back)
        if current is not None:
            write_form(aside, _place(model, f"{_WITHDRAWN}{digest}"), model, current)
        _restore(store, model, former)
        _forget(aside, model, place)
    if current is not None:
        say(f"{model}: closed form {current.digest} {would} withdrawn, to {aside.location}/{model}/forms")
    say(f"{model}: {'no closed form' if former is None else f'closed form {former.digest}'} {would} in use")
    if not dry_run:
        say(f"{model}: held. `glaim-stream models release {store.location} {model}` lets new forms and versions in")


def _former(store: Store, model: str, current: FoundForm | None, to: str | None, trust: Trust) -> tuple[FoundForm, str]:
    """Find the form to use again, and its folder beside the repository: the newest that was kept, or the named one."""
    aside, problems = store.aside, []
    places = [_place(model, number) for number in reversed(_numbers(store, model))]
    if to is not None:
        places += [_place(model, each) for each in aside.folder_names(f"{model}/forms") if each.startswith(_WITHDRAWN)]
    for place in places:
        try:
            former = find_form(aside, place)
            if former is None or (current is not None and former.content == current.content):
                continue
            if former.digest != to if to is not None else is_withdrawn(store, model, former):
                continue
            require_sealed(model, former.content, former.manifest, former.signature, trust)
        except ModelError as error:
            problems.append(str(error))
        else:
            return former, place
    before = "" if current is None else f" before {current.digest}"
    raise ModelError(
        f"{store.location}: no closed form of {model}{before if to is None else f' with the name {to}'} was kept"
        + "".join(f"; {each}" for each in problems)
        + ("" if current is None or to is not None else "; --to 0 leaves the model without one")
    )


def _forget(aside: Store, model: str, place: str) -> None:
    """Remove a form that is in use again from its folder, and if it was kept, those that were kept after it."""
    name = place.rpartition("/")[2]
    newer = [number for number in aside.folders(f"{model}/forms") if name.isdigit() and number > int(name)]
    for each in [place] * bool(place) + [_place(model, number) for number in newer]:
        aside.fs.delete_dir(f"{aside.path}/{each}")


def listed_forms(store: Store, trust: Trust) -> Iterator[ListedForm]:
    """The closed forms of every model: the one in use, those kept, the newest first, and those withdrawn."""
    aside = store.aside
    forms = store.forms()
    for model in store.known():
        if model in forms:
            yield _listed(store, model, model, "in use", trust)
        for number in reversed(_numbers(store, model)):
            yield _listed(aside, model, _place(model, number), "kept", trust)
        for name in aside.folder_names(f"{model}/forms"):
            if name.startswith(_WITHDRAWN):
                yield _listed(aside, model, _place(model, name), "withdrawn", Trust())


def _listed(store: Store, model: str, place: str, state: str, trust: Trust) -> ListedForm:
    try:
        found = find_form(store, place)
        if found is None:
            return ListedForm(model, state, None, "incomplete")
        require_sealed(model, found.content, found.manifest, found.signature, trust)
        found.form  # noqa: B018  a damaged file is found here
    except ModelError as error:
        return ListedForm(model, state, None, str(error))
    manifest = "none" if found.manifest is None else "signed" if trust.key is not None else "matches"
    return ListedForm(model, state, found, "", manifest)


def _restore(store: Store, model: str, former: FoundForm | None) -> None:
    folder = local_path(store)
    if former is None:
        remove_form(store, model)
    elif folder is None:
        write_form(store, model, model, former)
    elif former.signature is not None:
        place_form(folder / model, former.content, manifest=former.manifest, signature=former.signature)
    else:
        place_form(folder / model, former.content)  # its manifest lists both, whichever a reader finds


def _numbers(store: Store, model: str) -> list[int]:
    return store.folders(f"{model}/forms", store.withdrawn_root)


def _place(model: str, name: int | str) -> str:
    return f"{model}/forms/{name}"
