"""The CronJobs of retraining and rollback, triggered as by `kubectl create job --from`."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deploy.cluster.manifest import Object
from tests.cluster.release import Release, conditions_of
from tests.helm.matrix import CONFIG

pytestmark = pytest.mark.timeout(300)

TRAINED: Object = {
    "models": {"source": "claim"},
    "training": {"enabled": True, "model": "plant-pump", "config": CONFIG.read_text()},
}


def triggered(release: Release, name: str = "training") -> Object:
    """Create a Job from the CronJob, wait until it is complete, and return its pod."""
    schedule = release.one("batch/v1", "CronJob", f"plant-glaim-stream-{name}")
    assert schedule is not None
    owner = {key: schedule[key] for key in ("apiVersion", "kind")}
    owner |= {key: schedule["metadata"][key] for key in ("name", "uid")}
    template = schedule["spec"]["jobTemplate"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "by-hand",
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "labels": template["metadata"]["labels"],
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    }
    release.api.create(job, release.namespace)
    release.until(lambda: complete(release), "the Job is complete")
    (pod,) = release.api.listed("v1", "Pod", release.namespace, "batch.kubernetes.io/job-name=by-hand")
    return pod


def complete(release: Release) -> bool:
    job = release.one("batch/v1", "Job", "by-hand")
    return job is not None and conditions_of(job).get("Complete") == "True"


def containers(pod: Object) -> dict[str, Any]:
    spec = pod["spec"]
    return {container["name"]: container for container in [*spec.get("initContainers", []), *spec["containers"]]}


def test_rollback_job_is_suspended_and_withdraws_the_newest_version(release: Release) -> None:
    release.install(TRAINED)
    schedule = release.one("batch/v1", "CronJob", "plant-glaim-stream-rollback")
    assert schedule is not None
    assert schedule["spec"]["suspend"] is True
    (step,) = containers(triggered(release, "rollback")).values()
    *command, repository, model = step["command"]
    assert command == ["glaim-stream", "models", "rollback"]
    assert model == "plant-pump"
    (mount,) = (mount for mount in step["volumeMounts"] if mount["name"] == "models")
    assert repository.startswith(mount["mountPath"])
    assert not mount.get("readOnly")


def test_schedule_starts_a_job(release: Release) -> None:
    """The schedule is every minute and the last start 5 minutes ago, instead of waiting for Sunday."""
    release.install({**TRAINED, "training": {**TRAINED["training"], "schedule": "* * * * *"}})
    long_ago = (datetime.now(UTC) - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    changes = {"status": {"lastScheduleTime": long_ago}}
    release.api.patch("batch/v1", "CronJob", "plant-glaim-stream-training", changes, release.namespace, status=True)

    def done() -> bool:
        jobs = release.api.listed("batch/v1", "Job", release.namespace)
        return any(conditions_of(job).get("Complete") == "True" for job in jobs)

    release.until(done, "a Job of the schedule is complete", 90.0)


def test_uninstallation_keeps_only_the_trained_models(release: Release) -> None:
    before = release.objects()
    release.install(TRAINED)
    triggered(release)
    run = release.helm("uninstall", "--wait", "--timeout", "60s")
    assert run.returncode == 0, run.stderr
    kept = [*before, "PersistentVolumeClaim/plant-glaim-stream-models"]
    release.until(lambda: release.objects() == sorted(kept), "only the models are left")
    release.install(TRAINED)  # uses the existing claim again
