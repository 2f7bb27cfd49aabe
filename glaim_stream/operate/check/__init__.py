"""A dry run before anything dangerous: checks the prerequisites of a worker without changing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.operate.check.broker import notable_topics, require_rights
    from glaim_stream.operate.check.findings import Grade, Subject
    from glaim_stream.operate.check.run import check
    from glaim_stream.operate.check.sizing import Load, size
    from glaim_stream.operate.check.transactions import require_transactions

__all__ = [
    "Grade",
    "Load",
    "Subject",
    "check",
    "notable_topics",
    "require_rights",
    "require_transactions",
    "size",
]

__getattr__ = opened(__name__)
