"""What every scenario starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT
from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.settings import Settings
from tests.chaos.harness import Scenario
from tests.chaos.stream import CATALOGUE
from tests.chaos.table import RESULTS

MakeScenario = Callable[..., Scenario]


@pytest.fixture(scope="session")
def results() -> Path:
    """Where each scenario leaves its line; begun anew by each run."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text("")
    return RESULTS


@pytest.fixture
def scenario(request: pytest.FixtureRequest, topic_prefix: str, tmp_path: Path, results: Path) -> MakeScenario:
    """Makes the test's scenario from the broker's address, what happens, and settings that differ."""

    def make(kafka: str, fault: str, **changes: object) -> Scenario:
        catalogue = tmp_path / "groups.yaml"
        catalogue.write_text(CATALOGUE)
        settings: dict[str, object] = {
            "kafka": kafka,
            "input_topic": topic_prefix + "in",
            "output_topic": topic_prefix + "out",
            "consumer_group": topic_prefix + "worker",
            "session_timeout_s": 6,  # the least that the broker allows: a killed worker's partitions are free sooner
            "catalogue": catalogue,
            "model_repository": tmp_path,
            "imputer": "interpolation",
            "poll_records": 500,
            "commit_interval_s": 0.2,
        }
        family = request.path.stem.removeprefix("test_")
        return Scenario(family, fault, Settings(**(settings | changes)), tmp_path, results)  # type: ignore[arg-type]

    return make


@pytest.fixture
def plant_scenario(scenario: MakeScenario) -> MakeScenario:
    """The same with the plant's model, which Triton serves; the wall clock closes steps here."""

    def make(kafka: str, fault: str, **changes: object) -> Scenario:
        return scenario(
            kafka,
            fault,
            **{
                "catalogue": CHECKOUT / "deploy" / "catalogues" / "plant.yaml",
                "model_repository": CHECKOUT / "model_repo",
                "imputer": "triton",
                "partitions": 2,
                "poll_records": 20_000,
                "breaker_rest_s": 1,
            }
            | changes,
        )

    return make


@pytest.fixture
def own_triton() -> Iterator[LocalTriton]:
    """A server that the test may hurt."""
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    with LocalTriton(CHECKOUT / "model_repo", models=["plant-pump"]) as triton:
        yield triton


def port_of(address: str) -> int:
    """Of `host:port`."""
    return int(address.rsplit(":", 1)[1])
