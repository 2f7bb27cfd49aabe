"""Fixtures of the chaos tests: a scenario, and a Triton that a test may damage."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT
from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.core.settings import Settings
from tests.chaos.harness import Scenario
from tests.chaos.stream import CATALOGUE
from tests.chaos.table import RESULTS
from tests.integration.worker_process import without_forms

MakeScenario = Callable[..., Scenario]
DELIVERY = os.environ.get("GLAIM_CHAOS_DELIVERY", "at_least_once")


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

    def make(kafka: str, fault: str, **changes: object) -> Scenario:
        catalogue = tmp_path / "groups.yaml"
        catalogue.write_text(CATALOGUE)
        settings: dict[str, object] = {
            "kafka": kafka,
            "input_topic": topic_prefix + "in",
            "output_topic": topic_prefix + "out",
            "consumer_group": topic_prefix + "worker",
            "session_timeout_s": 6,  # the broker's minimum, which frees a killed worker's partitions soon
            "catalogue": catalogue,
            "model_repository": tmp_path,
            "imputer": "interpolation",
            "delivery": DELIVERY,
            "poll_records": 500,
            "commit_interval_s": 0.2,
        }
        family = request.path.stem.removeprefix("test_")
        return Scenario(family, fault, Settings(**(settings | changes)), tmp_path, results)  # type: ignore[arg-type]

    return make


@pytest.fixture
def plant_scenario(scenario: MakeScenario, tmp_path: Path) -> MakeScenario:
    """The same factory with the plant's model on Triton, without its closed form; the wall clock closes steps."""

    def make(kafka: str, fault: str, **changes: object) -> Scenario:
        return scenario(
            kafka,
            fault,
            **{
                "catalogue": CHECKOUT / "deploy" / "catalogues" / "plant.yaml",
                "model_repository": without_forms(tmp_path),
                "imputer": "triton",
                "partitions": 2,
                "poll_records": 20_000,
                "breaker_rest_s": 1,
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
