"""Values that concern every object or every pod of a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.helm.matrix import MATRIX, SMALLEST, merged
from tests.helm.rendered import of_kind, pods

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

VALUES = MATRIX["settings of every object"]
EXTRA_OBJECTS = [
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "{{ .Release.Name }}-of-an-object"},
        "data": {"a": "b"},
    },
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "{{ .Release.Name }}-of-a-text"}\ndata: {a: b}\n',
]


def test_common_labels_are_on_every_object_and_pod_and_in_no_selector(chart: Chart) -> None:
    objects = chart.render(VALUES)
    assert len(objects) > 15
    for each in objects:
        labels = each["metadata"]["labels"]
        assert labels["cost-centre"] == "4711"
        assert labels["app.kubernetes.io/name"] == "glaim-stream", "the labels of the chart take precedence"
    assert "cost-centre" not in str([each["spec"].get("selector") for each in objects if "spec" in each])
    templates = [each["spec"]["template"] for each in objects if each["kind"] in ("StatefulSet", "Deployment")]
    jobs = [each["spec"]["jobTemplate"]["spec"]["template"] for each in objects if each["kind"] == "CronJob"]
    assert len(templates) == 2
    assert len(jobs) == 4
    for each in [*templates, *jobs]:
        assert each["metadata"]["labels"]["cost-centre"] == "4711"
        assert each["metadata"]["labels"]["app.kubernetes.io/name"] == "glaim-stream"


def test_common_annotations_are_on_every_object_beside_its_own(chart: Chart) -> None:
    objects = chart.render(VALUES)
    for each in objects:
        assert each["metadata"]["annotations"]["owner"] == "plant@example.org"
    tests = [each for each in objects if each["kind"] == "Pod"]
    assert len(tests) == 2
    for each in tests:
        policy = each["metadata"]["annotations"]["helm.sh/hook-output-log-policy"]
        assert policy == "hook-succeeded,hook-failed", "the annotations of the chart take precedence"


def test_every_pod_has_the_settings_of_its_network_and_its_placement(chart: Chart) -> None:
    placed = merged(VALUES, {
        part: {"priorityClassName": "plant", "nodeSelector": {"pool": part}, "affinity": {"nodeAffinity": {}}}
        for part in ("worker", "triton", "training")
    })  # fmt: skip
    found = pods(chart.render(placed))
    assert len(found) == 8  # worker, Triton, four CronJobs and two tests
    for template in found.values():
        spec = template["spec"]
        assert spec["hostAliases"] == VALUES["hostAliases"]
        assert spec["dnsPolicy"] == "None"
        assert spec["dnsConfig"] == VALUES["dnsConfig"]
        assert spec["priorityClassName"] == "plant"
        assert spec["affinity"] == {"nodeAffinity": {}}
        assert set(spec["nodeSelector"]) == {"pool"}
        assert spec["automountServiceAccountToken"] is False


def test_extra_objects_are_rendered_as_templates(chart: Chart) -> None:
    objects = chart.render(merged(SMALLEST, {"extraObjects": EXTRA_OBJECTS}))
    names = {each["metadata"]["name"]: each for each in objects}
    assert names["demo-of-an-object"]["data"] == {"a": "b"}
    assert names["demo-of-a-text"]["data"] == {"a": "b"}


def test_the_object_store_and_the_credentials_of_a_cloud_role_are_open_as_stated(chart: Chart) -> None:
    egress = of_kind(chart.render(VALUES), "NetworkPolicy", "triton")["spec"]["egress"]
    store = {
        "ports": [{"port": port, "protocol": "TCP"} for port in (443, 9000)],
        "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    }
    role = {"ports": [{"port": 80, "protocol": "TCP"}], "to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}]}
    dns = {"ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]}
    assert egress == [dns, store, role]
    with_secret = merged(VALUES, {"models": {"objectStore": {"existingSecret": "login"}}})
    assert role not in of_kind(chart.render(with_secret), "NetworkPolicy", "triton")["spec"]["egress"]
    in_a_volume = chart.render(MATRIX["models in a volume, retrained"])
    assert "169.254" not in str([each for each in in_a_volume if each["kind"] == "NetworkPolicy"])


def test_extra_ingress_reaches_workers_and_triton(chart: Chart) -> None:
    objects = chart.render(VALUES)
    for component in ("worker", "triton"):
        assert (
            VALUES["networkPolicy"]["extraIngress"][0]
            in of_kind(objects, "NetworkPolicy", component)["spec"]["ingress"]
        )


def test_a_triton_outside_is_reached_by_the_ports_of_its_pods(chart: Chart) -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "models"}}}]
    values = merged(MATRIX["outside"], {"networkPolicy": {"tritonPorts": [9001], "tritonTo": peers}})
    egress = of_kind(chart.render(values), "NetworkPolicy", "worker")["spec"]["egress"]
    assert {"ports": [{"port": port, "protocol": "TCP"} for port in (8001, 9001)], "to": peers} in egress


def test_relabelings_follow_those_that_the_rules_need(chart: Chart) -> None:
    monitors = [each for each in chart.render(VALUES) if each["kind"] == "PodMonitor"]
    assert len(monitors) == 2
    for each in monitors:
        (endpoint,) = each["spec"]["podMetricsEndpoints"]
        assert [rule["targetLabel"] for rule in endpoint["relabelings"]] == ["job", "release", "instance", "plant"]
        assert endpoint["metricRelabelings"] == VALUES["monitoring"]["metricRelabelings"]
