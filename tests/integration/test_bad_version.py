"""A version that loads and then fails: the former one answers, the other models do not notice, nothing is restarted."""

import logging
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import REGISTRY

from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.core.contract import read_contract, sensors_digest
from glaim_stream.core.errors import ImputerAbsent
from glaim_stream.imputers import Imputed, Interpolation, Ladder, State, Windows
from glaim_stream.imputers.remote import TritonImputer
from glaim_stream.models import Contracts, open_store, rollback
from glaim_stream.output import Method
from tests.integration.bad_versions import (
    BAD,
    EMITTED,
    SENSORS,
    WINDOW,
    Mean,
    Unloadable,
    add_model,
    add_version,
    wait_until_served,
)
from tests.support import contract

pytestmark = [
    pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason())),
    pytest.mark.slow,  # quicker: tests/imputers/test_bad_versions.py, with a scripted server
]

GOOD, OTHER_SENSORS = "good", "others"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bad-versions") / "repository"
    for name in (GOOD, *(f"second-{reason}" for reason in BAD)):
        add_model(path, name, Mean)
    add_model(path, "alone", Mean)
    for reason, network in BAD.items():
        add_model(path, f"first-{reason}", network)
    return path


@pytest.fixture(scope="module")
def triton(repository: Path) -> Iterator[LocalTriton]:
    """Started once; the tests do not restart it. `start` sends zeros, on which one of the models fails."""
    with LocalTriton(repository, control_mode="poll", poll_s=1, models=[GOOD]) as running:
        yield running
        assert running.running


@pytest.fixture
def contracts(repository: Path) -> Contracts:
    return Contracts({path.name: read_contract(path) for path in repository.iterdir()}, repository)


@pytest.fixture
async def rung(triton: LocalTriton, contracts: Contracts) -> AsyncIterator[TritonImputer]:
    imputer = TritonImputer(triton.grpc_url, contracts, deadline_s=30)
    yield imputer
    await imputer.close()


def windows(model: str) -> Windows:
    observed = np.ones((2, SENSORS, WINDOW), bool)
    observed[:, 0, -2:] = False
    return Windows(model, np.where(observed, 5.0, 0.0), observed, EMITTED)


def by_model(answer: Imputed, version: str) -> bool:
    return set(answer.version) == {version} and bool((answer.method == Method.MODEL).all())


def refused(model: str, version: str) -> set[str]:
    """The reasons for which a version is out of service."""
    return {
        sample.labels["reason"]
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == "glaim_model_version_refused"
        and (sample.labels["model"], sample.labels["version"]) == (model, version)
    }


async def test_a_model_whose_first_version_is_withdrawn_is_not_called_until_it_is_back(
    rung: TritonImputer, repository: Path
) -> None:
    store, ladder, lines = open_store(str(repository)), Ladder([rung, Interpolation()]), list[str]()
    assert by_model(await ladder.impute(windows("alone")), "1")
    rollback(store, "alone", 0, say=lines.append)
    await rung.look()
    await rung.look()
    assert await rung._served("alone", 30) == ["1"], "Triton goes on serving it"
    assert set((await ladder.impute(windows("alone"))).version) == {""}
    with pytest.raises(ImputerAbsent, match="all versions of alone were withdrawn"):
        await rung.impute(windows("alone"))
    rollback(store, "alone", 1, say=lines.append)
    await rung.look()
    assert by_model(await ladder.impute(windows("alone")), "1")


