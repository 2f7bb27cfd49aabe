"""Accuracy, weights and versions of the models that viewers see, made every few seconds."""

from __future__ import annotations

from collections.abc import Set

from glaim_stream.page.compact import compact
from glaim_stream.page.figures import Accuracy, known_versions, refused_versions
from glaim_stream.page.sources import Sources
from glaim_stream.page.versions import versions_of

_EVERY_S = 5.0

Key = tuple[int, int]  # partition and model


class ModelPanels:
    """The newest event of each model, with a number that changes with it."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._made: dict[Key, tuple[float, int, bytes]] = {}  # each entry is replaced as a whole, so no lock is needed
        self.accuracy = Accuracy()

    def of(self, key: Key) -> tuple[int, bytes] | None:
        """Number and event; None before the first one."""
        made = self._made.get(key)
        return None if made is None else made[1:]

    def make(self, wanted: Set[Key], number: int, now_s: float) -> None:
        """Make events that are missing or older than a few seconds, and drop those of models that no viewer sees.

        Args:
            wanted: models that viewers see.
            number: number of the new events.
            now_s: time on the page's clock.

        Raises:
            LoopBusy: the event loop does not answer.
        """
        models = self._sources.pipeline.catalogue.models
        self.accuracy.keep({models[index].name for _, index in wanted})
        made = {key: self._made[key] for key in wanted if key in self._made}
        for partition, index in wanted:
            before = made.get((partition, index))
            if before is not None and now_s - before[0] < _EVERY_S:
                continue
            model = models[index]
            document = {
                "model": model.name,
                "partition": partition,
                "sensors": [{"id": sensor.id, "unit": sensor.unit} for sensor in model.sensors],
                "weights": self._sources.in_loop(self._sources.weights(partition, index)),
                **self.accuracy.read(model.name),
                "versions": versions_of(
                    model,
                    known_versions(model.name),
                    refused_versions(model.name),
                    self._sources.pipeline.contracts,
                    self._sources.form_of(model.name),
                ),
            }
            made[partition, index] = (now_s, number, compact(document))
        self._made = made
