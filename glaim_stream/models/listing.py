"""Lists the versions of a repository and whether their weights match their contracts."""

from __future__ import annotations

from dataclasses import dataclass

from glaim_stream.errors import ModelError
from glaim_stream.models.contract import CONTRACT_FILE, Contract
from glaim_stream.models.fetch import SERVED
from glaim_stream.models.store import WEIGHTS, Store


@dataclass(frozen=True, slots=True)
class Listed:
    """One version; `problem` is empty if its weights match its contract."""

    model: str
    version: int
    state: str  # newest, served, kept, withdrawn, pruned
    contract: Contract | None
    problem: str

    @property
    def weights(self) -> str:
        """State of the weights, as a sentence fragment."""
        if self.contract is None or self.state == "pruned":
            return self.problem or "no longer here"
        return self.problem or "match the contract"


def listing(store: Store) -> list[Listed]:
    """List every version of every model, ascending; withdrawn and pruned versions follow the others.

    Raises:
        ModelError: there is no model.
    """
    names = store.models()
    if not names:
        raise ModelError(f"expected a model in {store.location}, found none: a folder with contract.json")
    found = []
    for name in names:
        numbers = store.folders(name)
        for number in numbers:
            place = len(numbers) - numbers.index(number)
            found.append(
                _listed(store, name, number, "newest" if place == 1 else "served" if place <= SERVED else "kept")
            )
        for number in store.withdrawn(name):
            found.append(_withdrawn(store.aside, name, number))
    return found


def _withdrawn(aside: Store, name: str, number: int) -> Listed:
    if aside.has(f"{name}/{number}/{WEIGHTS}"):
        return _listed(aside, name, number, "withdrawn")
    if aside.has(f"{name}/{number}/{CONTRACT_FILE}"):
        return Listed(name, number, "pruned", aside.contract(name, number), "")
    return Listed(name, number, "withdrawn", None, "")  # only its number is known, from a fetch


def _listed(store: Store, name: str, number: int, state: str) -> Listed:
    try:
        contract = store.contract(name, number)
        store.verify(name, number)
    except ModelError as error:
        return Listed(name, number, state, None, str(error))
    return Listed(name, number, state, contract, "")
