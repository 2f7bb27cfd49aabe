"""Cron schedules as Kubernetes parses them; most libraries accept more."""

from __future__ import annotations

import pytest

from tests.helm.chart_checks.scheduled import check, cron_problem
from tests.helm.chart_checks.system import System


@pytest.mark.parametrize(
    "line",
    ["0 3 * * 0", "30 2 * * SUN", "*/15 0-6 1,15 * *", "0 0 ? * MON", "@weekly", "0 3 1 JAN *", "5 4 * * */7"],
)
def test_valid_schedules(line: str) -> None:
    assert cron_problem(line) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 3 * *", "five fields"),
        ("0 0 3 * * *", "five fields"),
        ("61 * * * *", "minute"),
        ("0 25 * * *", "hour"),
        ("0 0 31 2 *", "day-of-month"),
        ("0 3 * * 7", "0 to 6"),
        ("0 3 * * SUNDAY", "SUN to SAT"),
        ("0 3 L * *", "expected a number"),
        ("0 3 * * 1#2", "other than digits"),
        ("TZ=UTC 0 3 * *", "other than digits"),
        ("@fortnightly", "five fields"),
    ],
)
def test_invalid_schedules(line: str, message: str) -> None:
    problem = cron_problem(line)
    assert problem is not None
    assert message in problem


def job(**changes: object) -> System:
    """A system with a valid CronJob, with changes to its spec."""
    spec = {
        "schedule": "0 3 * * 0",
        "timeZone": "Etc/UTC",
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 3600,
        "jobTemplate": {
            "spec": {
                "activeDeadlineSeconds": 3600,
                "backoffLimit": 2,
                "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"containerName": "fit"}}]},
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "fit"}]}},
            }
        },
    }
    return System([{"kind": "CronJob", "metadata": {"name": "retrain"}, "spec": spec | changes}], {}, "plant")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "0 3 * * 8"}, "schedule '0 3 * * 8'"),
        ({"timeZone": "Europe/Berlinn"}, "IANA"),
        ({"timeZone": None}, "IANA"),
        ({"concurrencyPolicy": "Allow"}, "two of its jobs"),
        ({"startingDeadlineSeconds": None}, "100 missed starts"),
        ({"jobTemplate": {"spec": {"backoffLimit": 2}}}, "has no time limit"),
        ({"jobTemplate": {"spec": {"activeDeadlineSeconds": 1}}}, "backoffLimit is not set"),
        ({"jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}}, "Never or OnFailure"),
        (
            {
                "jobTemplate": {
                    "spec": {
                        "podFailurePolicy": {"rules": [{"onExitCodes": {"containerName": "fitt"}}]},
                        "template": {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "fit"}]}},
                    }
                }
            },
            "names the container fitt",
        ),
    ],
)
def test_invalid_cron_job_is_reported(changes: dict[str, object], message: str) -> None:
    assert not list(check(job()))
    assert any(message in problem for problem in check(job(**changes)))
