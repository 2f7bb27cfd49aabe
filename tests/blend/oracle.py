"""The experts' weights by their definition: plain loops over the errors themselves, without any running sum."""

import math
from dataclasses import dataclass, field
from itertools import product

from glaim_stream.blend.hedge import DOUBT, RATE, SPARE
from glaim_stream.blend.leader import AGE_LEAN, CAP, MEMORY, PLACE_LEAN, POOL_LEAN, SENSOR_MEMORY, TRUST

HALF = 48
Key = tuple[int, int, int]  # sensor, age class, place
Error = float | None  # None: asleep


@dataclass(frozen=True)
class Cell:
    """A probe cell: the error of each expert."""

    step: int
    key: Key
    errors: tuple[Error, ...]

    def loss(self, mixture: tuple[float, ...]) -> float | None:
        """Absolute error of a mixture; None where one of its experts is asleep."""
        if any(share > 0 and error is None for share, error in zip(mixture, self.errors, strict=True)):
            return None
        return abs(sum(share * (error or 0.0) for share, error in zip(mixture, self.errors, strict=True)))

    @property
    def largest(self) -> float:
        return max(abs(error) for error in self.errors if error is not None)


@dataclass
class Oracle:
    """All cells ever learnt; every weight is computed from them anew."""

    experts: int
    cells: list[Cell] = field(default_factory=list)
    rounds: list[tuple[int, tuple[int, int], list[float]]] = field(default_factory=list)  # step, pool, charged losses
    ambiguous: bool = False  # whether the order of a sum may have decided which mixture leads

    def learn(self, step: int, found: list[tuple[Key, tuple[Error, ...]]]) -> None:
        """Add the cells of a step."""
        cells = [Cell(step, key, errors) for key, errors in found if sum(each is not None for each in errors) > 1]
        charged: dict[tuple[int, int], list[list[float]]] = {}
        for cell in cells:
            pool = (cell.key[0], cell.key[2])
            awake = [error is not None for error in cell.errors]
            used, leader = self.parts(step, cell.key, awake)
            size = max(self.cap(step, pool), cell.largest)
            blended = sum(share * (error or 0.0) for share, error in zip(leader, cell.errors, strict=True))
            losses = [abs(blended)] + [None if error is None else abs(error) for error in cell.errors]
            scaled = [None if each is None else (each / size if size else 0.0) for each in losses]
            mixed = sum(weight * each for weight, each in zip(used, scaled, strict=True) if each is not None)
            charged.setdefault(pool, []).append([mixed if each is None else each for each in scaled])
        for pool, rows in charged.items():
            self.rounds.append((step, pool, [sum(column) / len(rows) for column in zip(*rows, strict=True)]))
        self.cells += cells

    def cap(self, step: int, pool: tuple[int, int]) -> float:
        """CAP times the mean of the largest errors before `step`; 0 without any."""
        start = (step // HALF - 1) * HALF
        past = [each for each in self.cells if start <= each.step < step and (each.key[0], each.key[2]) == pool]
        weights = [MEMORY ** (step - each.step) for each in past]
        total = sum(weight * each.largest for weight, each in zip(weights, past, strict=True))
        return CAP * total / sum(weights) if past else 0.0

    def cap_at(self, cell: Cell, start: int) -> tuple[float, float]:
        """The cap by the usual error between `start` and a cell's step, and the share of its losses that it leaves."""
        pool = [each for each in self.cells if each.key[::2] == cell.key[::2] and start <= each.step <= cell.step]
        past = [each for each in pool if each.step < cell.step] or pool
        weights = [MEMORY ** (cell.step - each.step) for each in past]
        cap = CAP * sum(weight * each.largest for weight, each in zip(weights, past, strict=True)) / sum(weights)
        return cap, cap / cell.largest if cell.largest > cap else 1.0

    def scale(self, start: int, step: int, sensor: int, place: int) -> float:
        """Usual cap of the sensor at the place, else anywhere, else 1."""
        of_sensor = [each for each in self.cells if start <= each.step < step and each.key[0] == sensor]
        for cells in ([each for each in of_sensor if each.key[2] == place], of_sensor):
            if (mean := _mean([(MEMORY ** (step - each.step), each.largest) for each in cells])) is not None:
                return CAP * mean
        return 1.0

    def leader(self, step: int, key: Key, awake: list[bool]) -> list[float]:
        """Mean of the mixtures that have the smallest loss among those awake."""
        start = (step // HALF - 1) * HALF
        every_sensor = [each for each in self.cells if start <= each.step < step]
        scale = self.scale(start, step, key[0], key[2])
        caps = [(each, *self.cap_at(each, start)) for each in every_sensor]
        kept = _mean([(SENSOR_MEMORY ** (step - each.step), share) for each, _, share in caps if each.key[0] == key[0]])
        lean = POOL_LEAN * (1.0 if kept is None else kept) ** TRUST
        parts = 4
        every = [
            row
            for row in product(range(parts + 1), repeat=self.experts)
            if sum(row) == parts and row.count(0) >= self.experts - 2
        ]
        means = {}
        for row in every:
            if any(share and not up for share, up in zip(row, awake, strict=True)):
                continue
            mixture = tuple(share / parts for share in row)
            every_loss = [
                (each, loss * share, cap) for each, cap, share in caps if (loss := each.loss(mixture)) is not None
            ]
            of_pool = _mean(
                [
                    (MEMORY ** (step - each.step), loss / cap if cap else 0.0)
                    for each, loss, cap in every_loss
                    if each.key[2] == key[2]
                ]
            )
            pooled = None if of_pool is None else of_pool * scale
            losses = [(each, loss) for each, loss, _ in every_loss if each.key[0] == key[0]]
            of_sensor = _mean([(SENSOR_MEMORY ** (step - each.step), loss) for each, loss in losses])
            memories = [(each, MEMORY ** (step - each.step), loss) for each, loss in losses]
            of_place = [(weight, loss) for each, weight, loss in memories if each.key[2] == key[2]]
            place_mean = _mean([*of_place, *_leaning(PLACE_LEAN, of_sensor), *_leaning(lean, pooled)])
            of_key = [(weight, loss) for each, weight, loss in memories if each.key == key]
            key_mean = _mean([*of_key, *_leaning(AGE_LEAN, place_mean)])
            means[mixture] = math.inf if key_mean is None else key_mean
        least = min(means.values())
        best = [mixture for mixture, mean in means.items() if mean <= least]
        self.ambiguous |= any(0 < mean - least < 1e-9 * mean for mean in means.values() if math.isfinite(mean))
        return [sum(column) / len(best) for column in zip(*best, strict=True)]

    def parts(self, step: int, key: Key, awake: list[bool]) -> tuple[list[float], list[float]]:
        """Weights of leader and experts, and the leader's own of the experts."""
        prior = [1 - DOUBT, *[DOUBT / self.experts] * self.experts]
        block = [
            losses
            for at, pool, losses in self.rounds
            if at // HALF == step // HALF and at < step and pool == (key[0], key[2])
        ]
        weights = [
            start * math.exp(-RATE * sum(losses[expert] for losses in block)) for expert, start in enumerate(prior)
        ]
        up = [weight if on else 0.0 for weight, on in zip(weights, [True, *awake], strict=True)]
        return [weight / sum(up) for weight in up], self.leader(step, key, awake)

    def weights(self, step: int, key: Key, awake: list[bool]) -> list[float]:
        """The weights that are published."""
        used, leader = self.parts(step, key, awake)
        if used[0] >= 1 - SPARE:
            return leader
        return [used[0] * share + own for share, own in zip(leader, used[1:], strict=True)]


def _mean(pairs: list[tuple[float, float]]) -> float | None:
    return sum(weight * loss for weight, loss in pairs) / sum(weight for weight, _ in pairs) if pairs else None


def _leaning(count: float, mean: float | None) -> list[tuple[float, float]]:
    return [] if mean is None else [(count, mean)]
