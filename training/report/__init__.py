"""The report page of a run, report.html, and the same numbers in report.json."""
