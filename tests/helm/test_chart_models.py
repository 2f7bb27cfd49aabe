"""Where models come from and where new ones go: who mounts what, and how a retraining's failures are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.helm.matrix import CONFIG, MATRIX, SMALLEST, merged
from tests.helm.rendered import Object, containers, of_kind, triton_pod, worker_pod
from training.config import read

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

pytestmark = pytest.mark.timeout(1800)

VOLUME, BUCKET = "models in a volume, trained anew", "models in a bucket, trained anew"


def cron_job(objects: list[Object], name: str = "training") -> Object:
    """The retraining's, or the one that takes its outcome back."""
    (found,) = [each for each in objects if each["kind"] == "CronJob" and each["metadata"]["name"].endswith(f"-{name}")]
    return found


def job_pod(objects: list[Object], name: str = "training") -> Object:
    template: Object = cron_job(objects, name)["spec"]["jobTemplate"]["spec"]["template"]
    return template


def commands(pod: Object) -> dict[str, list[str]]:
    return {each["name"]: [str(word) for word in each.get("command", [])] for each in containers(pod)}


def models_volume(pod: Object) -> Any:
    return next((each for each in pod["spec"]["volumes"] if each["name"] == "models"), None)


def test_the_steps_of_a_retraining_come_in_their_order(chart: Chart) -> None:
    volume = job_pod(chart.render(MATRIX[VOLUME]))
    assert list(commands(volume)) == ["workspace", "fill-models", "dump", "fit"]
    assert [each["name"] for each in volume["spec"]["containers"]] == ["fit"]
    bucket = job_pod(chart.render(MATRIX[BUCKET]))
    assert list(commands(bucket)) == ["workspace", "fetch-models", "dump", "fit", "push"]
    fit = commands(bucket)["fit"]
    assert fit[:4] == ["python", "-m", "training.fit", "/etc/glaim/training/config.toml"]
    assert fit[fit.index("--model-repo") + 1] == commands(bucket)["push"][3] == "/models/repository"
    assert "export.version=0" in fit
    assert "--resume" in fit


@pytest.mark.parametrize(("matrix", "where"), [(VOLUME, "/models/repository"), (BUCKET, "s3://")])
def test_old_weights_are_deleted_where_the_versions_lie_before_a_new_one_comes(
    chart: Chart, matrix: str, where: str
) -> None:
    steps = commands(job_pod(chart.render(merged(MATRIX[matrix], {"training": {"keepVersions": 5}}))))
    assert list(steps)[1:4] in (["fill-models", "prune", "dump"], ["fetch-models", "prune", "dump"])
    assert steps["prune"][3].startswith(where)
    assert steps["prune"][4:] == ["--model", "plant-pump", "--keep", "5"]


def test_what_is_trained_on_is_what_was_dumped(chart: Chart) -> None:
    steps = commands(job_pod(chart.render(MATRIX[VOLUME])))
    dumped = steps["dump"][steps["dump"].index("--out") + 1]
    assert steps["fit"][steps["fit"].index("--data") + 1] == dumped == "/runs/$(RUN)/readings.parquet"
    history = commands(job_pod(chart.render(MATRIX["trained on a volume"])))
    assert history["fit"][history["fit"].index("--data") + 1] == "/data/plant/2026.parquet"
    assert "dump" not in history


def test_a_run_has_the_name_of_its_job(chart: Chart) -> None:
    for container in containers(job_pod(chart.render(MATRIX[VOLUME]))):
        if any("$(RUN)" in str(word) for word in container["command"]):
            run = next(each for each in container["env"] if each["name"] == "RUN")
            path = run["valueFrom"]["fieldRef"]["fieldPath"]
            assert path == "metadata.labels['batch.kubernetes.io/job-name']"


def test_only_what_must_is_tried_again(chart: Chart) -> None:
    spec = cron_job(chart.render(MATRIX[VOLUME]))["spec"]["jobTemplate"]["spec"]
    drained, refused = spec["podFailurePolicy"]["rules"]
    assert (drained["action"], drained["onPodConditions"]) == (
        "Ignore",
        [{"type": "DisruptionTarget", "status": "True"}],
    )
    assert (refused["action"], refused["onExitCodes"]["values"]) == ("FailJob", [2, 3])
    assert refused["onExitCodes"]["containerName"] == "fit"
    assert spec["template"]["spec"]["restartPolicy"] == "Never", "a podFailurePolicy asks for it"


