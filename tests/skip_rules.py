"""The reasons for which tests may skip in CI and with `GLAIM_NO_SKIP=1`.

A skip for any other reason is a failure, because the set-up should have installed the missing part.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

# Pattern of a skip reason, and why the skip is allowed. The set-up of the Makefile installs everything else.
ALLOWED_SKIPS: Mapping[str, str] = {
    r"GLAIM_DATA": "the data sets are not part of the repository",
    r"PyPOTS is not installed": "the extra `peers` is large and not pinned",
    r"docker compose is not built": "building it takes minutes; the other tests load the file with its loader",
    r"Chromium is not installed": "a browser comes with the machine; quicker tests read the page's HTML",
    r"this machine has a GPU": "the test is about machines without one",
    r"no IPv6 here": "a property of the machine's network",
    r"right to mount a tmpfs": "a property of the container in which the tests run",
}


def skips_are_failures(environment: Mapping[str, str] = os.environ) -> bool:
    """True in CI and if `GLAIM_NO_SKIP` is 1."""
    return environment.get("CI", "").lower() == "true" or environment.get("GLAIM_NO_SKIP") == "1"


def is_allowed(reason: str) -> bool:
    """True if a test may skip for this reason everywhere."""
    return any(re.search(pattern, reason) for pattern in ALLOWED_SKIPS)


def fail_disallowed_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn the report of a disallowed skip into a failure; leave every other report unchanged."""
    # An expected failure is also reported as skipped, but without a reason of this form.
    if not report.skipped or hasattr(report, "wasxfail") or not isinstance(report.longrepr, tuple):
        return
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if not is_allowed(reason):
        report.outcome = "failed"
        report.longrepr = (
            f"expected this test to run, found it skipped: {reason}\n"
            "(CI or GLAIM_NO_SKIP is set; tests/skip_rules.py lists the reasons that are allowed)"
        )


def skipped_in_a_line(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> str | None:
    """Return a line that counts the skipped tests by reason, the most frequent first; None without skipped tests."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in reports if isinstance(report.longrepr, tuple)
    )
    if not reasons:
        return None
    return "skipped: " + "; ".join(f"{count} ({reason})" for reason, count in reasons.most_common())
