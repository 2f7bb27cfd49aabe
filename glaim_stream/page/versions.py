"""The versions of a model's network and its closed form, with their origin and age."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from glaim_stream.core.catalogue import Model
from glaim_stream.core.contract import Contract
from glaim_stream.core.errors import GlaimError
from glaim_stream.core.times import moment_ms
from glaim_stream.form import ClosedForm
from glaim_stream.imputers import version_of
from glaim_stream.models import Contracts


def versions_of(
    model: Model, known: Iterable[str], refused: Mapping[str, str], contracts: Mapping[str, Contract],
    form: ClosedForm | None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Describe the versions of a model as JSON, the newest of the network first, then the closed form.

    Args:
        model: model of the catalogue.
        known: versions of the network with a contract that was read.
        refused: versions that are out of service, with reasons.
        contracts: contracts of the pipeline.
        form: closed form in use; None without one.
    """
    found = []
    for version in sorted({*known, *refused}, key=lambda each: (len(each), each), reverse=True):
        contract = contracts.of(model.name, version) if isinstance(contracts, Contracts) else contracts.get(model.name)
        found.append(
            {
                "method": "model",
                "version": version,
                "source": ""
                if contract is None
                else f"trained on {contract.data.rows:,} rows of {contract.data.source}",
                "made_ms": None if contract is None else _made_ms(contract),
                "refused": refused.get(version, ""),
            }
        )
    if form is not None:
        source = "learned by the workers" if model.learn else "closed form of the model repository"
        found.append(
            {
                "method": "gaussian",
                "version": version_of(form),
                "source": source,
                "until_ms": form.until_ms,
                "refused": "",
            }
        )
    return found


def _made_ms(contract: Contract) -> int | None:
    try:
        return moment_ms(contract.created)
    except GlaimError:
        return None
