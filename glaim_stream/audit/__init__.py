"""Holds the output and the dead letters against the input."""

from glaim_stream.audit.report import AuditReport
from glaim_stream.audit.topics import audit

__all__ = ["AuditReport", "audit"]
