"""References must refer to existing objects: selectors, ports, targets, Secrets, ConfigMaps, claims."""

from collections.abc import Iterator

from tests.helm.chart_checks.system import Object, Pod, System, inside, is_selected, name_of

Problems = Iterator[str]

WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet")


def check(system: System) -> Problems:
    """Apply every rule below to the whole system."""
    for rule in (workloads, services, budgets, autoscalers, monitors, configuration, accounts, used):
        yield from rule(system)


def workloads(system: System) -> Problems:
    """A workload selects and spreads exactly its own pods, and a StatefulSet has its Service."""
    for item in system.of_kind(*WORKLOADS):
        selector = item["spec"]["selector"]
        owners = [pod.owner for pod in system.selected(selector)]
        if owners != [item]:
            yield f"{name_of(item)}: selects the pods of {_names(owners)}, expected its own"
    for pod in system.pods:
        for constraint in pod.spec.get("topologySpreadConstraints") or []:
            if not is_selected(pod.labels, constraint.get("labelSelector") or {"matchLabels": {"": "nothing"}}):
                yield f"{pod.where}: spreads over {constraint['topologyKey']} by labels that it does not have"
    for item in system.of_kind("StatefulSet"):
        service = system.find("Service", item["spec"]["serviceName"])
        if service is None:
            yield f"{name_of(item)}: names the Service {item['spec']['serviceName']}, which does not exist"
        elif service["spec"].get("clusterIP") != "None" or not is_selected(
            inside(item, "spec", "template", "metadata", "labels"), {"matchLabels": service["spec"]["selector"]}
        ):
            yield f"{name_of(item)}: {name_of(service)} must be headless and select its pods"


def services(system: System) -> Problems:
    """A Service selects the pods of one workload, which open its target ports."""
    for item in system.of_kind("Service"):
        pods = system.selected({"matchLabels": item["spec"].get("selector") or {"": "nothing"}})
        if len(pods) != 1:
            yield f"{name_of(item)}: selects the pods of {_names([pod.owner for pod in pods])}, expected one workload"
        for port in item["spec"]["ports"]:
            target = port.get("targetPort", port["port"])
            for pod in pods:
                if pod.port(target) is None:
                    yield f"{name_of(item)}: has the target port {target}, which {pod.where} does not open"


def budgets(system: System) -> Problems:
    """A disruption budget covers one workload and does not block every drain."""
    for item in system.of_kind("PodDisruptionBudget"):
        spec = item["spec"]
        owners = [pod.owner for pod in system.selected(spec["selector"])]
        if len(owners) != 1 or owners[0]["kind"] not in WORKLOADS:
            yield f"{name_of(item)}: covers the pods of {_names(owners)}, expected one workload"
        if ("maxUnavailable" in spec) == ("minAvailable" in spec):
            yield f"{name_of(item)}: expected one of maxUnavailable and minAvailable"
        if spec.get("maxUnavailable") in (0, "0", "0%") or spec.get("minAvailable") == "100%":
            yield f"{name_of(item)}: allows no eviction, so a node with one of its pods can never be drained"


def autoscalers(system: System) -> Problems:
    """An autoscaler refers to an existing workload whose manifest does not set the number of replicas."""
    for item in system.of_kind("HorizontalPodAutoscaler", "ScaledObject"):
        target = item["spec"]["scaleTargetRef"]
        kind = target.get("kind", "Deployment")
        workload = system.find(kind, target["name"])
        if workload is None:
            yield f"{name_of(item)}: scales {kind}/{target['name']}, which does not exist"
        elif "replicas" in workload["spec"]:
            yield f"{name_of(item)}: every upgrade resets {name_of(workload)} to {workload['spec']['replicas']}"
        least = item["spec"].get("minReplicaCount", item["spec"].get("minReplicas", 1))
        most = item["spec"].get("maxReplicaCount", item["spec"].get("maxReplicas", 100))
        if least > most:
            yield f"{name_of(item)}: the minimum {least} is above the maximum {most}"
        for trigger in item["spec"].get("triggers") or []:
            if trigger["type"] == "kafka" and workload is not None:
                yield from _same_topic(item, trigger["metadata"], workload)
            login = inside(trigger, "authenticationRef")
            if login and system.find(login.get("kind", "TriggerAuthentication"), login["name"]) is None:
                yield f"{name_of(item)}: uses {login['name']}, which does not exist"
    for item in system.of_kind("TriggerAuthentication"):
        for reference in item["spec"].get("secretTargetRef") or []:
            yield from _exists(system, name_of(item), "Secret", reference["name"], reference.get("key"))


# Parameter of KEDA's Kafka scaler -> variable of the worker with the same value.
KEDA_PARAMETERS = {
    "bootstrapServers": "GLAIM_KAFKA",
    "consumerGroup": "GLAIM_CONSUMER_GROUP",
    "topic": "GLAIM_INPUT_TOPIC",
}


