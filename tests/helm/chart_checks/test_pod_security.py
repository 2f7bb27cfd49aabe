"""Each rule of the Pod Security Standard reports violations in the pod and in every kind of container."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.helm.chart_checks import pod_security as rules
from tests.helm.chart_checks.damage import Damaged, put

if TYPE_CHECKING:
    from tests.helm.chart_checks.system import Pod, System

pytestmark = pytest.mark.timeout(1800)

CONTEXT = "containers.0.securityContext"
BROKEN: list[tuple[Callable[[Pod], Iterator[str]], str, Any, str]] = [
    (rules.host_process, "securityContext.windowsOptions", {"hostProcess": True}, "hostProcess"),
    (rules.host_process, f"{CONTEXT}.windowsOptions", {"hostProcess": True}, "hostProcess"),
    (rules.host_namespaces, "hostNetwork", True, "hostNetwork"),
    (rules.host_namespaces, "hostPID", True, "hostPID"),
    (rules.host_namespaces, "hostIPC", True, "hostIPC"),
    (rules.privileged_containers, f"{CONTEXT}.privileged", True, "privileged"),
    (rules.host_ports, "containers.0.ports.0.hostPort", 80, "hostPort 80"),
    (
        rules.host_probes,
        "containers.0.livenessProbe.httpGet",
        {"host": "10.0.0.1"},
        "livenessProbe.httpGet",
    ),
    (rules.host_probes, "containers.0.lifecycle", {"preStop": {"tcpSocket": {"host": "x", "port": 1}}}, "preStop"),
    (rules.app_armor, f"{CONTEXT}.appArmorProfile", {"type": "Unconfined"}, "Unconfined"),
    (rules.selinux, "securityContext.seLinuxOptions", {"type": "spc_t"}, "spc_t"),
    (rules.selinux, f"{CONTEXT}.seLinuxOptions", {"role": "system_r"}, "role"),
    (rules.proc_mount, f"{CONTEXT}.procMount", "Unmasked", "Unmasked"),
    (rules.sysctls, "securityContext.sysctls", [{"name": "kernel.msgmax", "value": "1"}], "kernel.msgmax"),
    (rules.volume_types, "volumes.0", {"name": "tmp", "hostPath": {"path": "/"}}, "hostPath"),
    (rules.privilege_escalation, f"{CONTEXT}.allowPrivilegeEscalation", None, "allowPrivilegeEscalation"),
    (rules.privilege_escalation, f"{CONTEXT}.allowPrivilegeEscalation", True, "allowPrivilegeEscalation"),
    (rules.running_as_non_root, "securityContext.runAsNonRoot", None, "runAsNonRoot"),
    (rules.running_as_non_root, f"{CONTEXT}.runAsNonRoot", False, "runAsNonRoot"),
    (rules.running_as_non_root_user, "securityContext.runAsUser", 0, "runAsUser"),
    (rules.running_as_non_root_user, f"{CONTEXT}.runAsUser", 0, "runAsUser"),
    (rules.seccomp, "securityContext.seccompProfile", None, "seccompProfile"),
    (rules.seccomp, f"{CONTEXT}.seccompProfile", {"type": "Unconfined"}, "Unconfined"),
    (rules.capabilities, f"{CONTEXT}.capabilities.drop", ["NET_RAW"], "drop ALL"),
    (rules.capabilities, f"{CONTEXT}.capabilities.add", ["SYS_ADMIN"], "SYS_ADMIN"),
]


@pytest.mark.parametrize(("rule", "path", "value", "message"), BROKEN, ids=lambda part: getattr(part, "__name__", None))
def test_violation_is_reported(
    full: System, rule: Callable[[Pod], Iterator[str]], path: str, value: Any, message: str
) -> None:
    damaged = Damaged(full)
    put(damaged.pod("StatefulSet", "worker"), path, value)
    pod = next(pod for pod in damaged.system.pods if pod.owner["kind"] == "StatefulSet")
    assert any(message in problem for problem in rule(pod))
    assert any(message in problem for problem in rules.check(damaged.system))


def test_every_rule_has_a_violation() -> None:
    assert {rule for rule, *_ in BROKEN} == set(rules.RULES)


def test_old_annotation_of_app_armor_is_reported(full: System) -> None:
    damaged = Damaged(full)
    name = "container.apparmor.security.beta.kubernetes.io/worker"
    damaged.one("StatefulSet")["spec"]["template"]["metadata"]["annotations"][name] = "unconfined"
    assert any(name in problem for problem in rules.check(damaged.system))


@pytest.mark.parametrize("kind", ["initContainers", "ephemeralContainers"])
def test_init_and_ephemeral_containers_are_checked(full: System, kind: str) -> None:
    damaged = Damaged(full)
    damaged.pod("StatefulSet", "worker")[kind] = [{"name": "beside", "image": "busybox:1"}]
    problems = [problem for problem in rules.check(damaged.system) if "beside" in problem]
    assert {"allowPrivilegeEscalation", "capabilities"} <= {problem.split(": ")[1].split()[0] for problem in problems}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "CronJob", "Pod"])
def test_pods_of_every_kind_are_checked(full: System, kind: str) -> None:
    damaged = Damaged(full)
    damaged.pod(kind)["hostNetwork"] = True
    assert len(list(rules.check(damaged.system))) == 1
