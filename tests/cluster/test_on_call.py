"""The rights that docs/on-call.md asks for suffice to roll a model back, and for nothing that could lose data."""

from collections.abc import Callable

import yaml
from kubernetes.dynamic.exceptions import ForbiddenError

from deploy.cache import CHECKOUT
from deploy.cluster.api import Api, RequestRejected
from deploy.cluster.manifest import Object
from tests.cluster.release import Release

USER = "on-duty"
ROLE = "rbac.authorization.k8s.io"
CRON_JOB = "plant-glaim-stream-rollback"


def on_duty(release: Release) -> Api:
    """A client of a user who has the documented Role in the release's namespace, and no other right."""
    text = (CHECKOUT / "docs" / "on-call.md").read_text().split("```yaml\n", 1)[1].split("```", 1)[0]
    role: Object = yaml.safe_load(text)
    release.api.create(role, release.namespace)
    binding: Object = {
        "apiVersion": f"{ROLE}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "on-duty"},
        "subjects": [{"kind": "User", "name": USER, "apiGroup": ROLE}],
        "roleRef": {"kind": "Role", "name": role["metadata"]["name"], "apiGroup": ROLE},
    }
    release.api.create(binding, release.namespace)
    return release.api.impersonating(USER)


def is_forbidden(request: Callable[[], object]) -> bool:
    try:
        request()
    except ForbiddenError:
        return True
    except RequestRejected as error:
        return error.status == 403
    return False


def test_rights_of_the_person_on_duty_suffice_for_a_rollback_without_training(release: Release) -> None:
    release.install({"models": {"source": "claim"}, "rollback": {"enabled": True, "model": "plant-pump"}})
    api, namespace = on_duty(release), release.namespace
    release.until(lambda: not is_forbidden(lambda: api.listed("v1", "Pod", namespace)), "the Role is in force")
    cron_job = api.get("batch/v1", "CronJob", CRON_JOB, namespace)  # as kubectl create job --from=cronjob/... reads it
    assert cron_job is not None
    assert api.get("batch/v1", "CronJob", "plant-glaim-stream-training", namespace) is None
    template = cron_job["spec"]["jobTemplate"]
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "back", **template["metadata"]}}
    api.create(job | {"spec": template["spec"]}, namespace)

    def done() -> bool:
        found = api.get("batch/v1", "Job", "back", namespace)
        return found is not None and (found.get("status") or {}).get("succeeded") == 1

    release.until(done, "the rollback has succeeded")
    worker = release.ready("worker")[0]["metadata"]
    api.delete("v1", "Pod", worker["name"], namespace)
    release.until(
        lambda: worker["uid"] not in [pod["metadata"]["uid"] for pod in release.ready("worker")], "it is gone"
    )
    claim = "plant-glaim-stream-models"
    assert is_forbidden(lambda: api.listed("v1", "Secret", namespace))
    assert is_forbidden(lambda: api.delete("v1", "PersistentVolumeClaim", claim, namespace))
    assert is_forbidden(lambda: api.patch("batch/v1", "CronJob", CRON_JOB, {"spec": {"suspend": False}}, namespace))
    assert is_forbidden(lambda: api.listed("v1", "Pod", "default"))
