"""Every exception that this project raises on purpose.

    GlaimError
    ├── SettingsError        the environment or a flag cannot be used
    │   └── BrokerUnready    ... with the broker as it is now: it may start, or be given what is missing
    ├── CatalogueError       groups.yaml cannot be used
    ├── ContractError        a model's contract cannot be read, or does not match its use
    ├── ModelError           a model repository cannot be read or changed as asked, or a version of it is refused
    ├── RecordError          an output message has another format
    ├── MessageTooLarge      a message is larger than its topic accepts
    ├── SendError            a message was not acknowledged; it may be sent again
    ├── OwnershipLost        a partition may belong to another worker: what is in flight is dropped
    ├── WindowShapeError     windows passed to an imputer have the wrong shape
    └── ImputerError         an imputer cannot impute some windows
        ├── ImputerUnavailable   ... now, but may later: its breaker opens
        ├── ImputerAbsent        ... because it has nothing for their model: the next rung imputes
        └── WrongAnswer          ... because a version of their model fails, or answers what cannot be used

Each message states what was expected and what was found. A bad *reading* raises no exception: bad readings are expected
input and get a `DeadLetterCause` (glaim_stream.decode.dead_letters).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class GlaimError(Exception):
    """Base class of all exceptions that this project raises on purpose."""


class SettingsError(GlaimError):
    """The environment or a flag cannot be used."""


class BrokerUnready(SettingsError):
    """No broker answers yet, or something is missing that can be added while a worker waits, such as a right."""


class CatalogueError(GlaimError):
    """groups.yaml cannot be used."""


class ContractError(GlaimError):
    """A model's contract cannot be read, or does not match the catalogue or the served model."""


class ModelError(GlaimError):
    """A model repository cannot be read or changed as asked, or a version of it is refused."""


class RecordError(GlaimError):
    """An output message has another format."""


class MessageTooLarge(GlaimError):
    """A message is larger than its topic accepts."""


class SendError(GlaimError):
    """A message was not acknowledged; it may be sent again."""


class OwnershipLost(GlaimError):
    """A partition may belong to another worker: what is in flight is dropped, and its offsets stay uncommitted."""


class WindowShapeError(GlaimError):
    """Windows passed to an imputer have the wrong shape."""


class ImputerError(GlaimError):
    """An imputer cannot impute some windows."""


class ImputerUnavailable(ImputerError):
    """An imputer cannot impute now, but may later."""


class ImputerAbsent(ImputerError):
    """An imputer has nothing for a model, which is no failure."""


class WrongAnswer(ImputerError):
    """A version of a model fails, or answers what cannot be used.

    Attributes:
        reason: `error`, `shape`, `not_finite` or `contract`.
        version: the version that answered; empty if it is not known.
    """

    def __init__(self, message: str, reason: str, version: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.version = version


MAX_LISTED_NAMES = 8


def listed(names: Sequence[object]) -> str:
    """The first names as a list for a message, and the number of the others: `a, b, ... and 3 more`."""
    more = len(names) - MAX_LISTED_NAMES
    return ", ".join(map(str, names[:MAX_LISTED_NAMES])) + (f" and {more} more" if more > 0 else "")


class NoTopic(SettingsError):
    """There is no such topic; `near` are the names of topics that resemble it."""

    def __init__(self, message: str, near: Sequence[str]) -> None:
        super().__init__(message)
        self.near = near


def resembling(found: str, known: Iterable[str]) -> list[str]:
    """The names that resemble one that is not there, at most two spellings, ascending."""
    from difflib import get_close_matches  # late: only errors need it

    names = sorted(set(known))
    close = get_close_matches(found.casefold(), [name.casefold() for name in names], n=2)
    return [name for name in names if name.casefold() in close]


def names_known(found: str, known: Iterable[str]) -> str:
    """The end of a message for a name that is not there: the names that resemble it, and those that are there."""
    names = sorted(set(known))
    near = resembling(found, names)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{hint}known: {listed(names) or 'none'}"


def unknown_name(what: str, found: str, known: Iterable[str]) -> str:
    """A message for a name that is not there: what was expected, the names that resemble it, and those that are there.

    Args:
        what: what the name should have named, such as `a group of the catalogue`.
        found: the name.
        known: the names that are there.
    """
    return f"expected {what}, found {found!r}; {names_known(found, known)}"
