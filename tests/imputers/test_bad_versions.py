"""The Triton rung and versions that fail, against a scripted server; tests/integration has a real one."""

from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.core import metrics
from glaim_stream.core.contract import sensors_digest
from glaim_stream.core.errors import ImputerError, ImputerUnavailable, WrongAnswer
from glaim_stream.core.trust import Trust
from glaim_stream.imputers.first_answer import typical_windows
from glaim_stream.imputers.version_choice import FAILURES_IN_A_ROW
from tests.imputers.kserve import Reply
from tests.imputers.two_versions import WINDOWS, add, repository, rung_for, shorten_pauses
from tests.support import contract

__all__ = ["repository"]  # a fixture

GOOD = np.ones((1, 2, 3), np.float32)
NAN = np.full((1, 2, 3), np.nan, np.float32)
BAD: dict[str, Reply] = {
    "not_finite": NAN,
    "shape": np.ones((1, 2, 4), np.float32),
    "error": grpc.StatusCode.INTERNAL,
}


def refused() -> dict[str, str]:
    """Reasons by version of the model `m`."""
    return {
        sample.labels["version"]: sample.labels["reason"]
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == "glaim_model_version_refused" and sample.labels["model"] == "m" and sample.value == 1
    }


@pytest.fixture(autouse=True)
def _nothing_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics.model_version_refused.clear()
    shorten_pauses(monkeypatch)


@pytest.mark.parametrize("reason", BAD)
async def test_a_former_version_answers_every_batch_and_then_is_called_directly(reason: str, repository: Path) -> None:
    async with rung_for(repository, {"1": GOOD, "2": BAD[reason]}) as (imputer, server):
        for _ in range(FAILURES_IN_A_ROW):
            assert (await imputer.impute(WINDOWS)).version == ["1"]
        assert refused() == {"2": reason}
        server.asked.clear()
        assert (await imputer.impute(WINDOWS)).version == ["1"]
        assert server.asked == ["1"], "the bad version gets no more batches"


async def test_a_version_that_answers_in_between_stays_in_service(repository: Path) -> None:
    async with rung_for(repository, {"1": GOOD, "2": NAN}) as (imputer, server):
        for reply in [NAN, NAN, GOOD] * 2:
            server.replies["2"] = reply
            expected = "2" if reply is GOOD else "1"
            assert (await imputer.impute(WINDOWS)).version == [expected]
        assert refused() == {}


async def test_windows_on_which_all_versions_fail_take_none_out_of_service(repository: Path) -> None:
    async with rung_for(repository, {"1": NAN, "2": NAN}) as (imputer, server):
        for _ in range(FAILURES_IN_A_ROW + 1):
            with pytest.raises(WrongAnswer, match="not finite"):
                await imputer.impute(WINDOWS)
        assert refused() == {}
        server.replies["2"] = GOOD
        assert (await imputer.impute(WINDOWS)).version == ["2"]


async def test_a_version_comes_back_when_it_answers_what_it_failed_on(repository: Path) -> None:
    async with rung_for(repository, {"1": GOOD, "2": NAN}) as (imputer, server):
        for _ in range(FAILURES_IN_A_ROW):
            await imputer.impute(WINDOWS)
        await imputer.look()
        assert refused() == {"2": "not_finite"}
        server.replies["2"] = GOOD
        server.asked.clear()
        await imputer.look()
        assert server.asked == ["2", "2"], "typical windows, and those on which it failed"
        assert refused() == {}
        assert (await imputer.impute(WINDOWS)).version == ["2"]


async def test_the_only_version_is_named_and_rests_until_it_answers(repository: Path) -> None:
    async with rung_for(repository, {"2": NAN}) as (imputer, server):
        for _ in range(FAILURES_IN_A_ROW - 1):
            with pytest.raises(WrongAnswer):
                await imputer.impute(WINDOWS)
        with pytest.raises(ImputerUnavailable, match="version 2 is out of service: model m returned values"):
            await imputer.impute(WINDOWS)
        assert refused() == {"2": "not_finite"}
        server.replies["2"] = GOOD
        assert (await imputer.impute(WINDOWS)).version == ["2"]
        assert refused() == {}


