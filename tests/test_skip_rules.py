"""The rule that turns skips into failures, applied to real runs of pytest."""

import pytest

from deploy.cache import CHECKOUT

pytest_plugins = ["pytester"]

TESTS = """
import pytest

def test_that_skips_itself():
    pytest.skip("no helm here")

@pytest.mark.skipif(True, reason="no promtool here")
def test_that_a_mark_skips():
    pass

@pytest.fixture
def broker():
    pytest.skip("no broker here")

def test_that_a_fixture_skips(broker):
    pass

def test_that_needs_a_data_set():
    pytest.skip("no etth1.csv in the folder that GLAIM_DATA names")

@pytest.mark.xfail(strict=True)
def test_that_is_expected_to_fail():
    assert False

def test_that_passes():
    pass
"""
CONFTEST = "from tests.conftest import pytest_make_collect_report, pytest_runtest_makereport, pytest_unconfigure\n"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    for name in ("CI", "GLAIM_NO_SKIP", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    return pytester


def test_without_the_rule_skips_are_allowed_and_the_last_line_counts_them(run: pytest.Pytester) -> None:
    result = run.runpytest_subprocess("-n", "2")
    result.assert_outcomes(passed=1, skipped=4, xfailed=1)
    last = result.outlines[-1]
    assert last.startswith("skipped: 1 (")
    for reason in ("no helm here", "no promtool here", "no broker here", "no etth1.csv in the folder that"):
        assert f"1 ({reason}" in last


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), ("GLAIM_NO_SKIP", "1")])
def test_a_skip_for_a_missing_part_fails_with_its_reason(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    result = run.runpytest_subprocess()
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] == outcomes["skipped"] == outcomes["xfailed"] == 1
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) == 3
    for part in ("helm", "promtool", "broker"):
        result.stdout.fnmatch_lines([f"*expected this test to run, found it skipped: no {part} here"])
