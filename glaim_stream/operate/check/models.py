"""Checks catalogue and contracts against each other, and models by real inferences."""

from __future__ import annotations

import time

from glaim_stream.core.catalogue import Catalogue, Model, read_catalogue
from glaim_stream.core.contract import CONTRACT_FILE, FORM_FILE, Contract, read_contract
from glaim_stream.core.errors import CatalogueError, ContractError, GlaimError
from glaim_stream.core.registry import IMPUTERS
from glaim_stream.core.settings import Settings
from glaim_stream.imputers import Rung, WatchedForm, empty_windows, typical_windows, version_of
from glaim_stream.imputers.remote import TritonImputer
from glaim_stream.models import Contracts
from glaim_stream.operate.check.findings import CheckFinding, failed, ok, warning


def catalogue_findings(settings: Settings) -> tuple[list[CheckFinding], Catalogue | None]:
    """A finding on the catalogue, and the catalogue; None if it cannot be used."""
    subject = f"catalogue {settings.catalogue}"
    try:
        catalogue = read_catalogue(settings.catalogue)
    except CatalogueError as error:
        return [failed(subject, expected="a catalogue that can be used", found=str(error))], None
    return [ok(subject, f"{len(catalogue.models)} models, {len(catalogue.groups)} entries of groups")], catalogue


def contract_findings(settings: Settings, catalogue: Catalogue) -> tuple[list[CheckFinding], dict[str, Contract]]:
    """A finding on the contract of each model, and the contracts that fit; imputers without a model need none."""
    found: list[CheckFinding] = []
    contracts: dict[str, Contract] = {}
    for model in catalogue.models:
        if model.learn and not (settings.model_repository / model.name / CONTRACT_FILE).exists():
            found.append(ok(f"contract of {model.name}", "none is needed: its closed form is learned from the stream"))
            continue
        subject = f"contract of {model.name}"
        try:
            contracts[model.name] = _contract(settings, model)
            found.append(ok(subject, f"version {contracts[model.name].version}, fits the catalogue"))
        except ContractError as error:
            severity = failed if settings.needs_model else warning
            found.append(severity(subject, expected="a contract that fits the catalogue", found=str(error)))
    return found, contracts


def form_findings(settings: Settings, catalogue: Catalogue) -> list[CheckFinding]:
    """A finding on the closed form of each model, if closed forms are the first imputer."""
    if settings.imputer != "gaussian":
        return []
    return [_form(settings, model) for model in catalogue.models]


async def answer_findings(settings: Settings, contracts: dict[str, Contract]) -> list[CheckFinding]:
    """Findings on real inferences by the first imputer: a typical and an empty window of each model."""
    if not settings.needs_model:
        return [ok(f"imputer {settings.imputer}", "needs no model")]
    return [await _answer(settings, name, contract) for name, contract in contracts.items()]


async def _answer(settings: Settings, name: str, contract: Contract) -> CheckFinding:
    where = f"triton {settings.triton}" if settings.imputer == "triton" else settings.imputer
    subject = f"model {name} on {where}"
    expected = f"answers as the contract of version {contract.version} promises"
    contracts = Contracts({name: contract}, settings.model_repository)
    try:
        unscored = settings.model_copy(update={"score_share": 0.0})  # no other version is looked for
        rung: Rung = IMPUTERS.find(settings.imputer)(unscored, contracts, ())
    except GlaimError as error:
        return failed(subject, expected=expected, found=str(error))
    try:
        if isinstance(rung, TritonImputer):
            await rung.check()
        start_s = time.perf_counter()
        answer = await rung.impute(typical_windows(contract))
        took_ms = (time.perf_counter() - start_s) * 1000
        of_empty = await rung.impute(empty_windows(contract))
    except GlaimError as error:
        return failed(subject, expected=expected, found=str(error))
    finally:
        await rung.close()
    version = answer.version[0]
    failing = rung.failing(name) if isinstance(rung, TritonImputer) else []
    if failing:
        found = f"version {', '.join(failing)} fails, and version {of_empty.version[0]} answers in its place"
        return warning(subject, expected=expected, found=found)
    if contracts.of(name, version) is None:
        return warning(
            subject, expected=expected, found=f"version {version}: its values have no intervals without its contract"
        )
    return ok(subject, f"version {version} answered in {took_ms:.0f} ms")


def _form(settings: Settings, model: Model) -> CheckFinding:
    subject = f"closed form of {model.name}"
    watched = WatchedForm(settings.model_repository / model.name, model, settings.trust)
    if watched.form is not None:
        return ok(subject, f"{version_of(watched.form)}, fits the catalogue")
    found = watched.problem or "none: interpolation fills until there is one"
    return warning(subject, expected=f"{FORM_FILE} in the model's folder", found=found)


def _contract(settings: Settings, model: Model) -> Contract:
    contract = read_contract(settings.model_repository / model.name)
    model.require_contract(contract)
    return contract
