"""Limits, resolutions and intervals of sensors, by model and by version of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Catalogue, Model
from glaim_stream.core.contract import Contract
from glaim_stream.form import Kind, Limits, are
from glaim_stream.models import Contracts

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Decimals = NDArray[np.int8]
_FEWEST_IN_LIMIT = 4.0  # learned resolutions in `max_interval`
Range = tuple[Doubles, Doubles]  # least and largest value of each sensor, [C]


@dataclass(frozen=True, slots=True)
class SensorTable:
    """The sensors of one model as arrays [C] or [C, A], which repairing rows needs."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    resolution: NDArray[np.float64]  # 0: do not round
    max_interval: NDArray[np.float64]  # infinite without a limit
    window: int  # steps; after a gap of this length nothing is known about the sensor
    gap_ages: NDArray[np.int64] | None  # [A], None without intervals
    residuals: Mapping[bool, tuple[Floats, Floats]]  # by "is the newest step": lower and upper [C, A]
    # Least and largest reading of the training data, [C]; None without a contract.
    trained_range: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    keep_sign: NDArray[np.bool_] | None = None  # [C], sensors whose filled values do not cross 0; None: all
    directions: NDArray[np.bool_] | None = None  # [C], sensors in degrees, of which 360 is 0 again; None: no sensor
    parts: NDArray[np.float64] = field(init=False)  # [C], resolutions in a unit where that is a whole number, else 0

    def __post_init__(self) -> None:
        parts = 1.0 / np.where(self.resolution > 0, self.resolution, np.inf)
        whole = np.isclose(parts, np.rint(parts), rtol=1e-12, atol=0.0)
        object.__setattr__(self, "parts", np.where(whole, np.rint(parts), 0.0))

    @classmethod
    def of(cls, model: Model, contract: Contract | None, decimals: Decimals | None = None) -> SensorTable:
        """Limits from the catalogue, and intervals from the contract.

        The resolution is that of the catalogue, else the last of the learned decimals [C], else that of the contract.
        Decimals that are coarse beside the sensor's `max_interval` do not count.
        """
        limits = np.array([sensor.limits for sensor in model.sensors])
        resolution = [
            sensor.resolution or (contract.sensors[row].resolution if contract else 0.0)
            for row, sensor in enumerate(model.sensors)
        ]
        max_interval = [np.inf if sensor.max_interval is None else sensor.max_interval for sensor in model.sensors]
        trained = None
        if contract is not None:
            least, most = ([getattr(each, end) for each in contract.sensors] for end in ("minimum", "maximum"))
            trained = np.array(least), np.array(most)
        keep_sign = np.array([sensor.keep_sign for sensor in model.sensors])
        if decimals is not None:
            learned = 1.0 / 10.0 ** np.maximum(decimals, 0)
            # An interval is at least two resolutions wide, and with a smaller limit no value would be left.
            fine = np.array(max_interval) >= _FEWEST_IN_LIMIT * learned
            wanted = fine & np.array([not sensor.resolution for sensor in model.sensors]) & (decimals >= 0)
            resolution = [*np.where(wanted, learned, resolution)]
        bare = cls(
            limits[:, 0], limits[:, 1], np.array(resolution), np.array(max_interval), model.window, None, {}, trained,
            keep_sign, model.directions,
        )  # fmt: skip
        return bare.with_intervals(contract)

    def trained_limits(self, *further: Range | None) -> Limits | None:
        """Limits that no training reading crossed, where its range is known from the contract or from `further`."""
        ranges = [each for each in (self.trained_range, *further) if each is not None]
        if not ranges:
            return None
        least, most = (
            np.min([each[0] for each in ranges], axis=0),
            np.max([each[1] for each in ranges], axis=0),
        )
        found = Limits.of_range(least, most)
        if self.keep_sign is None:
            return found
        return Limits(np.where(self.keep_sign, found.lowest, -np.inf), np.where(self.keep_sign, found.highest, np.inf))

    def window_limits(
        self, ranges: Sequence[Range | None], kinds: Sequence[Kind] | None, of_form: Range | None, values: Doubles,
        observed: NDArray[np.bool_],
    ) -> Limits | None:  # fmt: skip
        """Limits of windows [n, C] that neither a reading of the training nor one of the window crossed.

        Args:
            ranges: ranges of the training, beside the contract's.
            kinds: kinds of the sensors; None: all are numbers.
            of_form: the range to which the closed form was fitted, which holds all states; None: not known.
            values: float64 [n, C, T], sensor units.
            observed: bool [n, C, T].
        """
        limits = self.trained_limits(*ranges)
        if limits is None:
            return None
        if kinds is not None and of_form is not None:
            limits = limits.of_states(are(kinds, Kind.STATE), *of_form).of_circles(are(kinds, Kind.ANGLE), *of_form)
        return limits.around(values, observed)

    def with_intervals(self, contract: Contract | None) -> Self:
        """The same sensors with the intervals of a contract; without intervals if the contract is None or has none."""
        quantiles = contract.residual_quantiles if contract else None
        if quantiles is None:
            return replace(self, gap_ages=None, residuals={})
        residuals = {newest: quantiles.table(newest=newest) for newest in (True, False)}
        return replace(self, gap_ages=np.array(quantiles.gap_ages), residuals=residuals)


class SensorTables:
    """The sensor tables of all models, by the model's index in the catalogue.

    Limits and the resolutions of contracts stay those of the start, so that all rows of a sensor are rounded alike.
    Intervals belong to the weights and follow the version. Learned decimals follow the closed form.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        contracts: Mapping[str, Contract],
        decimals: Callable[[str], Decimals | None] = lambda model: None,
    ) -> None:
        """Make the tables of the start.

        Args:
            catalogue: the models.
            contracts: contracts by model name.
            decimals: returns the decimals of a model's sensors, int8 [C], the same array until others are learned.
        """
        self._names = [model.name for model in catalogue.models]
        self._contracts = contracts if isinstance(contracts, Contracts) else Contracts(contracts)
        self._models, self._decimals = catalogue.models, decimals
        self._contract_at_start = [contracts.get(name) for name in self._names]
        self._known: dict[int, tuple[Decimals | None, SensorTable]] = {}
        self._by_version: dict[tuple[int, str], SensorTable] = {}

    def __getitem__(self, model_index: int) -> SensorTable:
        decimals, known = self._decimals(self._names[model_index]), self._known.get(model_index)
        if known is None or known[0] is not decimals:
            table = SensorTable.of(self._models[model_index], self._contract_at_start[model_index], decimals)
            known = self._known[model_index] = decimals, table
            self._by_version = {key: each for key, each in self._by_version.items() if key[0] != model_index}
        return known[1]

    def for_version(self, model_index: int, version: str) -> SensorTable:
        """The table with the intervals of a version; without intervals while the version's contract is unknown."""
        at_start, key = self[model_index], (model_index, version)
        if key in self._by_version:
            return self._by_version[key]
        name = self._names[model_index]
        contract = self._contracts.of(name, version)
        if contract is self._contracts.get(name):
            return at_start
        table = at_start.with_intervals(contract)
        if contract is not None:  # an unknown contract is looked up again at the next call
            self._by_version[key] = table
        return table
