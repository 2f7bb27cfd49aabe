"""What every room may use: settings, catalogue, contracts, errors, metrics, times, TLS and names.

Each module here is a door of its own, because one reader needs the words of a row and another one pydantic.
"""

__all__ = [
    "angles",
    "budget",
    "catalogue",
    "contract",
    "doors",
    "errors",
    "metrics",
    "printable",
    "readings",
    "rejects",
    "retry",
    "secret_files",
    "settings",
    "stamps",
    "step_means",
    "stray_times",
    "times",
    "tls",
    "tls_probe",
    "trust",
    "validation",
    "vocabulary",
    "watched_files",
]
