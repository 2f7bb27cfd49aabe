"""Each rule for CronJobs reports its violation."""

import pytest

from tests.helm.chart_checks.scheduled import check
from tests.helm.chart_checks.system import System


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
