"""Completeness of readings: cells expected, arrived, late, filled and null, by sensor and day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.operate.completeness.document import pieces
    from glaim_stream.operate.completeness.figures import SensorDays, summed
    from glaim_stream.operate.completeness.file import FileRequest, file_report
    from glaim_stream.operate.completeness.pages import page
    from glaim_stream.operate.completeness.report import CompletenessReport
    from glaim_stream.operate.completeness.texts import (
        delay_text,
        filled,
        gap_text,
        methods_text,
        percent_text,
        stretch_text,
    )
    from glaim_stream.operate.completeness.topic import ReportRequest, topic_report

__all__ = [
    "CompletenessReport",
    "FileRequest",
    "ReportRequest",
    "SensorDays",
    "delay_text",
    "file_report",
    "filled",
    "gap_text",
    "methods_text",
    "page",
    "percent_text",
    "pieces",
    "stretch_text",
    "summed",
    "topic_report",
]

__getattr__ = opened(__name__)