@pytest.mark.parametrize("reason", BAD)
async def test_the_former_version_answers_from_the_first_batch_on(
    reason: str, rung: TritonImputer, triton: LocalTriton, repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = f"second-{reason}"
    ladder = Ladder([rung, Interpolation()])
    assert by_model(await ladder.impute(windows(model)), "1")
    add_version(repository, model, 2, BAD[reason])
    wait_until_served(triton.grpc_url, model, "1", "2")
    for _ in range(5):
        assert by_model(await ladder.impute(windows(model)), "1")
        assert by_model(await ladder.impute(windows(GOOD)), "1")
    assert refused(model, "2") == {reason}
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert f"{model} version 2 is out of service" in line
    await rung.look()
    assert refused(model, "2") == {reason}, "it fails its trial"

    add_version(repository, model, 3, Mean)  # Triton serves the two newest: the former one is gone
    wait_until_served(triton.grpc_url, model, "2", "3")
    await rung.look()
    assert by_model(await ladder.impute(windows(model)), "3")
    shutil.rmtree(repository / model / "2")
    wait_until_served(triton.grpc_url, model, "1", "3")
    await rung.look()
    assert refused(model, "2") == set()


@pytest.mark.parametrize("reason", BAD)
async def test_the_first_version_ever_is_named_and_the_next_rung_fills(
    reason: str, rung: TritonImputer, triton: LocalTriton, repository: Path
) -> None:
    model, states = f"first-{reason}", list[tuple[str, State]]()
    ladder = Ladder(
        [rung, Interpolation()], rest_s=0.1, on_state=lambda name, served, state: states.append((served, state))
    )
    for _ in range(4):
        answer = await ladder.impute(windows(model))
        assert np.isfinite(answer.values).all()
        assert set(answer.version) == {""}
        assert by_model(await ladder.impute(windows(GOOD)), "1")
    assert refused(model, "1") == {reason}
    assert (model, State.OPEN) in states, "no more windows are sent until the next trial"
    assert GOOD not in dict(states)

    add_version(repository, model, 2, Mean)
    wait_until_served(triton.grpc_url, model, "1", "2")
    await rung.look()
    assert by_model(await rung.impute(windows(model)), "2")


async def test_a_bad_version_is_named_before_any_window_is_sent(triton: LocalTriton, repository: Path) -> None:
    add_model(repository, "unseen", BAD["not_finite"])
    contracts = Contracts({"unseen": read_contract(repository / "unseen")}, repository)
    idle = TritonImputer(triton.grpc_url, contracts, deadline_s=30)
    wait_until_served(triton.grpc_url, "unseen", "1")
    await idle.look()
    await idle.close()
    assert refused("unseen", "1") == {"not_finite"}


async def test_a_former_version_with_other_sensors_is_not_used(triton: LocalTriton, repository: Path) -> None:
    """Its answers would have the right shape, and belong to other sensors."""
    model = OTHER_SENSORS
    add_model(repository, model, Mean)
    swapped = contract(SENSORS).sensors[::-1]
    digest = sensors_digest([sensor.id for sensor in swapped])
    add_version(repository, model, 2, BAD["not_finite"], sensors=swapped, sensors_sha256=digest)
    wait_until_served(triton.grpc_url, model, "1", "2")
    contracts = Contracts({model: read_contract(repository / model)}, repository)
    imputer = TritonImputer(triton.grpc_url, contracts, deadline_s=30)
    ladder = Ladder([imputer, Interpolation()])
    for _ in range(4):
        assert set((await ladder.impute(windows(model))).version) == {""}
    await imputer.close()
    assert refused(model, "2") == {"not_finite"}


def failures(triton: LocalTriton, name: str) -> int:
    """How often this Triton has failed to load a version of a model."""
    return triton.log.read_text().count(f"failed to load '{name}' version")


def wait_for_failures(triton: LocalTriton, name: str, more: int) -> None:
    """Wait until loads of a model have failed so many times more; fail if the server ends meanwhile."""
    wanted, give_up = failures(triton, name) + more, time.monotonic() + 150
    while failures(triton, name) < wanted:
        assert triton.running, f"Triton ended: {triton.log.read_text()[-1500:]}"
        assert time.monotonic() < give_up, f"expected {wanted} failed loads, found {failures(triton, name)}"
        time.sleep(0.2)


@pytest.mark.timeout(400)
async def test_versions_that_triton_cannot_load_are_named_and_do_not_end_it(tmp_path: Path) -> None:
    """Triton tries them again at each poll. One whose warm-up it runs itself, and which fails it, ends the server."""
    repository, model = tmp_path / "repository", "unloadable"
    for name in (GOOD, model):
        add_model(repository, name, Mean)
    contracts = Contracts({name: read_contract(repository / name) for name in (GOOD, model)}, repository)
    with LocalTriton(repository, control_mode="poll", poll_s=1) as triton:
        imputer = TritonImputer(triton.grpc_url, contracts, deadline_s=30)
        await imputer.look()
        for version, polls in ((2, 2), (3, 6)):  # alone beside a good one, then two of them at a time
            add_version(repository, model, version, Unloadable)
            wait_for_failures(triton, model, polls)
            await imputer.look()
            assert refused(model, str(version)) == {"not_loaded"}
            assert by_model(await imputer.impute(windows(model)), "1")
            assert by_model(await imputer.impute(windows(GOOD)), "1")
        for version in (2, 3):
            shutil.rmtree(repository / model / str(version))
        await imputer.look()
        assert refused(model, "2") == refused(model, "3") == set()
        await imputer.close()
        assert triton.running
        assert "no such kernel" in triton.log.read_text()


@pytest.mark.timeout(400)
async def test_a_triton_that_starts_with_versions_that_do_not_load_serves_the_other_models(tmp_path: Path) -> None:
    """It serves no version of that model, whatever the policy says, until the bad ones are withdrawn."""
    repository, model = tmp_path / "repository", "unloadable"
    for name in (GOOD, model):
        add_model(repository, name, Mean)
    for version in (2, 3):
        add_version(repository, model, version, Unloadable)
    contracts = Contracts({name: read_contract(repository / name) for name in (GOOD, model)}, repository)
    with LocalTriton(repository, control_mode="poll", poll_s=1, models=[GOOD]) as triton:
        imputer = TritonImputer(triton.grpc_url, contracts, deadline_s=2)
        ladder = Ladder([imputer, Interpolation()], rest_s=0.1)
        for _ in range(3):
            assert by_model(await ladder.impute(windows(GOOD)), "1")
            answer = await ladder.impute(windows(model))
            assert set(answer.version) == {""}
            assert np.isfinite(answer.values).all()
        await imputer.look()
        assert refused(model, "3") == {"not_loaded"}
        wait_for_failures(triton, model, 4)
        for version in (2, 3):
            shutil.rmtree(repository / model / str(version))
        wait_until_served(triton.grpc_url, model, "1")
        await imputer.look()
        assert refused(model, "3") == set()
        assert by_model(await imputer.impute(windows(model)), "1")
        await imputer.close()
