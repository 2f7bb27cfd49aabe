"""The rung of the closed form: expected values under a Gaussian, computed in the worker without a network.

A model has one if its folder in the repository holds `gaussian.npz`. A new file is taken up between two batches.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core import metrics
from glaim_stream.core.catalogue import Model
from glaim_stream.core.contract import FORM_FILE, Contract
from glaim_stream.core.errors import ImputerAbsent, ImputerError, ModelError
from glaim_stream.core.settings import Settings
from glaim_stream.core.trust import Trust
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import ClosedForm, Kind, are, artefact, decimals_in, packing
from glaim_stream.imputers.protocol import Imputed, Windows
from glaim_stream.imputers.simple import interpolated
from glaim_stream.models import form_folder, read_sealed_form

log = logging.getLogger(__name__)

CHECK_INTERVAL_S = 10.0  # a check reads the attributes of one file
_DIGITS = 8  # digits of the digest in `model_version`


class WatchedForm:
    """The newest usable closed form of one model."""

    def __init__(self, folder: Path, model: Model, trust: Trust) -> None:
        """Read the closed form, if there is one.

        Args:
            folder: the model's folder in the repository.
            model: the model's entry in the catalogue, which a closed form must fit.
            trust: checks that a closed form must pass.
        """
        self.folder, self._model, self._trust = folder, model, trust
        self._state: tuple[int, ...] = ()
        self.problem = ""  # reason for refusing the last file; each reason is logged once
        self.form: ClosedForm | None = None
        self.beside: artefact.Arrays = {}  # arrays in the file besides the form: habits and decimals of the sensors
        self.decimals: NDArray[np.int8] | None = None  # [C], of the sensors' readings; None: not learned
        self.refresh()

    def refresh(self) -> None:
        """Read the file again if it has changed. An unusable file is refused, and the form before stays."""
        name = self._model.name
        try:
            state = _state(self.folder / FORM_FILE)
            if state == self._state:
                self.problem = ""
                return
            form = self._read() if state else None
        except (ModelError, OSError) as error:
            if str(error) != self.problem:
                metrics.form_reads.labels(name, "refused").inc()
                kept = "it has none" if self.form is None else f"it keeps {version_of(self.form)}"
                log.warning("model %s: a closed form is refused, %s: %s", name, kept, error)
            self.problem = str(error)
            return
        if form is None:
            self.beside, self.decimals = {}, None
        if self.form is not None:
            with suppress(KeyError):  # another imputer of this process has removed it
                metrics.form_until_seconds.remove(name, version_of(self.form))
        self._state, self.problem, self.form = state, "", form
        if form is None:
            log.warning("model %s: the closed form was removed and is no longer used", name)
            return
        metrics.form_reads.labels(name, "read").inc()
        metrics.form_until_seconds.labels(name, version_of(form)).set((form.until_ms or 0) / 1000)
        log.info("model %s now has the closed form %s", name, version_of(form))

    def _read(self) -> ClosedForm:
        path = self.folder / FORM_FILE
        content = read_sealed_form(self.folder, self._trust)
        if content is None:
            raise ModelError(f"expected a closed form at {path}, found none")
        arrays = artefact.from_bytes(content, str(path))
        form = ClosedForm.from_arrays(arrays)
        model = self._model
        for what, expected, found in (
            ("sensors", model.sensor_ids, list(form.sensors)),
            ("window", model.window, form.steps),
            ("step_ms", model.step_ms, form.step_ms),
        ):
            if expected != found:
                raise ModelError(f"{FORM_FILE} has {what} {found}, the catalogue {expected}")
        self.decimals = decimals_in(arrays, len(form.sensors))
        self.beside = {name: arrays[name] for name in arrays.keys() - packing.pack(form).keys()}
        return form.with_directions(model.directions)


class ClosedFormImputer:
    """An imputer that computes closed forms in a thread, one batch of a model at a time."""

    name = "gaussian"

    def __init__(
        self,
        model_repository: Path,
        models: Iterable[Model],
        *,
        trust: Trust | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the closed forms that exist.

        Args:
            model_repository: folder with one folder per model.
            models: models of the catalogue.
            trust: checks that a version must pass before it is used.
            now_s: monotonic clock, seconds.
        """
        trust = trust or Trust()
        self._watched = {
            each.name: WatchedForm(form_folder(model_repository, each.name, learned=each.learn), each, trust)
            for each in models
        }
        self._locks = {name: asyncio.Lock() for name in self._watched}
        self._now_s = now_s
        self._checked_s = dict.fromkeys(self._watched, now_s())

    async def impute(self, windows: Windows) -> Imputed:
        """See Rung. Cells on which the closed form declines are interpolated."""
        watched = self._watched.get(windows.model)
        if watched is None:
            raise ImputerAbsent(f"no closed form of model {windows.model}")
        async with self._locks[windows.model]:
            now_s = self._now_s()
            if now_s - self._checked_s[windows.model] >= CHECK_INTERVAL_S:
                self._checked_s[windows.model] = now_s
                await asyncio.to_thread(watched.refresh)
            if watched.form is None:
                raise ImputerAbsent(f"no closed form of model {windows.model}")
            return await asyncio.to_thread(_imputed, watched.form, windows)

    def form_of(self, model: str) -> ClosedForm | None:
        """The closed form of a model that is in use; None if it has none."""
        watched = self._watched.get(model)
        return None if watched is None else watched.form

    def beside(self, model: str) -> artefact.Arrays:
        """Arrays in the file of a model's closed form besides the form."""
        watched = self._watched.get(model)
        return {} if watched is None else watched.beside

    def decimals_of(self, model: str) -> NDArray[np.int8] | None:
        """The decimals of a model's sensors that came with its closed form, int8 [C]; None if there are none."""
        watched = self._watched.get(model)
        return None if watched is None else watched.decimals

    def require_forms(self) -> None:
        """Require a closed form of every model.

        Raises:
            ModelError: a model has no closed form, or an unusable one.
        """
        for name, watched in self._watched.items():
            if watched.form is None:
                expected = f"model {name}: expected the closed form {watched.folder / FORM_FILE}"
                raise ModelError(f"{expected}, found {watched.problem or 'none; `glaim-stream learn` fits one'}")

    async def close(self) -> None:
        """Nothing to release."""


