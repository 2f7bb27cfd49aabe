"""Fixtures of the chaos tests: a scenario, and a Triton that a test may damage."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT
from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.core.settings import Settings
from tests.chaos.harness import Scenario
from tests.chaos.stream import CATALOGUE
from tests.chaos.table import RESULTS
from tests.constants import BREAKER_REST
from tests.integration.worker_process import without_forms

MakeScenario = Callable[..., Scenario]
DELIVERY = os.environ.get("GLAIM_CHAOS_DELIVERY", "exactly_once")


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file to which each scenario appends its line; emptied by the first process of a run."""
    folder = tmp_path_factory.getbasetemp()
    begun = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "chaos-results-begun"
    if not begun.exists():
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text("")
        begun.touch()
    return RESULTS


@pytest.fixture
def scenario(request: pytest.FixtureRequest, topic_prefix: str, tmp_path: Path, results: Path) -> MakeScenario:
    """A factory of scenarios: broker address, name of the fault, settings that differ from the defaults here."""

    def make(
        kafka: str,
        fault: str,
        *,
        constants: Mapping[str, float] | None = None,
        kafka_extra: Mapping[str, object] | None = None,
        **changes: object,
    ) -> Scenario:
        catalogue = tmp_path / "groups.yaml"
        catalogue.write_text(CATALOGUE)
        settings: dict[str, object] = {
            "kafka": kafka,
            "input_topic": topic_prefix + "in",
            "output_topic": topic_prefix + "out",
            "consumer_group": topic_prefix + "worker",
            "catalogue": catalogue,
            "model_repository": tmp_path,
            "imputer": "interpolation",
            "delivery": DELIVERY,
            # The session timeout is the broker's minimum, which frees a killed worker's partitions soon.
            "kafka_extra": {"session_timeout_ms": 6000, "auto_commit_interval_ms": 200, "max_poll_records": 500}
            | dict(kafka_extra or {}),
        }
        family = request.path.stem.removeprefix("test_")
        return Scenario(family, fault, Settings(**(settings | changes)), tmp_path, results, dict(constants or {}))  # type: ignore[arg-type]

    return make


@pytest.fixture
def plant_scenario(scenario: MakeScenario, tmp_path: Path) -> MakeScenario:
    """The same factory with the plant's model on Triton, without its closed form; the wall clock closes steps."""

    def make(kafka: str, fault: str, *, constants: Mapping[str, float] | None = None, **changes: object) -> Scenario:
        return scenario(
            kafka,
            fault,
            **{
                "catalogue": CHECKOUT / "deploy" / "catalogues" / "plant.yaml",
                "model_repository": without_forms(tmp_path),
                "imputer": "triton",
                "partitions": 2,
                "kafka_extra": {"max_poll_records": 20_000},
                "constants": {BREAKER_REST: 1} | dict(constants or {}),
            }
            | changes,
        )

    return make


@pytest.fixture
def disposable_triton() -> Iterator[LocalTriton]:
    """A Triton for this test alone, which it may damage."""
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    with LocalTriton(CHECKOUT / "model_repo", models=["plant-pump"]) as triton:
        yield triton


def port_of(address: str) -> int:
    """The port in `host:port`."""
    return int(address.rsplit(":", 1)[1])
