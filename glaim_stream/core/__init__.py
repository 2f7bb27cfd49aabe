"""Foundations of all packages: settings, catalogue, contracts, errors, metrics, times, TLS and names.

Each module here is imported by itself, because some users need only the vocabulary and others need pydantic.
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
