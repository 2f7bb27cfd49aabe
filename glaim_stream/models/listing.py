"""Lists the versions of a repository, and whether their files match contracts and manifests."""

from __future__ import annotations

from dataclasses import dataclass

from glaim_stream.core.contract import CONTRACT_FILE, WEIGHTS, Contract
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.models.fetch import SERVED
from glaim_stream.models.folders import folder_of
from glaim_stream.models.sealed import open_sealed, require_operators
from glaim_stream.models.store import Store


@dataclass(frozen=True, slots=True)
class Listed:
    """One version; `problem` is empty if it may be used."""

    model: str
    version: int
    state: str  # newest, served, kept, withdrawn, pruned
    contract: Contract | None
    problem: str
    manifest: str = "none"  # none, matches, signed

    @property
    def weights(self) -> str:
        """State of the weights, as a sentence fragment."""
        if self.contract is None or self.state == "pruned":
            return self.problem or "no longer here"
        return self.problem or "match the contract"


def listing(store: Store, trust: Trust | None = None) -> list[Listed]:
    """List every version of every model, ascending; withdrawn and pruned versions follow the others.

    A model whose versions are all withdrawn is listed too.

    Args:
        store: the repository.
        trust: checks that a version must pass.

    Raises:
        ModelError: there is no model.
    """
    models = store.models()
    names = [name for name in store.known() if name in models or store.withdrawn(name)]
    if not names:
        raise ModelError(f"expected a model in {store.location}, found none: a folder with contract.json")
    trust = trust or Trust()
    found = []
    for name in names:
        numbers = store.folders(name)
        for number in numbers:
            place = len(numbers) - numbers.index(number)
            state = "newest" if place == 1 else "served" if place <= SERVED else "kept"
            found.append(_listed(store, name, number, state, trust))
        for number in store.withdrawn(name):
            found.append(_withdrawn(store.aside, name, number))
    return found


def _withdrawn(aside: Store, name: str, number: int) -> Listed:
    if aside.has(f"{name}/{number}/{WEIGHTS}"):
        return _listed(aside, name, number, "withdrawn", None)
    if aside.has(f"{name}/{number}/{CONTRACT_FILE}"):
        return Listed(name, number, "pruned", aside.contract(name, number), "")
    return Listed(name, number, "withdrawn", None, "")  # only its number is known, from a fetch


def _listed(store: Store, name: str, number: int, state: str, trust: Trust | None) -> Listed:
    """Without `trust` the manifest is not checked: its configuration stays with the served versions."""
    try:
        contract = store.verify(name, number)
        if trust is None:
            return Listed(name, number, state, contract, "")
        folder = folder_of(store, name)
        sealed = open_sealed(folder, name, number, trust, store.location)
        if sealed is None:
            require_operators(folder, name, number, trust)
            return Listed(name, number, state, contract, "")
    except ModelError as error:
        return Listed(name, number, state, None, str(error))
    return Listed(name, number, state, contract, "", "signed" if trust.key is not None else "matches")
