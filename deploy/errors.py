"""What can go wrong while real servers are fetched and started.

DeployError
├── FetchError            something could not be downloaded
│   └── ChecksumMismatch  it came, but is not what was pinned
├── JavaUnavailable       no Java 17 or later on this machine, and none from PyPI
├── TritonUnavailable     this machine cannot run the Triton of the wheel: serve the model in the worker instead
├── PortInUse             the port that was asked for belongs to somebody else
└── ServerFailed          a server exited or did not answer in time; the message ends with the tail of its log
"""


class DeployError(Exception):
    """Base of everything that `deploy` raises on purpose; the message says what to do next."""


class FetchError(DeployError):
    """A download failed."""


class ChecksumMismatch(FetchError):
    """A file differs from its pinned checksum; it was not used."""


class JavaUnavailable(DeployError):
    """Kafka has no Java runtime to run on."""


class TritonUnavailable(DeployError):
    """The platform, the Python version or a system library rules the local Triton out."""


class PortInUse(DeployError):
    """A port that was asked for by number is taken."""


class ServerFailed(DeployError):
    """A server did not start, or stopped answering."""
