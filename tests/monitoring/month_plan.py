"""What happens in the simulated month: thirteen incidents with what must alert, and normal events with their tickets.

Minutes count from the month's beginning, a Monday at midnight.
"""

from dataclasses import dataclass, field

HOUR, DAY = 60, 1440
DAYS = 30
MINUTES = DAYS * DAY


@dataclass(frozen=True)
class Expected:
    """An alert of an incident, in minutes after its beginning and after its end."""

    severity: str
    within: int
    lingers: int


@dataclass(frozen=True)
class Incident:
    """A fault, the alerts that must come of it, and those that may, with how many minutes they may last after it.

    An alert is named as in the rules, with `burn` behind a colon where it has one.
    """

    name: str
    start: int
    minutes: int
    must: dict[str, Expected]
    may: dict[str, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The first minute after the incident."""
        return self.start + self.minutes


def at(day: int, hour: float = 0) -> int:
    """The minute of an hour of a day, counted from 0."""
    return day * DAY + int(hour * HOUR)


# A model or Triton that fails moves filled rows to interpolation, and both ranges of a burn rate have to pass.
_MODEL_SHARE = {"GlaimModelShareBurn:fast": 10, "GlaimModelShareBurn:slow": 40, "GlaimModelShareBurn:ticket": 380}
_LATE = {"GlaimTimelinessBurn:fast": 70, "GlaimTimelinessBurn:slow": 370, "GlaimTimelinessBurn:ticket": 400}
_ABSENT = {"GlaimAvailabilityBurn:fast": 10, "GlaimAvailabilityBurn:slow": 40, "GlaimAvailabilityBurn:ticket": 370}

INCIDENTS = (
    Incident(
        "workers gone", at(1, 12), 2 * HOUR,
        {
            "GlaimWorkersGone": Expected("critical", 4, 2),
            "GlaimAvailabilityBurn:fast": Expected("critical", 10, 10),
        },
        {**_ABSENT, **_LATE, "GlaimWorkersMissing": 5},
    ),
    Incident(
        "pending since the installation", at(3), 26 * HOUR, {"GlaimWorkersGone": Expected("critical", 4, 2)},
        {**_ABSENT, "GlaimWorkersMissing": 2},
    ),
    Incident(
        "Triton dead", at(4, 20), 3 * HOUR,
        {
            "GlaimTritonDown": Expected("warning", 7, 2),
            "GlaimImputerUnavailable": Expected("warning", 7, 2),
            "GlaimModelShareBurn:fast": Expected("warning", 60, 10),
        },
        _MODEL_SHARE,
    ),
    Incident(
        "one bad model version", at(7, 9), 8 * HOUR,
        {
            "GlaimTritonFailures": Expected("warning", 15, 10),
            "GlaimImputerUnavailable": Expected("warning", 8, 2),
        },
        _MODEL_SHARE,
    ),
    Incident(
        "readings lost", at(9, 3), 5, {"GlaimInputLost": Expected("critical", 5, 65)}, {},
    ),
    Incident(
        "dead letters burst", at(10, 3), 1 * HOUR,
        {
            "GlaimDeadLettersRising": Expected("warning", 20, 12),
            "GlaimDeadLetterSeen": Expected("info", 2, 62),
        },
    ),
    Incident(
        "watermark frozen", at(11, 3), 2 * HOUR, {"GlaimWatermarkStalled": Expected("critical", 17, 2)},
        {**_LATE, "GlaimConsumerLagGrowing": 10},
    ),
    Incident(
        "broker out", at(12, 13), 30,
        {
            "GlaimPublishRetries": Expected("warning", 8, 8),
            "GlaimWatermarkStalled": Expected("critical", 17, 2),
            "GlaimCompletenessBurn:fast": Expected("critical", 14, 2),
        },
        _LATE,
    ),
    Incident(
        "30 % of the groups dark", at(14, 1), 3 * HOUR, {"GlaimManyGroupsDark": Expected("critical", 7, 2)},
        {"GlaimGroupsDark": 2},
    ),
    Incident(
        "slow burn of timeliness", at(16), 36 * HOUR,
        {"GlaimTimelinessBurn:ticket": Expected("warning", 24 * HOUR, 300)},
    ),
    Incident(
        "slow burn of completeness", at(21), 36 * HOUR,
        {"GlaimCompletenessBurn:ticket": Expected("warning", 25 * HOUR, 370)},
    ),
    Incident(
        "slow burn of the models' share", at(23), 36 * HOUR,
        {"GlaimModelShareBurn:ticket": Expected("info", 24 * HOUR, 370)},
    ),
    Incident(
        "certificate near its end", at(26), 36 * HOUR, {"GlaimCertificateExpires": Expected("warning", 2, 2)},
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Ticket:
    """An alert below critical that normal life may raise, with the reason that it should."""

    alert: str
    start: int
    end: int
    reason: str


DARK_PUMP = (at(27, 8), at(28, 8))
STRAY_LETTERS = tuple(at(day, 7.5) for day in (2, 8, 13, 20, 26))
PROMETHEUS_AWAY = (at(19, 3), at(19, 3) + 10)

TICKETS = (
    Ticket("GlaimGroupsDark", DARK_PUMP[0], DARK_PUMP[1] + 2, "somebody should look at a pump that stopped a day ago"),
    *(
        Ticket("GlaimDeadLetterSeen", start, start + 62, "one message could not be used; info is read when convenient")
        for start in STRAY_LETTERS
    ),
)
