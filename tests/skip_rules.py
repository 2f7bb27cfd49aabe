"""Which tests may skip where nothing may be missing: in CI, and with `GLAIM_NO_SKIP=1`.

A skip for any other reason is a failure there: it hides a test behind a part that the set-up should have brought.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import pytest

# What an excuse matches, and why it holds. The set-up of the Makefile brings everything else.
ALLOWED_SKIPS: Mapping[str, str] = {
    r"GLAIM_DATA": "the data sets are not part of the repository",
    r"PyPOTS is not installed": "the extra `peers` is large and not pinned",
    r"no `docker compose` on PATH": "its own loader reads deploy/compose.yaml in the same file; the plugin is a bonus",
    r"no IPv6 here": "a property of the machine's network",
    r"right to mount a tmpfs": "a property of the container that the tests run in",
}


def skips_are_failures(environment: Mapping[str, str] = os.environ) -> bool:
    """True in CI and where `GLAIM_NO_SKIP` is set."""
    return environment.get("CI", "").lower() == "true" or environment.get("GLAIM_NO_SKIP") == "1"


def is_allowed(reason: str) -> bool:
    """True if a test may skip for this reason everywhere."""
    return any(re.search(pattern, reason) for pattern in ALLOWED_SKIPS)


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn the report of a skip that is not allowed into that of a failure; leave every other report alone."""
    # A test that is expected to fail reports itself as skipped too, without a reason of this form.
    if not report.skipped or hasattr(report, "wasxfail") or not isinstance(report.longrepr, tuple):
        return
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if not is_allowed(reason):
        report.outcome = "failed"
        report.longrepr = (
            f"expected this test to run, found it skipped: {reason}\n"
            "(CI or GLAIM_NO_SKIP is set; tests/skip_rules.py lists the reasons that are allowed)"
        )
