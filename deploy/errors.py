"""Errors raised while real servers are fetched and started.

DeployError
├── FetchError            a download failed
│   └── ChecksumMismatch  a downloaded or cached file does not match its pinned checksum
├── JavaUnavailable       no Java 17 or later on this machine, and none from PyPI
├── TritonUnavailable     this machine cannot run the Triton wheel: serve the model in the worker instead
├── PortInUse             the requested port is taken
└── ServerFailed          a server exited or did not respond in time; the message ends with the tail of its log
"""


class DeployError(Exception):
    """Base class of the errors of `deploy`; the message tells the user what to do next."""


class FetchError(DeployError):
    """A download failed."""


class ChecksumMismatch(FetchError):
    """A file does not match its pinned checksum and was not used."""


class JavaUnavailable(DeployError):
    """No suitable Java runtime was found for Kafka."""


class TritonUnavailable(DeployError):
    """The local Triton does not support this platform, Python version or set of system libraries."""


class PortInUse(DeployError):
    """A port requested by number is taken."""


class ServerFailed(DeployError):
    """A server did not start, or stopped answering."""
