"""The Triton rung asked for another version than the one that answers, against a scripted server."""

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.core import metrics
from glaim_stream.core.errors import ImputerError
from glaim_stream.imputers.remote.triton import TritonImputer
from glaim_stream.models import Contracts
from tests.imputers.kserve import versions_served
from tests.imputers.two_versions import WINDOWS, add, repository, rung_for, shorten_pauses
from tests.support import contract

__all__ = ["repository"]  # a fixture

shadowing_rung = partial(rung_for, deadline_s=0.5, shadow=True)
ONE, TWO, NAN = (np.full((1, 2, 3), value, np.float32) for value in (1.0, 2.0, np.nan))


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics.unusable_contracts.clear()
    metrics.contract_reads.clear()
    shorten_pauses(monkeypatch)


def series(name: str) -> list[dict[str, str]]:
    return [sample.labels for metric in REGISTRY.collect() for sample in metric.samples if sample.name == name]


async def test_the_former_version_answers_beside_the_newest_and_the_other_way_round(repository: Path) -> None:
    async with shadowing_rung(repository, {"1": ONE, "2": TWO}) as (imputer, server):
        assert await imputer.impute_by_other(WINDOWS, "2") is None, "nothing is known before the first look"
        await imputer.look()
        server.asked.clear()
        for serving, other in (("2", "1"), ("1", "2")):
            found = await imputer.impute_by_other(WINDOWS, serving)
            assert found is not None
            assert (found.version, set(found.values.ravel().tolist())) == ([other], {float(other)})
        assert server.asked == ["1", "2"]


async def test_a_lone_version_has_no_other(repository: Path) -> None:
    async with shadowing_rung(repository, {"2": TWO}) as (imputer, server):
        await imputer.look()
        server.asked.clear()
        assert await imputer.impute_by_other(WINDOWS, "2") is None
        assert server.asked == []


@pytest.mark.parametrize("fault", ["no contract", "other windows"])
async def test_a_version_without_a_fitting_contract_is_not_compared_and_is_no_fault(
    fault: str, repository: Path
) -> None:
    """Its sensors may be others in the same shape. It fills no rows, so there is no alert."""
    if fault == "no contract":
        shutil.rmtree(repository / "m" / "1")
    else:
        add(repository, 1, step_s=2.0)
    async with shadowing_rung(repository, {"1": ONE, "2": TWO}) as (imputer, _):
        await imputer.look()
        assert await imputer.impute_by_other(WINDOWS, "2") is None
    assert not any(each["outcome"] != "read" for each in series("glaim_contract_reads_total"))
    assert series("glaim_unusable_contracts") == []


async def test_a_version_out_of_service_is_not_compared(repository: Path) -> None:
    async with shadowing_rung(repository, {"1": ONE, "2": NAN}) as (imputer, server):
        await imputer.look()
        assert (await imputer.impute(WINDOWS)).version == ["1"]
        server.asked.clear()
        assert await imputer.impute_by_other(WINDOWS, "1") is None
        assert server.asked == []


async def test_a_version_that_fails_only_here_stays_in_service_and_is_asked_again_after_a_look(
    repository: Path,
) -> None:
    async with shadowing_rung(repository, {"1": NAN, "2": TWO}) as (imputer, server):
        await imputer.look()
        with pytest.raises(ImputerError, match="not finite"):
            await imputer.impute_by_other(WINDOWS, "2")
        assert imputer.failing("m") == []
        server.asked.clear()
        assert await imputer.impute_by_other(WINDOWS, "2") is None
        assert server.asked == [], "one failure a look"
        server.replies["1"] = ONE
        await imputer.look()
        assert await imputer.impute_by_other(WINDOWS, "2") is not None


async def test_a_version_that_disappears_costs_one_call_and_the_newest_goes_on(repository: Path) -> None:
    async with shadowing_rung(repository, {"1": ONE, "2": TWO}) as (imputer, server):
        await imputer.look()
        del server.replies["1"]
        with pytest.raises(ImputerError):
            await imputer.impute_by_other(WINDOWS, "2")
        assert (await imputer.impute(WINDOWS)).version == ["2"]
        await imputer.look()
        assert await imputer.impute_by_other(WINDOWS, "2") is None


async def test_without_the_setting_no_other_version_is_looked_up(repository: Path) -> None:
    async with versions_served({"1": ONE, "2": TWO}) as (url, _):
        imputer = TritonImputer(url, Contracts({"m": contract(version=2)}, repository), deadline_s=5)
        await imputer.look()
        assert await imputer.impute_by_other(WINDOWS, "2") is None
        await imputer.close()
