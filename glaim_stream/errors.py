"""Every error this project raises on purpose.

    GlaimError
    ├── SettingsError        the environment or a flag cannot be used
    ├── CatalogueError       groups.yaml cannot be used
    ├── ContractError        a model's contract cannot be read, or does not fit what uses it
    ├── ModelError           a model repository cannot be read or changed as asked
    ├── RecordError          an output message is not one of ours
    ├── MessageTooLarge      a topic does not take a message of that size
    ├── SendError            a message was not acknowledged; it may be sent again
    ├── WindowShapeError     windows handed to an imputer have the wrong shape
    └── ImputerError         an imputer could not answer
        └── ImputerUnavailable   ... now, but it may later: the ladder goes one rung down

Each message says what was expected and what was found. What a *reading* may get wrong is no exception: it is a
`DeadLetterCause` (glaim_stream.decode.dead_letters): a bad reading is an expected input, not a failure of the worker.
"""


class GlaimError(Exception):
    """Base of the family; catching it catches everything raised on purpose here."""


class SettingsError(GlaimError):
    """The environment or a flag cannot be used."""


class CatalogueError(GlaimError):
    """groups.yaml cannot be used."""


class ContractError(GlaimError):
    """A model's contract cannot be read, or does not fit what uses it."""


class ModelError(GlaimError):
    """A model repository cannot be read or changed as asked."""


class RecordError(GlaimError):
    """An output message is not one of ours."""


class MessageTooLarge(GlaimError):
    """A topic does not take a message of that size."""


class SendError(GlaimError):
    """A message was not acknowledged; it may be sent again."""


class WindowShapeError(GlaimError):
    """Windows handed to an imputer have the wrong shape."""


class ImputerError(GlaimError):
    """An imputer could not answer."""


class ImputerUnavailable(ImputerError):
    """An imputer could not answer now, but may later."""
