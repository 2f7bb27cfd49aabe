"""The connections that a NetworkPolicy allows, according to the Kubernetes documentation."""

from typing import Any

import pytest

from tests.helm.chart_checks.network import Peer, configured_addresses, egress_allowed, ingress_allowed
from tests.helm.chart_checks.system import Object, Pod, System, is_selected

SERVER = {"matchLabels": {"app": "server"}}
CLIENT = Peer("Pod/client", {"app": "client"}, "plant")
OTHER_NAMESPACE = Peer("Pod/prometheus", {"app": "prometheus"}, "monitoring")
OUTSIDE = Peer("example.org")


def server_with_policy(**spec: Any) -> tuple[System, Pod]:
    """A system with a server and one policy, and the server's pod."""
    container = {"name": "main", "ports": [{"name": "http", "containerPort": 8080}]}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "server", "labels": {"app": "server"}},
        "spec": {"containers": [container]},
    }
    policy = {"kind": "NetworkPolicy", "metadata": {"name": "p"}, "spec": {"podSelector": SERVER, **spec}}
    system = System([pod, policy], {}, "plant")
    return system, system.pods[0]


@pytest.mark.parametrize(
    ("rule", "peer", "port", "open_to"),
    [
        ({}, CLIENT, 8080, True),
        ({"from": [{"podSelector": {}}]}, CLIENT, 8080, True),
        (
            {"from": [{"podSelector": {}}]},
            OTHER_NAMESPACE,
            8080,
            False,
        ),  # without a namespaceSelector, only the same namespace
        ({"from": [{"namespaceSelector": {}}]}, OTHER_NAMESPACE, 8080, True),
        (
            {"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "x"}}}]},
            OTHER_NAMESPACE,
            8080,
            False,
        ),
        (
            {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]},
            CLIENT,
            8080,
            False,
        ),
        ({"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}, CLIENT, 8080, False),
        ({"ports": [{"port": "http"}]}, CLIENT, 8080, True),
        ({"ports": [{"port": 8000, "endPort": 8100}]}, CLIENT, 8080, True),
        ({"ports": [{"port": 8000}]}, CLIENT, 8080, False),
        ({"ports": [{"port": 8080, "protocol": "UDP"}]}, CLIENT, 8080, False),
    ],
)
def test_ingress(rule: Object, peer: Peer, port: int, open_to: bool) -> None:
    system, server = server_with_policy(ingress=[rule])
    assert ingress_allowed(system, server, peer, port) is open_to
    assert egress_allowed(system, server, peer, port), "without policyType Egress, all egress is allowed"


def test_no_rule_allows_nothing_and_no_policy_allows_everything() -> None:
    system, server = server_with_policy(policyTypes=["Ingress", "Egress"])
    assert not ingress_allowed(system, server, CLIENT, 8080)
    assert not egress_allowed(system, server, OUTSIDE, 443)
    system, server = server_with_policy(
        podSelector={"matchLabels": {"app": "other"}}, policyTypes=["Ingress", "Egress"]
    )
    assert ingress_allowed(system, server, CLIENT, 8080)
    assert egress_allowed(system, server, OUTSIDE, 443)


def test_addresses_are_found_in_variables_commands_and_arguments() -> None:
    container = {
        "name": "main",
        "env": [{"name": "A", "value": "kafka-0:9092,10.0.0.7:9092"}, {"name": "B", "value": "0.0.0.0:80"}],
        "command": ["sh", "-c", "curl http://triton:8000/v2 && true"],
        "args": ["--triton=grpc.models.svc:8001", "at 12:30"],
    }
    pod = Pod({"kind": "Pod"}, {}, {}, {"containers": [container]})
    found = {("kafka-0", 9092), ("10.0.0.7", 9092), ("triton", 8000), ("grpc.models.svc", 8001)}
    assert configured_addresses(pod) == found


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [
        ("In", ["a", "b"], True),
        ("NotIn", ["a"], False),
        ("NotIn", ["b"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ],
)
def test_selector_expressions(operator: str, values: list[str], matches: bool) -> None:
    rule = {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}
    assert is_selected({"app": "a"}, rule) is matches
