"""Findings as sentences and as JSON."""

from glaim_stream.operate.check.findings import Grade, failed, ok, warning


def test_a_finding_is_one_sentence() -> None:
    assert str(ok("topic x", "4 partitions")) == "topic x: 4 partitions"
    assert str(failed("topic x", expected="a leader", found="none")) == "topic x: expected a leader, found none"


def test_each_constructor_sets_its_outcome() -> None:
    found = [ok("x", "y"), warning("x", expected="y", found="z"), failed("x", expected="y", found="z")]
    assert [each.outcome for each in found] == [Grade.OK, Grade.WARNING, Grade.FAILED]
    assert found[1].as_json() == {"outcome": "warning", "subject": "x", "found": "z", "expected": "y"}
