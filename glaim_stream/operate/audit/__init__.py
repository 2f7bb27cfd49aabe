"""Checks the output and the dead letters against the input, by other logic than the worker's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.operate.audit.report import PROBLEMS, AuditReport
    from glaim_stream.operate.audit.run import AuditRequest, audit

__all__ = [
    "PROBLEMS",
    "AuditReport",
    "AuditRequest",
    "audit",
]

__getattr__ = opened(__name__)
