"""Probes use open ports, and their thresholds tolerate a slow start and a short outage."""

from collections.abc import Iterator

from tests.helm.chart_checks.system import Container, Object, Pod, System, inside

Problems = Iterator[str]

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
# Containers that follow an object store receive no traffic, and while they fail the present models are served. A
# failing probe would only take the server in the same pod out of service.
WITHOUT_PROBES = {"follow-models"}
MIN_STARTUP_S = 60  # covers imports and loading models, but not pulling the image
MIN_LIVENESS_S = 30  # a shorter pause does not mean that the process is dead


def window_s(probe: Object) -> int:
    """Time for which a probe may fail: `failureThreshold` times `periodSeconds`, with the defaults of Kubernetes."""
    return int(probe.get("failureThreshold", 3)) * int(probe.get("periodSeconds", 10))


def check(system: System) -> Problems:
    for pod in system.pods:
        for container in pod.containers:
            yield from ports(pod, container)
            needs_probes = container.spec["name"] not in WITHOUT_PROBES
            if pod.is_long_running and container.kind == "containers" and needs_probes:
                yield from arithmetic(container)
        yield from stopping(pod)


def ports(pod: Pod, container: Container) -> Problems:
    for name in PROBES:
        probe = container.spec.get(name) or {}
        for kind in ("httpGet", "tcpSocket", "grpc"):
            port = inside(probe, kind).get("port")
            if port is not None and port not in container.ports and port not in container.ports.values():
                yield f"{container.where}: {name} uses the port {port}, which is not open in it"


def arithmetic(container: Container) -> Problems:
    missing = [name for name in PROBES if not container.spec.get(name)]
    if missing:
        yield f"{container.where}: has no {', '.join(missing)}"
        return
    startup, liveness, readiness = (container.spec[name] for name in PROBES)
    if window_s(startup) < MIN_STARTUP_S:
        yield f"{container.where}: has {window_s(startup)} s to start, expected at least {MIN_STARTUP_S}"
    if window_s(liveness) < MIN_LIVENESS_S:
        yield f"{container.where}: is restarted after {window_s(liveness)} s, expected at least {MIN_LIVENESS_S}"
    if window_s(liveness) <= window_s(readiness):
        yield (
            f"{container.where}: is restarted after {window_s(liveness)} s, but becomes unready only after "
            f"{window_s(readiness)} s: liveness must be slower than readiness"
        )
    for name in PROBES:
        probe = container.spec[name]
        if int(probe.get("timeoutSeconds", 1)) > int(probe.get("periodSeconds", 10)):
            yield f"{container.where}: {name} has a timeout longer than its period"


def stopping(pod: Pod) -> Problems:
    """The sleep of a preStop hook is part of the grace period; the process has the rest."""
    grace_s = pod.spec.get("terminationGracePeriodSeconds", 30)
    if pod.is_long_running and grace_s < 30:
        yield f"{pod.where}: has {grace_s} s to stop, expected at least 30"
    for container in pod.containers:
        hook = inside(container.spec, "lifecycle", "preStop")
        slept_s = inside(hook, "sleep").get("seconds", 0)
        match inside(hook, "exec").get("command"):
            case ["sleep", seconds]:
                slept_s = int(seconds)
        if slept_s >= grace_s:
            yield f"{container.where}: sleeps {slept_s} s of the {grace_s} s grace period"
