"""The schedule of random faults: drawn from the seed alone, so that a seed that failed can be run again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

WORKERS = 2
SESSION_S = 6.0  # the broker's minimum; a fault of more than this costs a worker its partitions
FIRST_FAULT_S = 4.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    `lane` is what it damages; the faults of a lane follow each other, those of different lanes overlap. `amount` is the
    seconds of a delay or of a clock's jump, or the number of resets.
    """

    at_s: float
    lane: str
    kind: str
    seconds: float
    amount: float = 0.0

    @property
    def end_s(self) -> float:
        """When it is planned to be over, seconds from the start of the stream."""
        return self.at_s + self.seconds


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: its weight within its lane, and the ranges of its seconds and its amount."""

    weight: int
    seconds: tuple[float, float]
    amount: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Lane:
    """What can happen to one part, and the mean seconds between two faults of it."""

    mean_gap_s: float
    kinds: Mapping[str, Kind]


LONGER_THAN_THE_SESSION_S = (SESSION_S + 1.5, SESSION_S + 6.0)
PROCESS = Lane(
    14.0,
    {
        "kill": Kind(4, (0.0, 3.0)),
        "stop": Kind(2, (0.0, 2.0)),
        "pause": Kind(2, (0.5, 4.0)),
        "pause beyond the session": Kind(3, LONGER_THAN_THE_SESSION_S),
    },
)
NETWORK = Lane(
    20.0,
    {
        "cut": Kind(2, (0.5, 4.0)),
        "cut beyond the session": Kind(3, LONGER_THAN_THE_SESSION_S),
        "slow": Kind(3, (3.0, 9.0), (0.03, 0.3)),
        "reset": Kind(2, (1.0, 3.0), (2, 6)),
    },
)
MODEL_NETWORK = Lane(
    14.0, {"cut": Kind(2, (1.0, 9.0)), "slow": Kind(2, (3.0, 8.0), (0.05, 1.0)), "reset": Kind(1, (1.0, 3.0), (2, 6))}
)
LANES: Mapping[str, Lane] = {
    **{f"worker {number}": PROCESS for number in range(WORKERS)},
    **{f"network {number}": NETWORK for number in range(WORKERS)},
    "network to Triton": MODEL_NETWORK,
    **{f"clock {number}": Lane(15.0, {"jump": Kind(1, (2.0, 10.0), (-3600, 3600))}) for number in range(WORKERS)},
    "group": Lane(
        25.0,
        {
            "third worker joins, then stops": Kind(2, (7.0, 14.0)),
            "third worker joins, then is killed": Kind(1, (7.0, 14.0)),
        },
    ),
    "broker": Lane(45.0, {"pause": Kind(2, (0.5, 3.0)), "kill": Kind(1, (0.5, 1.5)), "full disk": Kind(1, (0.0, 1.0))}),
    "Triton": Lane(20.0, {"pause": Kind(1, (1.0, 8.0))}),
}
KINDS = frozenset((lane, kind) for lane, part in LANES.items() for kind in part.kinds)


def draw(seed: int, seconds: float) -> list[Fault]:
    """The faults of a seed, by time; none begins before FIRST_FAULT_S or ends after `seconds`."""
    return sorted(
        (
            fault
            for name, lane in LANES.items()
            for fault in _lane_faults(Random(f"{seed} {name}"), name, lane, seconds)
        ),
        key=lambda fault: fault.at_s,
    )


def _lane_faults(random: Random, name: str, lane: Lane, seconds: float) -> Iterator[Fault]:
    at_s = FIRST_FAULT_S + random.expovariate(1 / lane.mean_gap_s) / 2
    while True:
        kind = random.choices(list(lane.kinds), [kind.weight for kind in lane.kinds.values()])[0]
        lasts_s, amount = random.uniform(*lane.kinds[kind].seconds), random.uniform(*lane.kinds[kind].amount)
        if at_s + lasts_s > seconds:
            return
        yield Fault(round(at_s, 2), name, kind, round(lasts_s, 2), round(amount, 2))
        at_s += lasts_s + 1 + random.expovariate(1 / lane.mean_gap_s)


def overlaps(faults: Sequence[Fault]) -> int:
    """The number of pairs of faults that are planned to happen at the same time."""
    return sum(one.at_s <= other.at_s <= one.end_s for place, one in enumerate(faults) for other in faults[place + 1 :])
