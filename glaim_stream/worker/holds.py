"""The gauge of holds: the time since which a model takes no new version, because one was rolled back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from glaim_stream.core import metrics
from glaim_stream.core.errors import ModelError
from glaim_stream.models import HOLD_FILE, held, open_store, withdrawn

log = logging.getLogger(__name__)

INTERVAL_S = 60.0


async def watch_holds(repository: Path, models: Sequence[str], *, interval_s: float = INTERVAL_S) -> None:
    """Update the gauge until cancelled. While the repository cannot be read, the series stay.

    Args:
        repository: the folder with the models' contracts; holds lie beside it.
        models: names of the models of the catalogue.
        interval_s: seconds between two looks.
    """
    shown: set[str] = set()
    while True:
        try:
            holds = await asyncio.to_thread(_holds, repository, models)
        except OSError as error:
            log.warning("cannot look for holds beside %s: %s", repository, error)
        else:
            for model in shown - holds.keys():
                metrics.model_held_seconds.remove(model)
            for model, since_s in holds.items():
                metrics.model_held_seconds.labels(model).set(since_s)
            shown = set(holds)
        await asyncio.sleep(interval_s)


def _holds(repository: Path, models: Sequence[str]) -> dict[str, float]:
    """Start of each model's hold, seconds since the epoch; a hold that cannot be read counts too."""
    repository = repository.absolute()
    store = open_store(str(repository))
    since_s = {}
    for model in models:
        try:
            hold = held(store, model)
        except ModelError:
            since_s[model] = (withdrawn(repository / model) / HOLD_FILE).stat().st_mtime
            continue
        if hold is not None:
            since_s[model] = hold.since_ms / 1000
    return since_s
