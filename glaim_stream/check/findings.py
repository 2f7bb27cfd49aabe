"""What a check comes to: one sentence with what was expected and what was found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """ok: as it should be. warning: a worker runs, and something will not be as one thinks. failed: it cannot work."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Subject(StrEnum):
    """What can be checked by itself."""

    CATALOGUE = "catalogue"
    KAFKA = "kafka"
    TRITON = "triton"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    outcome: Outcome
    subject: str
    found: str
    expected: str = ""

    def __str__(self) -> str:
        expected = f"expected {self.expected}, found " if self.expected else ""
        return f"{self.subject}: {expected}{self.found}"

    def as_json(self) -> dict[str, str]:
        """For JSON: the same four texts."""
        return {name: str(value) for name, value in asdict(self).items()}


def ok(subject: str, found: str) -> Finding:
    """It is as it should be."""
    return Finding(Outcome.OK, subject, found)


def warning(subject: str, *, expected: str, found: str) -> Finding:
    """It works, and not as one thinks."""
    return Finding(Outcome.WARNING, subject, found, expected)


def failed(subject: str, *, expected: str, found: str) -> Finding:
    """It cannot work."""
    return Finding(Outcome.FAILED, subject, found, expected)
