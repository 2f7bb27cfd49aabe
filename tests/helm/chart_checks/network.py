"""NetworkPolicies allow every necessary connection and no connection from foreign pods.

The necessary connections follow from the pods: every address in their variables and arguments, DNS if their egress is
restricted, and the ports named metrics. Policies are evaluated as in the Kubernetes documentation: if policies for a
direction select a pod, only connections that one of their rules allows are possible; otherwise all are.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.helm.chart_checks.system import Object, Pod, System, inside, is_selected, name_of

Problems = Iterator[str]

# host:port, also within a URL, a list or an option: kafka-0:9092,kafka-1:9092 --triton=demo-triton:8001 http://x:8000/v2
ADDRESS = re.compile(r"""(?:^|[/,=\s"'])((?!\d+:)[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?):(\d{1,5})(?=$|[/,\s"'])""")
LOCALHOST = {"localhost", "127.0.0.1", "0.0.0.0"}


@dataclass(frozen=True)
class Peer:
    """The other end of a connection: a pod, or, without a namespace, an address outside the cluster."""

    name: str
    labels: Object = field(default_factory=dict)
    namespace: str | None = None


def check(system: System) -> Problems:
    policies = system.of_kind("NetworkPolicy")
    if not policies:
        return  # disabled by networkPolicy.enabled
    for policy in policies:
        if not system.selected(policy["spec"].get("podSelector") or {}):
            yield f"{name_of(policy)}: selects no pod"
    for pod in system.pods:
        if not any(_selects(policy, pod.labels) for policy in policies):
            yield f"{pod.where}: no NetworkPolicy selects it"
        yield from addresses(system, pod)
        yield from name_lookup(system, pod)
    yield from scraping(system)
    yield from foreign_pods(system)


def addresses(system: System, pod: Pod) -> Problems:
    """Policies allow the connections to every address that a pod is configured with, at both ends."""
    for host, port in sorted(configured_addresses(pod)):
        service = system.find("Service", host.split(".")[0])
        if service is None:
            if not egress_allowed(system, pod, Peer(host), port):
                yield f"{pod.where}: is configured with {host}:{port}, but no policy allows this egress"
            continue
        for target, number in _behind(system, service, port):
            peer = Peer(target.where, target.labels, system.namespace)
            if not egress_allowed(system, pod, peer, number):
                yield f"{pod.where}: is configured with {host}:{port}, but no policy allows egress to {target.where}"
            if not ingress_allowed(system, target, Peer(pod.where, pod.labels, system.namespace), number):
                yield f"{target.where}: does not admit {pod.where}, which is configured with {host}:{port}"


def name_lookup(system: System, pod: Pod) -> Problems:
    """A pod with restricted egress can query the cluster's DNS by UDP and, for long responses, by TCP.

    This does not apply to a pod that may not connect to anything and so has no name to resolve.
    """
    if not any(
        policy["spec"].get("egress") for policy in _policies(system, pod, "Egress")
    ) and not configured_addresses(pod):
        return
    dns = Peer("the cluster's DNS", {"k8s-app": "kube-dns"}, "kube-system")
    for protocol in ("UDP", "TCP"):
        if not egress_allowed(system, pod, dns, 53, protocol):
            yield f"{pod.where}: may not query the cluster's DNS by {protocol}"


def scraping(system: System) -> Problems:
    """Every port named metrics can be reached from outside the release."""
    for pod in system.pods:
        number = pod.port("metrics") if pod.is_long_running else None
        if number is None:
            continue
        rules = [rule for policy in _policies(system, pod, "Ingress") for rule in policy["spec"].get("ingress") or []]
        matching = [rule for rule in rules if _port_matches(rule.get("ports"), number, "TCP", pod)]
        foreign = [
            rule
            for rule in matching
            if not rule.get("from")
            or any(
                "namespaceSelector" in peer or "ipBlock" in peer or not _within_release(system, peer)
                for peer in rule["from"]
            )
        ]
        if _policies(system, pod, "Ingress") and not foreign:
            yield f"{pod.where}: no policy allows a Prometheus to scrape its metrics"


def foreign_pods(system: System) -> Problems:
    """A pod of another application cannot connect to any port, wherever it runs; only a Prometheus may scrape."""
    for namespace in (system.namespace, "monitoring", "default"):
        foreign = Peer("a foreign pod", {"app": "foreign"}, namespace)
        for pod in system.pods:
            for container in pod.containers:
                for name, number in container.ports.items():
                    if ingress_allowed(system, pod, foreign, number):
                        yield f"{container.where}: a foreign pod of namespace {namespace} can connect to port {name}"


def configured_addresses(pod: Pod) -> set[tuple[str, int]]:
    """(host, port) of every address in the pod's variables, commands and arguments."""
    texts: list[str] = []
    for container in pod.containers:
        texts += [str(item["value"]) for item in container.spec.get("env") or [] if "value" in item]
        texts += [str(text) for name in ("command", "args") for text in container.spec.get(name) or []]
    found = {(host, int(port)) for text in texts for host, port in ADDRESS.findall(text)}
    return {(host, port) for host, port in found if host not in LOCALHOST}


def egress_allowed(system: System, pod: Pod, peer: Peer, port: int, protocol: str = "TCP") -> bool:
    """Whether the policies allow a connection from this pod."""
    policies = _policies(system, pod, "Egress")
    # A named port in an egress rule is a port of the other pod.
    target = next((one for one in system.pods if one.where == peer.name), None)
    rules = [rule for policy in policies for rule in policy["spec"].get("egress") or []]
    return not policies or any(
        _port_matches(rule.get("ports"), port, protocol, target) and _peer_matches(system, rule.get("to"), peer)
        for rule in rules
    )


def ingress_allowed(system: System, pod: Pod, peer: Peer, port: int, protocol: str = "TCP") -> bool:
    """Whether the policies allow a connection to this pod."""
    policies = _policies(system, pod, "Ingress")
    rules = [rule for policy in policies for rule in policy["spec"].get("ingress") or []]
    return not policies or any(
        _port_matches(rule.get("ports"), port, protocol, pod) and _peer_matches(system, rule.get("from"), peer)
        for rule in rules
    )


def _behind(system: System, service: Object, port: int) -> Iterator[tuple[Pod, int]]:
    """The pods behind a port of a Service, each with the number of its container port."""
    for entry in service["spec"]["ports"]:
        if entry["port"] == port:
            for pod in system.selected({"matchLabels": service["spec"]["selector"]}):
                number = pod.port(entry.get("targetPort", port))
                if number is not None:
                    yield pod, number


def _selects(policy: Object, labels: Object) -> bool:
    return is_selected(labels, policy["spec"].get("podSelector") or {})


def _policies(system: System, pod: Pod, direction: str) -> list[Object]:
    found = []
    for policy in system.of_kind("NetworkPolicy"):
        default = ["Ingress", "Egress"] if policy["spec"].get("egress") else ["Ingress"]
        if direction in (policy["spec"].get("policyTypes") or default) and _selects(policy, pod.labels):
            found.append(policy)
    return found


def _port_matches(ports: list[Object] | None, number: int, protocol: str, target: Pod | None) -> bool:
    if not ports:
        return True
    for entry in ports:
        if entry.get("protocol", "TCP") != protocol:
            continue
        wanted = entry.get("port")
        if wanted is None or wanted == number:
            return True
        if isinstance(wanted, int) and wanted <= number <= entry.get("endPort", wanted):
            return True
        if isinstance(wanted, str) and target is not None and target.port(wanted) == number:
            return True
    return False


def _peer_matches(system: System, peers: list[Object] | None, peer: Peer) -> bool:
    return not peers or any(_is_peer(system, entry, peer) for entry in peers)


def _is_peer(system: System, entry: Object, peer: Peer) -> bool:
    if "ipBlock" in entry:
        return peer.namespace is None  # the addresses are not checked: only the user knows them
    if peer.namespace is None:
        return False
    if "namespaceSelector" in entry:
        if not is_selected({"kubernetes.io/metadata.name": peer.namespace}, entry["namespaceSelector"] or {}):
            return False
    elif peer.namespace != system.namespace:
        return False
    return is_selected(peer.labels, entry.get("podSelector") or {})


def _within_release(system: System, entry: Object) -> bool:
    """Whether a peer of a rule matches pods of this release only."""
    return bool(inside(entry, "podSelector")) and bool(system.selected(entry["podSelector"]))
