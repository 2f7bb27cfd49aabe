"""The report page of a run, report.html, and the same numbers in report.json."""

from training.report.write import write as write

__all__ = ["write"]
