"""The report: its totals, and the merged findings of several partitions."""

import json

from glaim_stream.operate.audit.report import PROBLEMS, AuditReport, Finding, Findings, Offence


def test_the_report_counts_lost_rows_and_holes() -> None:
    problems = {name: Finding(0) for name in PROBLEMS}
    report = AuditReport("i", "o", "g", {}, problems, {}, [], [], 0.0)
    assert report.clean
    problems["missing"].count, problems["holes_absent"].count = 2, 3
    assert (report.clean, report.lost, report.holes) == (False, 2, 3)
    assert json.loads(json.dumps(report.as_json()))["problems"]["missing"]["count"] == 2


def test_lost_and_holes_each_add_up_two_problems() -> None:
    problems = {name: Finding(1 << place) for place, name in enumerate(PROBLEMS)}
    report = AuditReport("i", "o", "g", {}, problems, {}, [], [], 0.0)
    bit = {name: 1 << place for place, name in enumerate(PROBLEMS)}
    assert report.lost == bit["missing"] + bit["missing_dead_letters"]
    assert report.holes == bit["holes_absent"] + bit["holes_not_final"]
    few = AuditReport("i", "o", "g", {}, {"missing": Finding(1)}, {}, [], [], 0.0)
    assert (few.lost, few.holes, few.clean) == (1, 0, False)


def test_findings_of_partitions_add_up() -> None:
    one = Findings({"keys": 2}, {"wrong": Finding(1, [Offence(0)])})
    one.add(Findings({"keys": 3, "rows": 4}, {"wrong": Finding(2, [Offence(1), Offence(2)]), "missing": Finding(0)}))
    assert one.counts == {"keys": 5, "rows": 4}
    assert one.problems == {"wrong": Finding(3, [Offence(0), Offence(1), Offence(2)]), "missing": Finding(0)}


def test_an_offence_shows_the_fields_that_are_known() -> None:
    assert str(Offence(3, detail="x")) == "(partition 3): x"
    assert str(Offence(3, "g", "s", 0, 0, "x")) == "g s 1970-01-01T00:00:00Z (partition 3, offset 0): x"
