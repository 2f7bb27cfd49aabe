"""The result of a check: one sentence with what was expected and what was found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class Grade(StrEnum):
    """ok: as expected. warning: a worker runs, but differs from what the settings suggest. failed: it cannot run."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Subject(StrEnum):
    """Subject of a check."""

    CATALOGUE = "catalogue"
    KAFKA = "kafka"
    TRITON = "triton"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """Result of one check."""

    outcome: Grade
    subject: str
    found: str
    expected: str = ""

    def __str__(self) -> str:
        expected = f"expected {self.expected}, found " if self.expected else ""
        return f"{self.subject}: {expected}{self.found}"

    def as_json(self) -> dict[str, str]:
        """The four fields as texts, for JSON."""
        return {name: str(value) for name, value in asdict(self).items()}


def ok(subject: str, found: str) -> CheckFinding:
    """A finding that is as expected."""
    return CheckFinding(Grade.OK, subject, found)


def warning(subject: str, *, expected: str, found: str) -> CheckFinding:
    """A finding that works, but differs from the configuration."""
    return CheckFinding(Grade.WARNING, subject, found, expected)


def failed(subject: str, *, expected: str, found: str) -> CheckFinding:
    """A finding that keeps a worker from running."""
    return CheckFinding(Grade.FAILED, subject, found, expected)
