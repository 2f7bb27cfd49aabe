"""The panels that compare two versions of a network, as a real Prometheus has them of a real worker and Triton."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator

import pytest

from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from deploy.prometheus import LocalPrometheus
from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from tests.integration.bad_versions import wait_until_served
from tests.integration.two_versions import FORMER, MODEL, NEWEST, with_a_worse_version
from tests.integration.worker_process import plant_settings
from tests.monitoring.panels import values
from tests.monitoring.system import wait_until
from tests.monitoring.watched_plant import require_prometheus, watched_plant

pytestmark = [
    pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason())),
    pytest.mark.slow,  # quicker: tests/page/test_versions.py
]


@pytest.fixture
def prometheus(
    kafka: LocalKafka | ExternalKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalPrometheus]:
    """A Prometheus that scrapes a worker with shadow scores, while a Triton serves a good and a worse version."""
    require_prometheus()
    prefix, folder = f"shadow-{uuid.uuid4().hex[:8]}-", tmp_path_factory.mktemp("shadow")
    repository = with_a_worse_version(folder)
    with LocalTriton(repository) as triton:
        wait_until_served(triton.grpc_url, MODEL, FORMER, NEWEST)
        settings = plant_settings(
            kafka.bootstrap_servers, prefix, partitions=1, triton=triton.grpc_url, shadow_scores=True,
            metrics_port=choose_port(), metrics_host=LOOPBACK,
        ).model_copy(update={"model_repository": repository})  # fmt: skip
        with watched_plant(settings, folder / "worker.log", speed=300) as started:
            yield started


def sensors_with_more_error(errors: dict[tuple[str, str], float]) -> int:
    """Sensors of which the newest version has more error than the former."""
    sensors = {sensor for sensor, _ in errors}
    return sum(errors.get((sensor, NEWEST), 0.0) > errors.get((sensor, FORMER), math.inf) > 0 for sensor in sensors)


def test_an_operator_sees_that_the_new_version_is_worse_than_the_former(prometheus: LocalPrometheus) -> None:
    def ratios() -> dict[tuple[str, str], float]:
        found = values(prometheus, "Error of a version over another's")
        return {(labels["version"], labels["against"]): value for labels, value in found}

    def errors_by_sensor() -> dict[tuple[str, str], float]:
        found = values(prometheus, "Mean absolute error of two versions")
        return {(labels["sensor"], labels["version"]): value for labels, value in found}

    wait_until(lambda: ratios().get((NEWEST, FORMER), 0.0) > 1.2, 90, "the comparison", ratios)
    both = ratios()
    assert both[NEWEST, FORMER] * both[FORMER, NEWEST] == pytest.approx(1.0, rel=0.05)
    # A sensor's first hidden readings may favour either version: the sign of most of eight sensors is what shows.
    wait_until(lambda: sensors_with_more_error(errors_by_sensor()) >= 6, 90, "six of eight sensors", errors_by_sensor)
    outcomes = {labels["outcome"]: value for labels, value in values(prometheus, "Windows imputed") if labels}
    assert outcomes["scored"] > 0
    assert outcomes["failed"] == 0
