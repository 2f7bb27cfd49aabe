"""Contradictory or unknown values: helm prints a message and installs nothing."""

import json

import pytest

from deploy.cluster.manifest import Object
from tests.cluster.release import Release

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kafka": {"bootstrapServer": "kafka:9092"}}, "bootstrapServer"),
        ({"kafka": {"sasl": {"enabled": True}}}, "kafka.sasl.existingSecret is required"),
        (
            {"kafka": {"tls": {"existingSecret": "ca"}}},
            "kafka.tls.existingSecret is set but kafka.tls.enabled is false",
        ),
        ({"triton": {"enabled": False}}, "triton.address is required"),
        ({"triton": {"address": "triton:8001"}}, "triton.address"),
        ({"catalogue": {"inline": "models: [{name: x}]", "existingConfigMap": "ours"}}, "but not both"),
        ({"kafka": {"bootstrapServers": ""}}, "kafka.bootstrapServers is required"),
        ({"training": {"enabled": True}}, "training.enabled is true but models.source is image"),
        ({"models": {"source": "objectStore"}}, "models.objectStore.uri is required"),
        ({"worker": {"replicas": 5}}, "kafka.partitions"),
    ],
)
def test_rejected_installation_prints_a_message_and_creates_nothing(
    release: Release, changes: Object, message: str
) -> None:
    before = release.objects()
    assert message in release.rejection(changes)
    assert release.objects() == before


def test_rejected_upgrade_does_not_change_the_release(release: Release) -> None:
    release.install()
    before = {pod["metadata"]["uid"] for pod in release.pods()}
    assert "kafka.sasl.existingSecret is required" in release.rejection(
        {"kafka": {"sasl": {"enabled": True}}}, "upgrade"
    )
    assert {pod["metadata"]["uid"] for pod in release.pods()} == before
    assert json.loads(release.helm("status", "--output", "json").stdout)["version"] == 1