def test_a_rollback_waits_to_be_asked_for(chart: Chart) -> None:
    for name, repository in ((VOLUME, "/models/repository"), (BUCKET, "s3://bucket/models?region=eu-central-1")):
        objects = chart.render(MATRIX[name])
        assert cron_job(objects, "rollback")["spec"]["suspend"] is True
        assert cron_job(objects, "rollback")["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0
        rollback = commands(job_pod(objects, "rollback"))["rollback"]
        assert rollback == ["glaim-stream", "models", "rollback", repository, "plant-pump"]


def test_a_new_claim_is_filled_by_workers_and_read_by_triton(chart: Chart) -> None:
    objects = chart.render(MATRIX[VOLUME])
    claim = of_kind(objects, "PersistentVolumeClaim", "models")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert "fill-models" in commands(worker_pod(objects))
    assert "wait-for-models" in commands(triton_pod(objects))
    for pod, read_only in ((worker_pod(objects), None), (triton_pod(objects), True), (job_pod(objects), None)):
        volume = models_volume(pod)["persistentVolumeClaim"]
        assert (volume["claimName"], volume.get("readOnly")) == (claim["metadata"]["name"], read_only)
    for pod in (worker_pod(objects), triton_pod(objects)):
        (main,) = pod["spec"]["containers"]
        (mount,) = [each for each in main["volumeMounts"] if each["name"] == "models"]
        assert mount == {"name": "models", "mountPath": "/models", "readOnly": True}
    assert "--model-control-mode=poll" in triton_pod(objects)["spec"]["containers"][0]["args"]


def test_a_claim_that_was_there_is_never_filled(chart: Chart) -> None:
    values = merged(MATRIX[VOLUME], {"models": {"existingClaim": "ours"}})
    objects = chart.render(values)
    assert not [
        each for each in objects if each["kind"] == "PersistentVolumeClaim" and "models" in str(each["metadata"])
    ]
    for pod in (worker_pod(objects), triton_pod(objects), job_pod(objects)):
        assert not {"fill-models", "wait-for-models"} & set(commands(pod))
        assert models_volume(pod)["persistentVolumeClaim"]["claimName"] == "ours"


@pytest.mark.parametrize("seconds", [0, 60])
def test_a_bucket_is_followed_or_read_once(chart: Chart, seconds: int) -> None:
    objects = chart.render(merged(MATRIX[BUCKET], {"models": {"objectStore": {"refreshSeconds": seconds}}}))
    for pod in (worker_pod(objects), triton_pod(objects)):
        assert "--mirror" in commands(pod)["fetch-models"]
        assert ("follow-models" in commands(pod)) == bool(seconds)
    mode = "--model-control-mode=" + ("poll" if seconds else "none")
    assert mode in triton_pod(objects)["spec"]["containers"][0]["args"]


def test_only_who_speaks_to_a_bucket_is_given_its_login(chart: Chart) -> None:
    objects = chart.render(MATRIX[BUCKET])
    for pod in (worker_pod(objects), triton_pod(objects), job_pod(objects)):
        knowing = {each["name"] for each in containers(pod) if "bucket-login" in str(each.get("env"))}
        assert knowing <= {"fetch-models", "follow-models", "prune", "push"}
        assert knowing


def test_the_shipped_recipe_fits_the_shipped_model(chart: Chart) -> None:
    from deploy.cache import CHECKOUT
    from glaim_stream.models.contract import read_contract

    recipe = read(CONFIG)
    contract = read_contract(CHECKOUT / "model_repo" / "plant-pump")
    assert list(recipe.data.sensors) == contract.sensor_ids
    assert (recipe.model.window, recipe.data.step_s) == (contract.window, contract.step_s)
    assert (recipe.export.name, recipe.export.version) == (contract.name, 0)
    assert recipe.export.emitted_steps == contract.emitted_steps


def test_nothing_is_trained_unasked(chart: Chart) -> None:
    assert not [each for each in chart.render(SMALLEST) if each["kind"] in ("CronJob", "PersistentVolumeClaim")]
