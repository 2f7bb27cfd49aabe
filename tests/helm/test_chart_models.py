"""Sources and destinations of models: mounts, the steps of a retraining, and its failure policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command

from glaim_stream.commands.models import app
from tests.helm.matrix import CONFIG, MATRIX, SMALLEST, merged
from tests.helm.rendered import Object, containers, environment, of_kind, pods, triton_pod, worker_pod
from training.config import read
from training.fit.options import parser

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

pytestmark = pytest.mark.timeout(1800)

VOLUME, BUCKET = "models in a volume, retrained", "models in a bucket, retrained"


def cron_job(objects: list[Object], name: str = "training") -> Object:
    """The CronJob of the retraining, or the one of the rollback."""
    (found,) = [each for each in objects if each["kind"] == "CronJob" and each["metadata"]["name"].endswith(f"-{name}")]
    return found


def job_pod(objects: list[Object], name: str = "training") -> Object:
    template: Object = cron_job(objects, name)["spec"]["jobTemplate"]["spec"]["template"]
    return template


def commands(pod: Object) -> dict[str, list[str]]:
    return {each["name"]: [str(word) for word in each.get("command", [])] for each in containers(pod)}


def models_volume(pod: Object) -> Any:
    return next((each for each in pod["spec"]["volumes"] if each["name"] == "models"), None)


@pytest.mark.parametrize(
    ("catalogue", "learns", "limit"),
    [
        ("models: [{name: pumps, learn: true}]", False, "4Gi"),
        ("models: [{name: other}, {name: pumps, learn: true}]", False, "4294967296"),
        ("models: [{name: pumps}]", True, 4294967296),  # a number of helm: 4.294967296e+09
    ],
)
@pytest.mark.parametrize("claim", ["", "mine"])
def test_workers_that_learn_write_in_the_claim_and_nobody_else_does(
    chart: Chart, catalogue: str, learns: bool, limit: str | int, claim: str
) -> None:
    memory = {"requests": {"memory": "3Gi"}, "limits": {"memory": limit}}
    values = {
        "catalogue": {"inline": catalogue},
        "worker": {"learns": learns, "resources": memory},
        "models": {"source": "claim", "existingClaim": claim},
        "audit": {"enabled": True},
    }
    objects = chart.render(merged(SMALLEST, values))
    found = {name: write_access(pod) for name, pod in pods(objects).items()}
    writers = {name for name, writes in found.items() if writes}
    assert writers == {name for name in found if name.startswith("StatefulSet")}
    worker = worker_pod(objects)
    assert worker["spec"]["securityContext"]["fsGroup"] == 10001
    (main,) = worker["spec"]["containers"]
    assert main["securityContext"]["readOnlyRootFilesystem"] is True
    reading = merged(
        SMALLEST, merged(values, {"catalogue": {"inline": "models: [{name: a}]"}, "worker": {"learns": False}})
    )
    assert not write_access(worker_pod(chart.render(reading)))


def write_access(pod: Object) -> bool:
    """Whether a container that stays can write in the model repository."""
    volume = models_volume(pod)
    if volume is None or volume["persistentVolumeClaim"].get("readOnly"):
        return False
    mounts = [mount for each in pod["spec"]["containers"] for mount in each["volumeMounts"]]
    return any(mount["name"] == "models" and not mount.get("readOnly") for mount in mounts)


def test_steps_of_a_retraining_run_in_order(chart: Chart) -> None:
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
    for each in (volume, bucket):
        parser(None).parse_args(commands(each)["fit"][3:])  # an argument that the training does not know ends it


@pytest.mark.parametrize(("matrix", "where"), [(VOLUME, "/models/repository"), (BUCKET, "s3://")])
def test_old_weights_are_deleted_from_the_repository_before_a_training(chart: Chart, matrix: str, where: str) -> None:
    steps = commands(job_pod(chart.render(merged(MATRIX[matrix], {"training": {"keepVersions": 5}}))))
    assert list(steps)[1:4] in (["fill-models", "prune", "dump"], ["fetch-models", "prune", "dump"])
    assert steps["prune"][3].startswith(where)
    assert steps["prune"][4:] == ["--model", "plant-pump", "--keep", "5"]


def test_training_reads_the_dump(chart: Chart) -> None:
    steps = commands(job_pod(chart.render(MATRIX[VOLUME])))
    dumped = steps["dump"][steps["dump"].index("--out") + 1]
    assert steps["fit"][steps["fit"].index("--data") + 1] == dumped == "/runs/$(RUN)/readings.parquet"
    history = commands(job_pod(chart.render(MATRIX["trained on a volume"])))
    assert history["fit"][history["fit"].index("--data") + 1] == "/data/plant/2026.parquet"
    assert "dump" not in history


def test_run_has_the_name_of_its_job(chart: Chart) -> None:
    for container in containers(job_pod(chart.render(MATRIX[VOLUME]))):
        if any("$(RUN)" in str(word) for word in container["command"]):
            run = next(each for each in container["env"] if each["name"] == "RUN")
            path = run["valueFrom"]["fieldRef"]["fieldPath"]
            assert path == "metadata.labels['batch.kubernetes.io/job-name']"


def test_failure_policy_ignores_drains_and_does_not_retry_rejections(chart: Chart) -> None:
    spec = cron_job(chart.render(MATRIX[VOLUME]))["spec"]["jobTemplate"]["spec"]
    drained, rejected = spec["podFailurePolicy"]["rules"]
    assert (drained["action"], drained["onPodConditions"]) == (
        "Ignore",
        [{"type": "DisruptionTarget", "status": "True"}],
    )
    assert (rejected["action"], rejected["onExitCodes"]["values"]) == ("FailJob", [2, 3])
    assert rejected["onExitCodes"]["containerName"] == "fit"
    assert spec["template"]["spec"]["restartPolicy"] == "Never", "required by podFailurePolicy"


@pytest.mark.parametrize("command", ["rollback", "release"])
def test_rollback_and_its_release_are_suspended(chart: Chart, command: str) -> None:
    for name, repository in ((VOLUME, "/models/repository"), (BUCKET, "s3://bucket/models?region=eu-central-1")):
        objects = chart.render(MATRIX[name])
        assert cron_job(objects, command)["spec"]["suspend"] is True
        assert cron_job(objects, command)["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0
        asked = commands(job_pod(objects, command))[command]
        assert asked == ["glaim-stream", "models", command, repository, "plant-pump"]


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({"form": True}, ["--form"]),
        ({"to": "0"}, ["--to=0"]),
        ({"form": True, "to": "0a1b2c3d"}, ["--form", "--to=0a1b2c3d"]),
    ],
)
def test_rollback_withdraws_a_form_or_goes_to_a_named_version(
    chart: Chart, changes: dict[str, Any], flags: list[str]
) -> None:
    objects = chart.render(merged(MATRIX[VOLUME], {"rollback": changes}))
    asked = commands(job_pod(objects, "rollback"))["rollback"]
    assert asked[-len(flags) - 1 :] == ["plant-pump", *flags]
    assert commands(job_pod(objects, "release"))["release"][-1] == "plant-pump"
    command = get_command(app).commands["rollback"]  # type: ignore[attr-defined]
    given = command.make_context("rollback", asked[asked.index("rollback") + 1 :]).params
    assert (given["form"], given["to"]) == (changes.get("form", False), changes.get("to"))


@pytest.mark.parametrize("name", [VOLUME, BUCKET])
def test_rollback_exists_without_training(chart: Chart, name: str) -> None:
    trained = chart.render(MATRIX[name])
    untrained = merged(MATRIX[name], {"training": {"enabled": False}, "rollback": {"enabled": True, "model": "boiler"}})
    objects = chart.render(untrained)
    assert {each["metadata"]["name"].rsplit("-", 1)[1] for each in objects if each["kind"] == "CronJob"} == {
        "rollback", "release",
    }  # fmt: skip
    for command in ("rollback", "release"):
        pod, before = job_pod(objects, command), job_pod(trained, command)
        assert commands(pod)[command][-1] == "boiler"
        assert pod["spec"]["serviceAccountName"] == before["spec"]["serviceAccountName"]
        assert of_kind(objects, "ServiceAccount", "training")["metadata"]["name"] == pod["spec"]["serviceAccountName"]
        assert pod["spec"]["volumes"] == before["spec"]["volumes"]
        assert pod["spec"]["securityContext"] == before["spec"]["securityContext"]


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        ({"claim": {"accessModes": ["ReadWriteOnce"]}}, "requiredDuringSchedulingIgnoredDuringExecution"),
        ({"claim": {"accessModes": ["ReadWriteMany"]}}, "preferredDuringSchedulingIgnoredDuringExecution"),
        ({"existingClaim": "models"}, "preferredDuringSchedulingIgnoredDuringExecution"),
    ],
)
@pytest.mark.parametrize("command", ["rollback", "release"])
def test_rollback_runs_beside_the_pods_that_have_the_volume(
    chart: Chart, command: str, claim: Object, kind: str
) -> None:
    node = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    values: Object = {
        "models": {"source": "claim", **claim},
        "training": {"affinity": node},
        "rollback": {"enabled": True, "model": "plant-pump"},
    }
    objects = chart.render(merged(SMALLEST, values))
    affinity = job_pod(objects, command)["spec"]["affinity"]
    assert affinity.pop("nodeAffinity") == node["nodeAffinity"]
    (term,) = affinity["podAffinity"].pop(kind)
    assert affinity == {"podAffinity": {}}
    term = term.get("podAffinityTerm", term)
    assert term["topologyKey"] == "kubernetes.io/hostname"
    wanted = term["labelSelector"]["matchLabels"].items()
    for owner in (of_kind(objects, "StatefulSet", "worker"), of_kind(objects, "Deployment", "triton")):
        assert wanted <= owner["spec"]["template"]["metadata"]["labels"].items()
    # Where no other pod runs, a pod that matches its own term may be placed anywhere.
    assert wanted <= job_pod(objects, command)["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("claim", "value", "kind"),
    [
        ("", "auto", "required"), ("", "preferred", "preferred"), ("ours", "auto", "preferred"),
        ("ours", "required", "required"),
    ],
)  # fmt: skip
def test_rollback_may_require_the_node_of_the_users_claim(chart: Chart, claim: str, value: str, kind: str) -> None:
    once = {"existingClaim": claim, "claim": {"accessModes": ["ReadWriteOnce"]}}
    changes = {"models": once, "rollback": {"nodeOfVolume": value}}
    objects = chart.render(merged(MATRIX[VOLUME], changes))
    for name in ("rollback", "release"):
        pod = job_pod(objects, name)
        assert list(pod["spec"]["affinity"]["podAffinity"]) == [f"{kind}DuringSchedulingIgnoredDuringExecution"]


def test_rollback_reaches_no_kafka(chart: Chart) -> None:
    values = {"training": {"enabled": False}, "rollback": {"enabled": True}, "networkPolicy": {"enabled": True}}
    policy = of_kind(chart.render(merged(MATRIX[BUCKET], values)), "NetworkPolicy", "training")
    ports = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
    assert 443 in ports
    assert not ports & {9092, 9093, 9094}


def test_new_claim_is_filled_by_workers_and_read_by_triton(chart: Chart) -> None:
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


KEY = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"


def test_triton_reads_checked_copies_of_a_claim_where_versions_must_show_something(chart: Chart) -> None:
    objects = chart.render(merged(MATRIX[VOLUME], {"models": {"trust": {"key": KEY}}}))
    pod = triton_pod(objects)
    fetch = ["glaim-stream", "models", "fetch", "/models/repository", "--to", "/checked/repository", "--mirror"]
    assert commands(pod)["check-models"] == fetch
    assert commands(pod)["follow-models"] == [*fetch, "--every", "30"]
    server = pod["spec"]["containers"][0]
    assert environment(server)["GLAIM_MODEL_REPOSITORY"]["value"] == "/checked/repository"
    mounts = {each["mountPath"]: each.get("readOnly") for each in server["volumeMounts"]}
    assert mounts["/checked"] is True
    assert "/models" not in mounts
    assert {"name": "checked-models", "emptyDir": {"sizeLimit": "2Gi"}} in pod["spec"]["volumes"]
    assert "check-models" not in commands(worker_pod(objects))


def test_what_versions_must_show_reaches_every_container_that_checks(chart: Chart) -> None:
    trust = {"key": KEY, "operators": ["aten::lstm_cell", "aten::fft_rfft"]}
    expected = {
        "GLAIM_MANIFEST_KEY": KEY,
        "GLAIM_MODEL_OPERATORS": "aten::lstm_cell,aten::fft_rfft",
    }  # fmt: skip
    objects = chart.render(merged(MATRIX[BUCKET], {"models": {"trust": trust}}))
    training = (job_pod(objects), job_pod(objects, "rollback"))
    managing = [
        (each, pod in training)
        for pod in (worker_pod(objects), triton_pod(objects), *training)
        for each in containers(pod)
        if "models" in each.get("command", [])
    ]
    assert {each["name"] for each, _ in managing} >= {"fetch-models", "follow-models", "push", "rollback"}
    for container, in_training in [*managing, (worker_pod(objects)["spec"]["containers"][0], False)]:
        found = {name: entry.get("value") for name, entry in environment(container).items() if name in expected}
        assert found == expected | ({"GLAIM_MANIFEST_KEY": ""} if in_training else {}), container["name"]


def test_existing_claim_is_not_filled(chart: Chart) -> None:
    values = merged(MATRIX[VOLUME], {"models": {"existingClaim": "ours"}})
    objects = chart.render(values)
    assert not [
        each for each in objects if each["kind"] == "PersistentVolumeClaim" and "models" in str(each["metadata"])
    ]
    triton = triton_pod(objects)
    for pod in (worker_pod(objects), triton, job_pod(objects)):
        assert "fill-models" not in commands(pod)
        assert ("wait-for-models" in commands(pod)) is (pod is triton), "it may be filled after the installation"
        assert models_volume(pod)["persistentVolumeClaim"]["claimName"] == "ours"


@pytest.mark.parametrize("seconds", [0, 60])
def test_bucket_is_followed_or_read_once(chart: Chart, seconds: int) -> None:
    objects = chart.render(merged(MATRIX[BUCKET], {"models": {"objectStore": {"refreshSeconds": seconds}}}))
    for pod in (worker_pod(objects), triton_pod(objects)):
        assert "--mirror" in commands(pod)["fetch-models"]
        assert ("follow-models" in commands(pod)) == bool(seconds)
    mode = "--model-control-mode=" + ("poll" if seconds else "none")
    assert mode in triton_pod(objects)["spec"]["containers"][0]["args"]


def test_only_containers_that_access_the_bucket_get_its_credentials(chart: Chart) -> None:
    objects = chart.render(MATRIX[BUCKET])
    for pod in (worker_pod(objects), triton_pod(objects), job_pod(objects)):
        with_login = {each["name"] for each in containers(pod) if "bucket-login" in str(each.get("env"))}
        assert with_login <= {"fetch-models", "follow-models", "prune", "push"}
        assert with_login


def test_shipped_retraining_configuration_fits_the_shipped_model(chart: Chart) -> None:
    from deploy.cache import CHECKOUT
    from glaim_stream.core.contract import read_contract

    recipe = read(CONFIG)
    contract = read_contract(CHECKOUT / "model_repo" / "plant-pump")
    assert list(recipe.data.sensors) == contract.sensor_ids
    assert (recipe.model.window, recipe.data.step_s) == (contract.window, contract.step_s)
    assert (recipe.export.name, recipe.export.version) == (contract.name, 0)
    assert recipe.export.emitted_steps == contract.emitted_steps


def test_the_closed_form_is_learned_every_hour_beside_the_training(chart: Chart) -> None:
    volume, bucket = (job_pod(chart.render(MATRIX[name]), "learn") for name in (VOLUME, BUCKET))
    assert list(commands(volume)) == ["fill-models", "learn"]
    assert list(commands(bucket)) == ["fetch-models", "learn", "push"]
    assert commands(volume)["learn"] == ["glaim-stream", "learn", "--model", "plant-pump", "--since", "7d", "--json"]
    assert commands(bucket)["push"][3:5] == ["/models/repository", "s3://bucket/models?region=eu-central-1"]
    for pod in (volume, bucket):
        (learn,) = [each for each in containers(pod) if each["name"] == "learn"]
        assert environment(learn)["GLAIM_MODEL_REPOSITORY"]["value"] == "/models/repository"
        assert {"name": "models", "mountPath": "/models", "readOnly": False} in learn["volumeMounts"]
        assert "work" not in {volume["name"] for volume in pod["spec"]["volumes"]}  # a training may hold it
    assert cron_job(chart.render(MATRIX[VOLUME]), "learn")["spec"]["schedule"] == "17 * * * *"


@pytest.mark.parametrize("values", [{"training": {"learn": {"enabled": False}}}, {"models": {"trust": {"key": KEY}}}])
def test_the_closed_form_is_not_learned_without_need_or_where_forms_are_signed(
    chart: Chart, values: dict[str, Any]
) -> None:
    objects = chart.render(merged(MATRIX[VOLUME], values))
    names = {each["metadata"]["name"].rpartition("-")[2] for each in objects if each["kind"] == "CronJob"}
    assert names == {"training", "rollback", "release"}