def create(settings: Settings, contracts: Mapping[str, Contract], models: Sequence[Model]) -> ClosedFormImputer:
    """Make the imputer that is registered as `gaussian`; contracts are not used."""
    return ClosedFormImputer(settings.model_repository, models, trust=settings.trust)


def version_of(form: ClosedForm) -> str:
    """The `model_version` of rows that a closed form filled."""
    return f"gaussian-{form.digest[:_DIGITS]}"


def _imputed(form: ClosedForm, windows: Windows) -> Imputed:
    found, expected = windows.values.shape[1:], (len(form.sensors), form.steps)
    if found != expected:
        raise ImputerError(f"the closed form of {windows.model} needs windows of {expected}, found {found}")
    if windows.end_ms is None:
        raise ImputerError(f"the closed form of {windows.model} needs the time of each window, found none")
    steps, asked = windows.steps, windows.asked
    try:
        with np.errstate(all="ignore"):  # values that are not finite are declined below
            filled = form.fill(windows.values, windows.observed, windows.end_ms, newest=steps, asked=asked)
            known = np.isfinite(filled.mean) & np.isfinite(filled.mean + 2.0 * filled.deviation)
            unmixable = form.unmixable(windows.values, windows.observed)
    except Exception as error:
        raise ImputerError(f"the closed form of {windows.model} failed: {error}") from error
    metrics.form_without_logarithm.labels(windows.model).inc(int(filled.without_logarithm.sum()))
    values, method = filled.mean, np.full(filled.mean.shape, Method.GAUSSIAN, np.int8)
    method[:, :, ~asked] = Method.NONE
    rows = np.flatnonzero(~(known | ~asked).all(axis=(1, 2)))
    if len(rows):
        turning = are(form.kinds, Kind.ANGLE)
        line, how = interpolated(windows.values[rows], windows.observed[rows], turning, newest=steps)
        values = values.copy()
        declined = ~known[rows] & asked
        values[rows] = np.where(declined, line, values[rows])
        method[rows] = np.where(declined, how, method[rows])
    deviation = np.where(known, filled.deviation, np.nan)
    version = [version_of(form)] * len(windows)
    trained_range = form.lowest, form.highest
    return Imputed(
        values,
        method,
        version,
        deviation,
        trained_range=trained_range,
        unmixable=unmixable,
        kinds=None if unmixable is None else form.kinds,
    )


def _state(path: Path) -> tuple[int, ...]:
    """Numbers that change with a file, also behind links; empty if there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
