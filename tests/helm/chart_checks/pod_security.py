"""The rules of the Pod Security Standard `restricted`, applied to every pod of the chart.

Source: "Pod Security Standards" in the Kubernetes documentation (concepts/security), baseline and restricted, for Linux
pods. The function names are its headings. Where both profiles restrict a field, only the stricter rule is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.helm.chart_checks.system import Object, Pod, System, inside

Problems = Iterator[str]

VOLUME_TYPES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
}
SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
PROFILES = {"RuntimeDefault", "Localhost"}
HOOKS = ("startupProbe", "livenessProbe", "readinessProbe", "lifecycle")


def host_process(pod: Pod) -> Problems:
    for where, context in contexts(pod):
        if inside(context, "windowsOptions").get("hostProcess"):
            yield f"{where}: hostProcess is set"


def host_namespaces(pod: Pod) -> Problems:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(name):
            yield f"{pod.where}: {name} is set"


def privileged_containers(pod: Pod) -> Problems:
    for container in pod.containers:
        if inside(container.spec, "securityContext").get("privileged"):
            yield f"{container.where}: privileged"


def host_ports(pod: Pod) -> Problems:
    for container in pod.containers:
        for port in container.spec.get("ports") or []:
            if port.get("hostPort"):
                yield f"{container.where}: hostPort {port['hostPort']}"


def host_probes(pod: Pod) -> Problems:
    for container in pod.containers:
        for where, host in _hosts({name: container.spec.get(name) for name in HOOKS}):
            yield f"{container.where}: {where} names the host {host}"


def _hosts(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Every non-empty `host` of an httpGet or tcpSocket in a probe or a lifecycle hook."""
    for name, inner in (value or {}).items() if isinstance(value, dict) else ():
        if name in ("httpGet", "tcpSocket") and inner and inner.get("host"):
            yield f"{where}{name}", inner["host"]
        yield from _hosts(inner, f"{where}{name}.")


def app_armor(pod: Pod) -> Problems:
    for where, context in contexts(pod):
        kind = inside(context, "appArmorProfile").get("type")
        if kind not in (None, *PROFILES):
            yield f"{where}: appArmorProfile {kind}"
    for name, profile in pod.annotations.items():
        allowed = profile == "runtime/default" or str(profile).startswith("localhost/")
        if name.startswith("container.apparmor.security.beta.kubernetes.io/") and not allowed:
            yield f"{pod.where}: annotation {name} is {profile}"


def selinux(pod: Pod) -> Problems:
    for where, context in contexts(pod):
        options = inside(context, "seLinuxOptions")
        if options.get("type", "") not in SELINUX_TYPES:
            yield f"{where}: seLinuxOptions.type {options['type']}"
        for name in ("user", "role"):
            if options.get(name):
                yield f"{where}: seLinuxOptions.{name} is set"


def proc_mount(pod: Pod) -> Problems:
    for container in pod.containers:
        mount = inside(container.spec, "securityContext").get("procMount")
        if mount not in (None, "Default"):
            yield f"{container.where}: procMount {mount}"


def sysctls(pod: Pod) -> Problems:
    for entry in inside(pod.spec, "securityContext").get("sysctls") or []:
        if entry["name"] not in SAFE_SYSCTLS:
            yield f"{pod.where}: sysctl {entry['name']}"


def volume_types(pod: Pod) -> Problems:
    for volume in pod.spec.get("volumes") or []:
        for kind in set(volume) - {"name"} - VOLUME_TYPES:
            yield f"{pod.where}: volume {volume['name']} is a {kind}"


def privilege_escalation(pod: Pod) -> Problems:
    for container in pod.containers:
        if inside(container.spec, "securityContext").get("allowPrivilegeEscalation") is not False:
            yield f"{container.where}: allowPrivilegeEscalation must be false"


def running_as_non_root(pod: Pod) -> Problems:
    of_pod = inside(pod.spec, "securityContext").get("runAsNonRoot")
    if of_pod is False:
        yield f"{pod.where}: runAsNonRoot is false"
    for container in pod.containers:
        if inside(container.spec, "securityContext").get("runAsNonRoot", of_pod) is not True:
            yield f"{container.where}: runAsNonRoot must be true, here or in the pod"


def running_as_non_root_user(pod: Pod) -> Problems:
    for where, context in contexts(pod):
        if context.get("runAsUser") == 0:
            yield f"{where}: runAsUser is 0"


def seccomp(pod: Pod) -> Problems:
    of_pod = inside(pod.spec, "securityContext", "seccompProfile").get("type")
    if of_pod not in (None, *PROFILES):
        yield f"{pod.where}: seccompProfile {of_pod}"
    for container in pod.containers:
        kind = inside(container.spec, "securityContext", "seccompProfile").get("type", of_pod)
        if kind not in PROFILES:
            yield f"{container.where}: seccompProfile must be RuntimeDefault or Localhost, found {kind}"


def capabilities(pod: Pod) -> Problems:
    for container in pod.containers:
        held = inside(container.spec, "securityContext", "capabilities")
        if "ALL" not in (held.get("drop") or []):
            yield f"{container.where}: capabilities must drop ALL"
        for added in set(held.get("add") or []) - {"NET_BIND_SERVICE"}:
            yield f"{container.where}: adds the capability {added}"


def contexts(pod: Pod) -> Iterator[tuple[str, Object]]:
    """The security contexts of the pod and of each of its containers."""
    yield pod.where, inside(pod.spec, "securityContext")
    for container in pod.containers:
        yield container.where, inside(container.spec, "securityContext")


RULES = (
    host_process,
    host_namespaces,
    privileged_containers,
    host_ports,
    host_probes,
    app_armor,
    selinux,
    proc_mount,
    sysctls,
    volume_types,
    privilege_escalation,
    running_as_non_root,
    running_as_non_root_user,
    seccomp,
    capabilities,
)


def check(system: System) -> Problems:
    """Apply every rule to every pod."""
    for pod in system.pods:
        for rule in RULES:
            yield from rule(pod)
