"""A run as one page that a person can judge: report.html, and the same numbers in report.json."""

from training.report.write import write as write

__all__ = ["write"]