def _same_topic(item: Object, metadata: Object, workload: Object) -> Problems:
    """The autoscaler measures the lag of the workers that it scales."""
    container = inside(workload, "spec", "template", "spec")["containers"][0]
    variables = {variable["name"]: variable.get("value") for variable in container.get("env") or []}
    for name, variable in KEDA_PARAMETERS.items():
        if metadata.get(name) != variables.get(variable):
            yield f"{name_of(item)}: uses {name} {metadata.get(name)}, the workers use {variables.get(variable)}"


def monitors(system: System) -> Problems:
    """A monitor selects pods or Services that have the ports it names."""
    for item in system.of_kind("PodMonitor"):
        pods = system.selected(item["spec"]["selector"])
        if not pods:
            yield f"{name_of(item)}: selects no pod"
        for endpoint in item["spec"]["podMetricsEndpoints"]:
            for pod in pods:
                if not any(endpoint["port"] in container.ports for container in pod.containers):
                    yield f"{name_of(item)}: uses the port {endpoint['port']}, which {pod.where} does not have"
    for item in system.of_kind("ServiceMonitor"):
        selector = item["spec"]["selector"]
        found = [one for one in system.of_kind("Service") if is_selected(one["metadata"]["labels"], selector)]
        if not found:
            yield f"{name_of(item)}: selects no Service"
        for endpoint in item["spec"]["endpoints"]:
            for service in found:
                if endpoint["port"] not in {port.get("name") for port in service["spec"]["ports"]}:
                    yield f"{name_of(item)}: uses the port {endpoint['port']}, which {name_of(service)} does not have"


def configuration(system: System) -> Problems:
    """ConfigMaps, Secrets and claims are created by the chart, or named in the values as existing ones."""
    for pod in system.pods:
        for volume in pod.spec.get("volumes") or []:
            yield from _volume(system, pod, volume)
        for container in pod.containers:
            for variable in container.spec.get("env") or []:
                for source, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
                    named = inside(variable, "valueFrom", source)
                    if named and not named.get("optional"):
                        where = f"{container.where}, variable {variable['name']}"
                        yield from _exists(system, where, kind, named["name"], named["key"])
            for source in container.spec.get("envFrom") or []:
                for name, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                    if source.get(name) and not source[name].get("optional"):
                        yield from _exists(system, container.where, kind, source[name]["name"])
        for secret in pod.spec.get("imagePullSecrets") or []:
            yield from _exists(system, pod.where, "Secret", secret["name"])


def _volume(system: System, pod: Pod, volume: Object) -> Problems:
    where = f"{pod.where}, volume {volume['name']}"
    sources = [volume, *(inside(volume, "projected").get("sources") or [])]
    for source in sources:
        for kind, field, name in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
            given = inside(source, field)
            named = given.get(name, given.get("name"))
            if named and not given.get("optional"):
                keys = [item["key"] for item in given.get("items") or []] or [None]
                for key in keys:
                    yield from _exists(system, where, kind, named, key)
    claim = inside(volume, "persistentVolumeClaim").get("claimName")
    if claim:
        yield from _exists(system, where, "PersistentVolumeClaim", claim)


def _exists(system: System, where: str, kind: str, name: str, key: str | None = None) -> Problems:
    made = system.find(kind, name)
    if made is None:
        if name not in system.given:
            yield f"{where}: needs {kind} {name}, which neither the chart nor the values name"
    elif key is not None and key not in inside(made, "data") and key not in inside(made, "binaryData"):
        yield f"{where}: needs the key {key} of {name_of(made)}, which has {sorted(inside(made, 'data'))}"


def accounts(system: System) -> Problems:
    """Pods use a service account that the chart creates, or that the values name."""
    for pod in system.pods:
        name = pod.spec.get("serviceAccountName")
        if not name:
            yield f"{pod.where}: uses the default service account of the namespace"
        elif system.find("ServiceAccount", name) is None and name not in system.given:
            yield f"{pod.where}: uses the service account {name}, which neither the chart nor the values name"


def used(system: System) -> Problems:
    """Every object is used, except dashboards, which Grafana's sidecar finds by their label."""
    texts = [str(pod.spec) + str(pod.owner.get("spec")) for pod in system.pods]
    for item in system.of_kind("ConfigMap", "PersistentVolumeClaim", "ServiceAccount"):
        name = item["metadata"]["name"]
        dashboard = any("dashboard" in label for label in item["metadata"]["labels"])
        if not dashboard and not any(f"'{name}'" in text for text in texts):
            yield f"{name_of(item)}: is created, but no pod uses it"


def _names(items: list[Object]) -> str:
    return ", ".join(name_of(item) for item in items) or "no workload"
