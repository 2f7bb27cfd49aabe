"""The Job of the retraining under the real controllers: its name in its pod, and its failure policy."""

from collections.abc import Callable
from typing import Any

import pytest

from deploy.cache import CHECKOUT
from deploy.cluster.manifest import Object
from deploy.cluster.nodes import ZONES
from tests.cluster.release import Release, conditions_of, merged

CONFIG = CHECKOUT / "training" / "configs" / "plant-pump-again.toml"
IN_A_VOLUME: Object = {
    "models": {"source": "claim"},
    "training": {"enabled": True, "model": "plant-pump", "config": CONFIG.read_text(), "backoffLimit": 1},
}
IN_A_BUCKET = merged(
    {"training": IN_A_VOLUME["training"]},
    {"models": {"source": "objectStore", "objectStore": {"uri": "s3://bucket/models", "refreshSeconds": 0}}},
)


def start_job(release: Release, job: str, cron_job: str = "plant-glaim-stream-training") -> None:
    """Create a Job as `kubectl create job JOB --from=cronjob/...` does."""
    found = release.one("batch/v1", "CronJob", cron_job)
    assert found is not None
    template = found["spec"]["jobTemplate"]
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job, **template["metadata"]}}
    release.api.create(made | {"spec": template["spec"]}, release.namespace)


def pods_of(release: Release, job: str) -> list[Object]:
    return release.api.listed("v1", "Pod", release.namespace, f"batch.kubernetes.io/job-name={job}")


def status(release: Release, job: str) -> Object:
    found = release.one("batch/v1", "Job", job)
    assert found is not None
    made: Object = found.get("status") or {}
    return made


def end_pod(release: Release, job: str, code: int, *, drained: bool = False) -> None:
    """Report, as a kubelet does, that the container `fit` (main or init) of the waiting pod has ended with a code."""
    release.until(lambda: len(waiting(release, job)) == 1, f"a pod of {job} waits")
    (pod,) = waiting(release, job)
    initial = any(each["name"] == "fit" for each in pod["spec"]["initContainers"])
    end = {"terminated": {"exitCode": code, "reason": "Error"}}
    fit: dict[str, Any] = {"name": "fit", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": end}
    body: Object = {"phase": "Failed", ("initContainerStatuses" if initial else "containerStatuses"): [fit]}
    if drained:
        body["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    release.api.patch("v1", "Pod", pod["metadata"]["name"], {"status": body}, release.namespace, status=True)


def waiting(release: Release, job: str) -> list[Object]:
    return [pod for pod in pods_of(release, job) if pod.get("status", {}).get("phase") == "Pending"]


def test_run_is_named_after_its_job_and_succeeds(release: Release) -> None:
    release.install(IN_A_VOLUME)
    start_job(release, "again")
    release.until(lambda: status(release, "again").get("succeeded") == 1, "the retraining has succeeded")
    (pod,) = pods_of(release, "again")
    # The variable RUN is set from this label and names the folder of the run.
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "again"
    assert [each["name"] for each in pod["spec"]["initContainers"]] == ["workspace", "fill-models", "dump"]
    (fit,) = pod["spec"]["containers"]
    assert fit["command"][:3] == ["python", "-m", "training.fit"]
    assert {each["name"] for each in fit["volumeMounts"]} == {"tmp", "work", "models", "config"}
    node = release.api.get("v1", "Node", pod["spec"]["nodeName"])
    assert node is not None
    assert "nvidia.com/gpu" in node["status"]["capacity"]
    for claim in ("plant-glaim-stream-models", "plant-glaim-stream-training-work"):
        found = release.one("v1", "PersistentVolumeClaim", claim)
        assert found is not None
        assert found["status"]["phase"] == "Bound"
    start_job(release, "back", "plant-glaim-stream-rollback")
    release.until(lambda: status(release, "back").get("succeeded") == 1, "the newest version is withdrawn")


@pytest.mark.parametrize("modes", ["ReadWriteOnce", "ReadWriteMany"])
def test_rollback_runs_on_the_node_that_has_the_volume(release: Release, modes: str) -> None:
    """A volume that one node writes cannot be mounted on another one: the pod would wait there for ever."""
    here = {"nodeSelector": {"kubernetes.io/hostname": f"cpu-{ZONES[1]}"}, "replicas": 1}
    values = {
        "models": {"source": "claim", "claim": {"accessModes": [modes]}},
        "worker": here,
        "triton": here | {"device": "cpu"},
        "rollback": {"enabled": True, "model": "plant-pump"},
    }
    release.install(values)
    for command in ("rollback", "release"):
        for number in range(3):  # by chance it would be there once in three times
            job = f"{command}-{number}"
            start_job(release, job, f"plant-glaim-stream-{command}")
            release.until(lambda job=job: status(release, job).get("succeeded") == 1, f"{job} has run")
            (pod,) = pods_of(release, job)
            assert pod["spec"]["nodeName"] == f"cpu-{ZONES[1]}"


@pytest.mark.parametrize("values", [IN_A_VOLUME, IN_A_BUCKET], ids=["fit is the main container", "fit is initial"])
@pytest.mark.parametrize("code", [2, 3])
def test_permanent_failure_is_not_retried(
    release: Release, cordon: Callable[..., Any], values: Object, code: int
) -> None:
    release.install(values, wait=False)
    cordon()
    start_job(release, "rejected")
    end_pod(release, "rejected", code)
    release.until(
        lambda: conditions_of({"status": status(release, "rejected")}).get("Failed") == "True", "it has failed"
    )
    failure = next(each for each in status(release, "rejected")["conditions"] if each["type"] == "Failed")
    assert failure["reason"] == "PodFailurePolicy"
    assert f"exit code {code}" in failure["message"]
    assert len(pods_of(release, "rejected")) == 1


def test_stopped_training_is_retried_and_a_drain_does_not_count(release: Release, cordon: Callable[..., Any]) -> None:
    release.install(IN_A_VOLUME, wait=False)
    cordon()
    start_job(release, "stopped")
    end_pod(release, "stopped", 143, drained=True)
    release.until(lambda: len(waiting(release, "stopped")) == 1, "a new pod is created after a drain", seconds=90)
    assert not status(release, "stopped").get("failed")
    end_pod(release, "stopped", 143)
    release.until(lambda: len(waiting(release, "stopped")) == 1, "the first retry", seconds=90)
    assert status(release, "stopped")["failed"] == 1
    end_pod(release, "stopped", 143)
    release.until(
        lambda: conditions_of({"status": status(release, "stopped")}).get("Failed") == "True",
        "there is no second retry",
    )
