"""Panels that need closed forms: sensor health and versions, as a real Prometheus has them of a real worker.

The worker has no Triton, so that two cores can compute the closed form of every hole (`system.running_system`).
"""

import uuid
from collections.abc import Iterator

import pytest

from deploy.cache import CHECKOUT
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from deploy.prometheus import LocalPrometheus
from glaim_stream.form import ClosedForm
from glaim_stream.imputers import version_of
from tests.integration.worker_process import plant_settings
from tests.monitoring.panels import values
from tests.monitoring.system import query_prometheus, wait_until
from tests.monitoring.watched_plant import require_prometheus, watched_plant

pytestmark = pytest.mark.slow  # quicker: test_dashboard.py


@pytest.fixture(scope="module")
def prometheus(
    kafka: LocalKafka | ExternalKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalPrometheus]:
    """A Prometheus that scrapes a worker, to which the simulated plant sends readings with dropouts."""
    require_prometheus()
    prefix, folder = f"panels-{uuid.uuid4().hex[:8]}-", tmp_path_factory.mktemp("panels")
    settings = plant_settings(
        kafka.bootstrap_servers, prefix, partitions=1, imputer="gaussian", health_topic=prefix + "health",
        metrics_port=choose_port(), metrics_host=LOOPBACK,
    )  # fmt: skip
    with watched_plant(settings, folder / "worker.log", speed=600) as started:
        yield started


def test_a_silent_sensor_is_in_the_panels_of_sensor_health(prometheus: LocalPrometheus) -> None:
    def faulty() -> bool:
        return any(
            labels["detector"] == "silence" and value > 0 for labels, value in values(prometheus, "Faulty sensors")
        )

    def begun() -> bool:
        found = values(prometheus, "Sensor health events")
        return any(
            (labels["detector"], labels["state"]) == ("silence", "begin") and value > 0 for labels, value in found
        )

    wait_until(faulty, 60, "a faulty sensor", lambda: values(prometheus, "Faulty sensors"))
    wait_until(begun, 30, "its event", lambda: values(prometheus, "Sensor health events"))


def test_the_closed_form_in_use_and_its_age_are_in_a_panel(prometheus: LocalPrometheus) -> None:
    form = ClosedForm.load(CHECKOUT / "model_repo" / "plant-pump")
    assert form.until_ms is not None
    wait_until(lambda: bool(values(prometheus, "Closed forms")), 30, "the form", lambda: "no series")
    ((labels, age_s),) = values(prometheus, "Closed forms")
    assert (labels["model"], labels["version"]) == ("plant-pump", version_of(form))
    ((_, now_s),) = [(0, float(each["value"][1])) for each in query_prometheus(prometheus, "vector(time())")]
    assert age_s == pytest.approx(now_s - form.until_ms / 1000, abs=60)
