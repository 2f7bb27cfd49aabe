"""The report page of a run, report.html, and the same numbers in report.json."""

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from training.report.write import write_page

__all__ = ["write_page"]

__getattr__ = opened(__name__)
