"""What a repository holds, version by version, and whether each is whole."""

from __future__ import annotations

from dataclasses import dataclass

from glaim_stream.contract import Contract
from glaim_stream.errors import ModelError
from glaim_stream.models.fetch import SERVED
from glaim_stream.models.store import Store


@dataclass(frozen=True, slots=True)
class Listed:
    """One version. `problem` is empty when its weights are the ones its contract was written for."""

    model: str
    version: int
    state: str  # newest, served, kept, withdrawn
    contract: Contract | None
    problem: str


def listing(store: Store) -> list[Listed]:
    """Every version of every model, ascending; those that were withdrawn after the others.

    Raises:
        ModelError: there is no model.
    """
    names = store.models()
    if not names:
        raise ModelError(f"expected a model in {store.said}, found none: a folder with contract.json")
    aside = Store(store.fs, store.withdrawn_root, store.said + " (withdrawn)")
    found = []
    for name in names:
        numbers = store.folders(name)
        for number in numbers:
            place = len(numbers) - numbers.index(number)
            found.append(
                _listed(store, name, number, "newest" if place == 1 else "served" if place <= SERVED else "kept")
            )
        for number in store.withdrawn(name):
            here = any(True for _ in aside.files(f"{name}/{number}"))  # else only its number is known, from a fetch
            found.append(
                _listed(aside, name, number, "withdrawn") if here else Listed(name, number, "withdrawn", None, "")
            )
    return found


def _listed(store: Store, name: str, number: int, state: str) -> Listed:
    try:
        contract = store.contract(name, number)
        store.verify(name, number)
    except ModelError as error:
        return Listed(name, number, state, None, str(error))
    return Listed(name, number, state, contract, "")