@pytest.mark.parametrize("contract_of_1", ["other sensors", "none"])
async def test_a_former_version_without_a_fitting_contract_of_its_own_is_not_used(
    contract_of_1: str, repository: Path
) -> None:
    if contract_of_1 == "none":
        (repository / "m" / "1" / "contract.json").unlink()
    else:
        swapped = contract().sensors[::-1]
        add(repository, 1, sensors=swapped, sensors_sha256=sensors_digest([sensor.id for sensor in swapped]))
    async with rung_for(repository, {"1": GOOD, "2": NAN}) as (imputer, _):
        for _ in range(FAILURES_IN_A_ROW - 1):
            with pytest.raises(WrongAnswer):
                await imputer.impute(WINDOWS)
        with pytest.raises(ImputerUnavailable):
            await imputer.impute(WINDOWS)
        await imputer.look()
        assert refused()["2"] == "not_finite"
        with pytest.raises(ImputerUnavailable):
            await imputer.impute(WINDOWS)


async def test_a_newest_version_with_other_windows_is_replaced_by_the_former_one_at_once(repository: Path) -> None:
    add(repository, 3, step_s=2.0)
    async with rung_for(repository, {"2": GOOD, "3": GOOD}) as (imputer, _):
        assert (await imputer.impute(WINDOWS)).version == ["2"]
        assert refused() == {"3": "contract"}


async def test_a_next_version_is_tried_first_and_then_called(repository: Path) -> None:
    async with rung_for(repository, {"1": GOOD, "2": NAN}) as (imputer, server):
        await imputer.look()
        assert refused() == {"2": "not_finite"}, "named before any batch"
        server.replies["3"] = NAN
        add(repository, 3)
        await imputer.look()
        assert refused() == {"2": "not_finite", "3": "not_finite"}
        assert (await imputer.impute(WINDOWS)).version == ["1"]
        server.replies["4"] = GOOD
        add(repository, 4)
        await imputer.look()
        assert (await imputer.impute(WINDOWS)).version == ["4"]


async def test_a_withdrawn_version_is_no_longer_named(repository: Path) -> None:
    async with rung_for(repository, {"1": GOOD, "2": NAN}) as (imputer, server):
        await imputer.look()
        del server.replies["2"]
        await imputer.look()
        assert refused() == {"2": "not_finite"}, "the repository still has it"
        (repository / "m" / "2" / "contract.json").unlink()
        await imputer.look()
        assert refused() == {}
        assert (await imputer.impute(WINDOWS)).version == ["1"]


async def test_a_former_version_that_vanishes_leaves_the_choice_to_the_server(repository: Path) -> None:
    async with rung_for(repository, {"1": GOOD, "2": NAN}) as (imputer, server):
        imputer._deadline_s = 0.3
        await imputer.look()
        del server.replies["1"]
        server.replies["2"] = GOOD
        with pytest.raises(ImputerUnavailable):
            await imputer.impute(WINDOWS)
        assert (await imputer.impute(WINDOWS)).version == ["2"]


async def test_a_version_that_is_not_served_is_named_unless_it_waits_for_its_manifest(repository: Path) -> None:
    async with rung_for(repository, {"1": GOOD}) as (imputer, _):
        await imputer.look()
        assert refused() == {"2": "not_loaded"}
    metrics.model_version_refused.clear()
    async with rung_for(repository, {"1": GOOD}, trust=Trust(require_manifest=True)) as (imputer, _):
        await imputer.look()
        assert refused() == {}


async def test_a_server_that_does_not_answer_changes_nothing(repository: Path) -> None:
    async with rung_for(repository, {"1": GOOD, "2": NAN}) as (imputer, _):
        await imputer.look()
    imputer._deadline_s = 0.2
    await imputer.look()
    assert refused() == {"2": "not_finite"}
    await imputer.close()


async def test_windows_on_which_the_former_version_fails_too_cost_it_a_short_rest(repository: Path) -> None:
    """It is the last one in service, and those windows may never be answered."""
    typical = typical_windows(contract())
    async with rung_for(repository, {"1": GOOD, "2": NAN}) as (imputer, server):
        await imputer.look()
        poison = replace(typical, values=np.where(typical.observed, 3.0, 0.0))
        server.poison = poison.values.astype(np.float32).tobytes()
        for _ in range(FAILURES_IN_A_ROW):
            with pytest.raises(ImputerError):
                await imputer.impute(poison)
        assert refused() == {"1": "error", "2": "not_finite"}
        await imputer.look()
        assert refused() == {"2": "not_finite"}
        assert (await imputer.impute(replace(typical, values=typical.values + 1))).version == ["1"]
