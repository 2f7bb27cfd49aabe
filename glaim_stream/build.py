"""Builds the pipeline and its ladder of imputers from the settings, for the worker and for a replay alike.

An imputer is found by its name (core/registry.py), and torch or the Triton client are imported only with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from glaim_stream.core.catalogue import Catalogue, Model, read_catalogue
from glaim_stream.core.contract import CONTRACT_FILE, Contract
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.registry import EXPERTS, IMPUTERS
from glaim_stream.core.settings import WITHOUT_NETWORK, Settings
from glaim_stream.health import HabitsSource
from glaim_stream.imputers import (
    BlendedRung,
    ClosedFormImputer,
    ExpertRung,
    Imputed,
    Ladder,
    Rung,
    State,
    Windows,
)
from glaim_stream.models import Contracts, all_withdrawn, read_sealed_contract
from glaim_stream.pipeline import Pipeline

_BATCH_WITHOUT_NETWORK = 4_096  # windows of a call: a closed form takes a quarter longer over calls of 64
_IN_FLIGHT = 8  # calls for each model; more hide latency and use more memory
BREAKER_REST_S = 5.0  # without calls for a model that did not respond; shorter delays more batches while it is down
_ENVELOPE_BYTES = 2_000  # headers and framing of a message, which count towards the broker's limit

OnFailure = Callable[[str, str], None]  # names of a rung that could not answer and of the model
OnState = Callable[[str, str, State], None]  # names of a rung and a model, and the new state of their breaker


@runtime_checkable
class ServedRung(Protocol):
    """A rung whose models are served by another process."""

    @property
    def name(self) -> str:
        """Short name for metrics and logs."""
        ...

    async def check(self) -> None:
        """Compare what is served with the contracts.

        Raises:
            ContractError: a served model does not fit its contract.
            ImputerUnavailable: the server does not answer.
        """
        ...

    async def look(self) -> None:
        """Look at the versions that are served, and choose the one to call."""
        ...


@runtime_checkable
class VersionedRung(Protocol):
    """A rung that can impute by another version than the one that answers."""

    async def impute_by_other(self, windows: Windows, serving: str) -> Imputed | None:
        """Impute by another version than `serving`; None where there is none.

        Raises:
            ImputerError: it cannot impute these windows.
        """
        ...


def create_pipeline(
    settings: Settings,
    catalogue: Catalogue | None = None,
    *,
    upgrades: bool = True,
    quality: bool = False,
    shadow: bool = False,
    on_failure: OnFailure = lambda rung, model: None,
    on_state: OnState = lambda rung, model, state: None,
) -> tuple[Pipeline, Ladder]:
    """Build a pipeline, and the ladder in it, which the caller must close.

    Args:
        settings: of the worker.
        catalogue: the settings' one, where it has been read already.
        quality: sum up live accuracy, where the settings name a topic for it.
        shadow: score another version of a network on the probes, where the imputer serves two.
        upgrades: let network or first closed form fill again what a lower rung has filled, for our imputers.
        on_failure: called for every batch that a rung could not answer.
        on_state: called whenever the breaker of a rung for a model changes its state.

    Raises:
        GlaimError: the catalogue, a contract or a model cannot be used.
    """
    catalogue = catalogue or read_catalogue(settings.catalogue)
    contracts = read_contracts(settings, catalogue)
    ladder = create_ladder(settings, contracts, catalogue.models, on_failure=on_failure, on_state=on_state)
    compared = next((rung for rung in ladder.rungs if isinstance(rung, VersionedRung)), None)
    form_expert = None
    closed_forms = next((rung for rung in ladder.rungs if isinstance(rung, ClosedFormImputer)), None)
    if settings.scored:
        closed_forms = ClosedFormImputer(settings.model_repository, catalogue.models, trust=settings.trust)
        form_expert = BlendedRung(closed_forms, on_failure=on_failure)
    networks = list(contracts) if settings.needs_model else [] if settings.imputer in WITHOUT_NETWORK else None
    return Pipeline(
        catalogue,
        contracts,
        ladder,
        form_expert=form_expert,
        experts=create_experts(settings, catalogue.models, on_failure=on_failure),
        max_message_bytes=settings.max_message_bytes - _ENVELOPE_BYTES,
        score_share=settings.probed_share,
        upgrades=upgrades and settings.uses_forms and networks is not None,
        clock_kept=settings.delivery == "exactly_once",
        quality=quality and settings.quality,
        decimals=closed_forms.decimals_of if closed_forms is not None else lambda model: None,
        habits=HabitsSource(closed_forms).of if settings.judges_health and closed_forms is not None else None,
        shadow=compared.impute_by_other if shadow and settings.compares_versions and compared is not None else None,
        shadow_windows=settings.triton_batch,
        networks=networks,
        budget=settings.budget,
    ), ladder


def closed_forms_of(pipeline: Pipeline, ladder: Ladder) -> ClosedFormImputer | None:
    """The imputer of the closed forms in a pipeline, an expert of the blend or a rung; None where there is none."""
    found = [pipeline.form_expert.rung] if pipeline.form_expert is not None else ladder.rungs
    return next((rung for rung in found if isinstance(rung, ClosedFormImputer)), None)


def create_experts(
    settings: Settings,
    models: Sequence[Model],
    *,
    on_failure: OnFailure = lambda rung, model: None,
) -> dict[str, list[BlendedRung]]:
    """Make the experts that the catalogue names: for each model, in the order of their numbers.

    Raises:
        SettingsError: an expert is not registered, two have the same number, or nothing is blended.
    """
    named = sorted({name for model in models for name in model.experts})
    if named and not settings.scored:
        raise SettingsError(
            f"the catalogue names the experts {', '.join(named)}: expected a blend, which needs a network or a closed "
            f"form and score_share above 0; found imputer {settings.imputer} with score_share {settings.probed_share:g}"
        )
    made: dict[str, ExpertRung] = {name: EXPERTS.find(name)(settings, models) for name in named}
    numbers = {name: expert.number for name, expert in made.items()}
    if len({0, 1, 2, *numbers.values()}) < len(made) + 3:
        raise SettingsError(f"expected experts with numbers of their own from 3 on, found {numbers}")
    rungs = {name: BlendedRung(made[name], on_failure=on_failure) for name in sorted(made, key=lambda n: numbers[n])}
    return {model.name: [rungs[name] for name in rungs if name in model.experts] for model in models}


def create_ladder(
    settings: Settings,
    contracts: Mapping[str, Contract],
    models: Sequence[Model] = (),
    *,
    on_failure: OnFailure = lambda rung, model: None,
    on_state: OnState = lambda rung, model, state: None,
) -> Ladder:
    """Build the imputer that the settings name and the rungs below it, with interpolation as the last one.

    The closed form is a rung only where no experts are blended; otherwise it is one of them (`create_pipeline`).

    Args:
        settings: of the worker.
        contracts: of the models that networks serve, by model name.
        models: of the catalogue; each may have a closed form.
        on_failure: called for every batch that a rung could not answer.
        on_state: called whenever the breaker of a rung for a model changes its state.
    """
    named = [settings.imputer]
    if settings.uses_forms:
        named = [name for name in dict.fromkeys([*named, "gaussian"]) if name != "gaussian" or not settings.scored]
        named.append("interpolation")
    rungs: list[Rung] = [IMPUTERS.find(name)(settings, contracts, models) for name in named]
    return Ladder(
        rungs,
        batch=settings.triton_batch if settings.needs_model else _BATCH_WITHOUT_NETWORK,
        in_flight=_IN_FLIGHT,
        rest_s=BREAKER_REST_S,
        on_failure=on_failure,
        on_state=on_state,
    )


def read_contracts(settings: Settings, catalogue: Catalogue) -> Contracts:
    """Read the contracts of the catalogue's models; where no network is needed, a missing one is no error."""
    needed = _needed(settings, catalogue)
    at_start = {
        model.name: read_sealed_contract(settings.model_repository / model.name, "", settings.trust)
        for model in catalogue.models
        if model.name in needed or (settings.model_repository / model.name / CONTRACT_FILE).exists()
    }
    return Contracts(at_start, settings.model_repository, trust=settings.trust)


def missing_contracts(settings: Settings, catalogue: Catalogue) -> list[Path]:
    """The contracts without which the pipeline cannot be built, of those that are not there."""
    files = [settings.model_repository / name / CONTRACT_FILE for name in _needed(settings, catalogue)]
    return [file for file in files if not file.exists()]


def _needed(settings: Settings, catalogue: Catalogue) -> list[str]:
    models = catalogue.models if settings.needs_model else ()
    return [each.name for each in models if not each.learn and not all_withdrawn(settings.model_repository / each.name)]
