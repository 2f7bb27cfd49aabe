"""Checks the output and the dead letters against the input, by other logic than the worker's."""

from glaim_stream.operate.audit.report import AuditReport
from glaim_stream.operate.audit.run import Request, audit

__all__ = ["AuditReport", "Request", "audit"]
