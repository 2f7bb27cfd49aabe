"""Probes ask ports that are open, and their arithmetic holds: a slow start is no failure, a short outage no restart."""

from __future__ import annotations

from collections.abc import Iterator

from tests.helm.chart_checks.system import Container, Object, Pod, System, inside

Problems = Iterator[str]

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
# Followers of an object store: nothing is routed to them, and while one fails what is there is served. A probe could
# only take the server beside it out of service.
WITHOUT_PROBES = {"follow-models"}
LEAST_STARTUP_S = 60  # pulling is not in it, importing and reading models is
LEAST_LIVENESS_S = 30  # a process that pauses for less is not dead


def window_s(probe: Object) -> int:
    """How long a probe may fail before it counts: `failureThreshold` times `periodSeconds`, by Kubernetes' defaults."""
    return int(probe.get("failureThreshold", 3)) * int(probe.get("periodSeconds", 10))


def check(system: System) -> Problems:
    for pod in system.pods:
        for container in pod.containers:
            yield from ports(pod, container)
            asked = container.spec["name"] not in WITHOUT_PROBES
            if pod.runs_for_ever and container.kind == "containers" and asked:
                yield from arithmetic(container)
        yield from stopping(pod)


def ports(pod: Pod, container: Container) -> Problems:
    for name in PROBES:
        probe = container.spec.get(name) or {}
        for kind in ("httpGet", "tcpSocket", "grpc"):
            port = inside(probe, kind).get("port")
            if port is not None and port not in container.ports and port not in container.ports.values():
                yield f"{container.where}: {name} asks the port {port}, which is not open in it"


def arithmetic(container: Container) -> Problems:
    missing = [name for name in PROBES if not container.spec.get(name)]
    if missing:
        yield f"{container.where}: has no {', '.join(missing)}"
        return
    startup, liveness, readiness = (container.spec[name] for name in PROBES)
    if window_s(startup) < LEAST_STARTUP_S:
        yield f"{container.where}: has {window_s(startup)} s to start, expected {LEAST_STARTUP_S} at least"
    if window_s(liveness) < LEAST_LIVENESS_S:
        yield f"{container.where}: is restarted after {window_s(liveness)} s, expected {LEAST_LIVENESS_S} at least"
    if window_s(liveness) <= window_s(readiness):
        yield (
            f"{container.where}: is restarted after {window_s(liveness)} s, but not taken out before "
            f"{window_s(readiness)} s: liveness must be slower than readiness"
        )
    for name in PROBES:
        probe = container.spec[name]
        if int(probe.get("timeoutSeconds", 1)) > int(probe.get("periodSeconds", 10)):
            yield f"{container.where}: {name} waits longer for an answer than until the next question"


def stopping(pod: Pod) -> Problems:
    """A preStop hook's sleep is part of the grace period; what is left is for the process itself."""
    grace_s = pod.spec.get("terminationGracePeriodSeconds", 30)
    if pod.runs_for_ever and grace_s < 30:
        yield f"{pod.where}: has {grace_s} s to stop, expected 30 at least"
    for container in pod.containers:
        hook = inside(container.spec, "lifecycle", "preStop")
        slept_s = inside(hook, "sleep").get("seconds", 0)
        match inside(hook, "exec").get("command"):
            case ["sleep", seconds]:
                slept_s = int(seconds)
        if slept_s >= grace_s:
            yield f"{container.where}: sleeps {slept_s} s of the {grace_s} s that it has to stop"
