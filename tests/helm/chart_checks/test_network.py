"""What a NetworkPolicy lets through, by the words of the Kubernetes documentation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helm.chart_checks.network import Peer, enters, leaves, spoken_to
from tests.helm.chart_checks.system import Object, Pod, System, is_selected

SERVER = {"matchLabels": {"app": "server"}}
CLIENT = Peer("Pod/client", {"app": "client"}, "plant")
ABROAD = Peer("Pod/prometheus", {"app": "prometheus"}, "monitoring")
OUTSIDE = Peer("example.org")


def world(**spec: Any) -> tuple[System, Pod]:
    """A server with one policy, and its pod."""
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
        ({"from": [{"podSelector": {}}]}, ABROAD, 8080, False),  # of the same namespace only
        ({"from": [{"namespaceSelector": {}}]}, ABROAD, 8080, True),
        ({"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "x"}}}]}, ABROAD, 8080, False),
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
    system, server = world(ingress=[rule])
    assert enters(system, server, peer, port) is open_to
    assert leaves(system, server, peer, port), "without the type Egress everything may leave"


def test_no_rule_lets_nothing_through_and_no_policy_everything() -> None:
    system, server = world(policyTypes=["Ingress", "Egress"])
    assert not enters(system, server, CLIENT, 8080)
    assert not leaves(system, server, OUTSIDE, 443)
    system, server = world(podSelector={"matchLabels": {"app": "other"}}, policyTypes=["Ingress", "Egress"])
    assert enters(system, server, CLIENT, 8080)
    assert leaves(system, server, OUTSIDE, 443)


def test_addresses_are_found_wherever_they_stand() -> None:
    container = {
        "name": "main",
        "env": [{"name": "A", "value": "kafka-0:9092,10.0.0.7:9092"}, {"name": "B", "value": "0.0.0.0:80"}],
        "command": ["sh", "-c", "curl http://triton:8000/v2 && true"],
        "args": ["--triton=grpc.models.svc:8001", "at 12:30"],
    }
    pod = Pod({"kind": "Pod"}, {}, {}, {"containers": [container]})
    found = {("kafka-0", 9092), ("10.0.0.7", 9092), ("triton", 8000), ("grpc.models.svc", 8001)}
    assert spoken_to(pod) == found


@pytest.mark.parametrize(
    ("operator", "values", "taken"),
    [
        ("In", ["a", "b"], True),
        ("NotIn", ["a"], False),
        ("NotIn", ["b"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ],
)
def test_expressions_of_a_selector(operator: str, values: list[str], taken: bool) -> None:
    rule = {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}
    assert is_selected({"app": "a"}, rule) is taken
