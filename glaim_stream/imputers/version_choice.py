"""The version of a served model to call, and the versions out of service. Pure: no calls and no clock.

A server answers a call that names no version with its newest one. A version that fails is taken out of service here:
the worker then names a former one, until the failed version has answered the windows on which it failed, or is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from glaim_stream.core import metrics
from glaim_stream.core.errors import WrongAnswer
from glaim_stream.imputers.protocol import Windows

log = logging.getLogger(__name__)

NEWEST = ""  # the version of a call that leaves the choice to the server
NOT_LOADED = "not_loaded"  # reason: the repository has the version, but the server does not serve it

# One failure may be due to its windows; windows on which two versions fail are not counted at all.
FAILURES_IN_A_ROW = 3


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a version is out of service, and the windows on which it failed; None: only typical ones."""

    reason: str
    windows: Windows | None = None


class VersionChoice:
    """The versions of one model, as one worker sees them."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._asked = NEWEST
        self._refused: dict[str, Refusal] = {}
        self._in_a_row: dict[str, int] = {}
        self._proven: set[str] = set()

    @property
    def asked(self) -> str:
        """The version to call: NEWEST unless it is out of service and a former one answers."""
        return self._asked

    @property
    def refused(self) -> dict[str, Refusal]:
        """The versions that are out of service."""
        return dict(self._refused)

    @property
    def failing(self) -> list[str]:
        """The versions that failed and have not answered since, in service or not."""
        return _newest_first({*self._in_a_row, *self._refused})

    def others(self, served: Iterable[str], failed: str) -> list[str]:
        """The versions that may answer in place of a failed one, newest first."""
        return [version for version in _newest_first(served) if version != failed and version not in self._refused]

    def answered(self, version: str, *, on_trial: bool = False) -> None:
        """Record an answer.

        A version out of service is back after its trial, which repeats windows on which it failed and a former version
        did not. If no former version answers, any windows will do.
        """
        self._in_a_row.pop(version, None)
        if version not in self._refused:
            self._proven.add(version)
        elif on_trial or self._asked == NEWEST:
            self._restore(version, "it answers again")
            self._proven.add(version)

    def failed(self, version: str, error: WrongAnswer, windows: Windows, former: str = NEWEST) -> bool:
        """Count a failure on windows and take the version out of service after several in a row.

        Args:
            version: version that failed.
            error: the failure.
            windows: windows on which it failed.
            former: version that answered the same windows; it is called from then on.

        Returns:
            True if the version is out of service.
        """
        self._in_a_row[version] = self._in_a_row.get(version, 0) + 1
        if self._in_a_row[version] >= FAILURES_IN_A_ROW or error.reason == "contract":
            # Without a former version to compare with, the windows may be at fault; they must not decide its return.
            self.refuse(version, error.reason, str(error), windows if former else None)
        if version in self._refused and former:
            self._ask(former)
        return version in self._refused

    def refuse(self, version: str, reason: str, what: str, windows: Windows | None = None) -> None:
        """Take a version out of service.

        Args:
            version: version that failed.
            reason: value of the metric's label.
            what: description of the failure, for the log.
            windows: windows on which it failed; None: typical ones.
        """
        before = self._refused.get(version)
        if before is not None and before.reason == reason:
            return
        if before is not None:
            self._hide(version)
        self._refused[version] = Refusal(reason, windows)
        self._proven.discard(version)
        metrics.model_version_refused.labels(self._model, version, reason).set(1)
        # A promotion takes its time, and the reader of a rejected contract has logged it.
        level = logging.INFO if reason in (NOT_LOADED, "contract") else logging.ERROR
        log.log(level, "%s version %s is out of service: %s", self._model, version, what)

    def saw(self, served: Sequence[str], offered: str) -> None:
        """Compare the versions that a server serves with the newest version of the repository.

        Args:
            served: versions that a server answers for, in any order.
            offered: newest version in the repository; empty if it is not known.
        """
        newest = max(map(int, served), default=0)
        for version, refusal in self.refused.items():
            if refusal.reason == NOT_LOADED and (int(version) <= newest or version != offered):
                self._restore(version, "the server has it" if version in served else "it is gone")
            elif version not in served and version != offered:
                self._restore(version, "it is gone")
        if offered and int(offered) > newest and offered not in self._refused:
            here = f"it serves {', '.join(served)}" if served else "it serves no version of it"
            self.refuse(offered, NOT_LOADED, f"the repository has it and the server does not: {here}")

    def untried(self, served: Iterable[str]) -> list[str]:
        """The newest version if it has not answered yet, and the versions out of service."""
        by_age = _newest_first(served)
        return [
            version
            for place, version in enumerate(by_age)
            if version in self._refused or (place == 0 and version not in self._proven)
        ]

    def choose(self, served: Iterable[str], usable: Iterable[str]) -> None:
        """Choose the version to call.

        Args:
            served: versions that a server answers for.
            usable: served versions with a contract of their own.
        """
        by_age = _newest_first(served)
        if not by_age or by_age[0] not in self._refused:
            self._ask(NEWEST)
            return
        allowed = set(usable)
        self._ask(next((version for version in self.others(by_age, "") if version in allowed), NEWEST))

    def release(self) -> None:
        """Leave the choice to the server again, because the called version is gone."""
        self._asked = NEWEST

    def _ask(self, version: str) -> None:
        if version != self._asked:
            log.warning("%s is now called by version %s", self._model, version or "the server's choice, the newest")
        self._asked = version

    def _restore(self, version: str, why: str) -> None:
        self._hide(version)
        self._in_a_row.pop(version, None)
        log.info("%s version %s is no longer out of service: %s", self._model, version, why)

    def _hide(self, version: str) -> None:
        metrics.model_version_refused.remove(self._model, version, self._refused.pop(version).reason)


def _newest_first(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=int, reverse=True)
