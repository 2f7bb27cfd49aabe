"""Rules of this chart for every pod and object, in addition to the Pod Security Standard."""

import re
from collections import Counter
from collections.abc import Iterator

from tests.helm.chart_checks.system import Pod, System, inside, name_of

Problems = Iterator[str]

# The kinds of volumes to which a container may write; its root file system is read-only.
WRITABLE_VOLUMES = {"emptyDir", "persistentVolumeClaim", "ephemeral"}
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
# Kubernetes extends the name: by a dash and a ten-character hash in a label of the pods of a StatefulSet, by a time in
# the name of a Job.
SHORTER = {"StatefulSet": 52, "CronJob": 52}
LABELS = (
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/component",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
)


def read_only_root(pod: Pod) -> Problems:
    for container in pod.containers:
        if inside(container.spec, "securityContext").get("readOnlyRootFilesystem") is not True:
            yield f"{container.where}: readOnlyRootFilesystem must be true"


def no_token(pod: Pod) -> Problems:
    """No pod uses the Kubernetes API, so no pod may get a token."""
    if pod.spec.get("automountServiceAccountToken") is not False:
        yield f"{pod.where}: automountServiceAccountToken must be false"


def no_service_links(pod: Pod) -> Problems:
    """Otherwise a Service named glaim-metrics would set GLAIM_METRICS_PORT, a setting of the worker, to an address."""
    if pod.spec.get("enableServiceLinks") is not False:
        yield f"{pod.where}: enableServiceLinks must be false"


def pinned_images(pod: Pod) -> Problems:
    for container in pod.containers:
        image = container.spec.get("image", "")
        name = image.rpartition("/")[2]
        if "@sha256:" in image:
            continue
        if ":" not in name:
            yield f"{container.where}: image {image!r} has neither tag nor digest"
        elif name.endswith(":latest"):
            yield f"{container.where}: image {image!r} changes with every push"


def resources(pod: Pod) -> Problems:
    """Requests are required for scheduling; with a memory limit, a leak ends only one container."""
    for container in pod.containers:
        given = container.spec.get("resources") or {}
        for name in ("cpu", "memory"):
            if name not in (given.get("requests") or {}) and name not in (given.get("limits") or {}):
                yield f"{container.where}: requests no {name}"
        if "memory" not in (given.get("limits") or {}):
            yield f"{container.where}: has no memory limit"


def mounts(pod: Pod) -> Problems:
    """Every mount has a volume and every volume a mount, no path is mounted twice, and only some kinds are writable."""
    kinds = {volume["name"]: next(iter(set(volume) - {"name"}), "") for volume in pod.spec.get("volumes") or []}
    used = set()
    for container in pod.containers:
        given = container.spec.get("volumeMounts") or []
        for path, count in Counter(mount["mountPath"].rstrip("/") for mount in given).items():
            if count > 1:
                yield f"{container.where}: {path} is mounted {count} times"
        for mount in given:
            used.add(mount["name"])
            if mount["name"] not in kinds:
                yield f"{container.where}: mounts {mount['name']}, which is not a volume of the pod"
            elif not mount.get("readOnly") and kinds[mount["name"]] not in WRITABLE_VOLUMES:
                yield f"{container.where}: mounts {mount['name']} writable, although it is a {kinds[mount['name']]}"
    for name in kinds.keys() - used:
        yield f"{pod.where}: volume {name} is not mounted"


def unique_names(pod: Pod) -> Problems:
    names = Counter(container.spec["name"] for container in pod.containers)
    names.update(f"volume {volume['name']}" for volume in pod.spec.get("volumes") or [])
    for container in pod.containers:
        names.update(f"{container.where}, variable {item['name']}" for item in container.spec.get("env") or [])
        names.update(f"{container.where}, port {name}" for name in container.ports)
    for name, count in names.items():
        if count > 1:
            yield f"{pod.where}: {name} occurs {count} times"


POD_RULES = (
    read_only_root,
    no_token,
    no_service_links,
    pinned_images,
    resources,
    mounts,
    unique_names,
)


def limited_volumes(system: System) -> Problems:
    """An emptyDir without a limit could fill the node's disk. Volumes from the user's values are not checked."""
    for pod in system.pods:
        for volume in pod.spec.get("volumes") or []:
            limited = "emptyDir" not in volume or "sizeLimit" in (volume["emptyDir"] or {})
            if not limited and volume["name"] not in system.given:
                yield f"{pod.where}: volume {volume['name']} may fill the node: emptyDir has no sizeLimit"


def named_and_labelled(system: System) -> Problems:
    """Names are valid and unique, and every object is in the release's namespace and has the usual labels."""
    for item, count in Counter(name_of(item) for item in system.objects).items():
        if count > 1:
            yield f"{item} is rendered {count} times"
    for item in system.objects:
        metadata = item["metadata"]
        longest = SHORTER.get(item["kind"], 63)
        if not NAME.fullmatch(metadata["name"]) or len(metadata["name"]) > longest:
            yield f"{name_of(item)}: expected a name of at most {longest} letters, digits and dashes"
        if metadata.get("namespace") != system.namespace:
            yield f"{name_of(item)}: is in the namespace {metadata.get('namespace')}, expected the release's"
        for label in LABELS:
            if not (metadata.get("labels") or {}).get(label):
                yield f"{name_of(item)}: lacks the label {label}"


def check(system: System) -> Problems:
    """Apply every rule to every pod and object."""
    for pod in system.pods:
        for rule in POD_RULES:
            yield from rule(pod)
    yield from limited_volumes(system)
    yield from named_and_labelled(system)
