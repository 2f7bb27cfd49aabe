"""A Triton that dies, hangs, drains, loses its stub or gets a bad version: each value says who made it."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.feed.dropouts import hide
from glaim_stream.feed.sources import Source, plant_source
from tests.chaos.conftest import MakeScenario, port_of
from tests.chaos.harness import Scenario, wait_for
from tests.chaos.proxy import Proxy
from tests.stubs import kill_stubs

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

Kafka = LocalKafka | ExternalKafka
SPEED = 400  # times real time: two hours in 18 s, half of them after the mending


def plant() -> Source:
    """Two hours of four pumps with holes, some 3,300 readings."""
    whole = plant_source(groups=4, days=1 / 12, seed=3)
    return whole.where(~hide(whole, 0.15, seed=3).mask)


def makers(it: Scenario) -> str:
    """Of each message of the first partition with imputed values: m by the model, alone or blended, s by a stand-in."""
    kinds = []
    for made in it.methods():
        if made & {"model", "blend"}:
            kinds.append("m")
        elif made & {"interpolation", "last_value"}:
            kinds.append("s")
    return "".join(kinds)


def hurt(it: Scenario, *harms: Callable[[], object], mend: Callable[[], object]) -> None:
    """Stream, and do harm in turn; mend, which may take its time; stream on. Ends when everything is committed."""
    source = plant()
    middle_ms = int(source.time_ms[len(source) // 2])
    it.worker()
    with it.replaying(source.between(None, middle_ms), speed=SPEED):
        it.wait(more=len(source) // 10)
        for harm in harms:
            harm()
            it.wait(more=len(source) // 10)
    mend()
    with it.replaying(source.between(middle_ms, None), speed=SPEED):
        it.wait(all_of=len(source))
    it.stop()


def assert_stand_ins_between(it: Scenario) -> None:
    made = makers(it)
    assert re.search("m.*s.*m", made), made


def assert_model_goes_on(it: Scenario) -> None:
    made = makers(it)
    assert "m" in made[: len(made) // 2], made
    assert "m" in made[len(made) // 2 :], made


def test_interpolation_stands_in_while_triton_is_dead_and_the_model_comes_back(
    kafka: Kafka, plant_scenario: MakeScenario, own_triton: LocalTriton
) -> None:
    it = plant_scenario(
        kafka.bootstrap_servers,
        "Triton killed, started again",
        triton=own_triton.grpc_url,
    )
    hurt(it, own_triton.kill, mend=own_triton.restart)
    assert_stand_ins_between(it)
    assert it.end().counts["identical_duplicates"] == 0


def test_a_stub_that_dies_is_noticed_by_its_answers_and_a_restart_of_the_server_mends_it(
    kafka: Kafka, plant_scenario: MakeScenario, own_triton: LocalTriton
) -> None:
    it = plant_scenario(
        kafka.bootstrap_servers,
        "Triton's python stub killed; its operator restarts Triton",
        triton=own_triton.grpc_url,
    )
    hurt(it, lambda: kill_stubs(own_triton), mend=own_triton.restart)
    assert_stand_ins_between(it)
    it.end()


def test_a_triton_that_drains_and_restarts_loses_nothing(
    kafka: Kafka, plant_scenario: MakeScenario, own_triton: LocalTriton
) -> None:
    it = plant_scenario(
        kafka.bootstrap_servers,
        "Triton drained (SIGTERM) and started again",
        triton=own_triton.grpc_url,
    )
    hurt(it, own_triton.restart, mend=lambda: None)
    assert_model_goes_on(it)
    it.end()


def test_a_triton_that_is_slow_costs_time_and_then_the_model(
    kafka: Kafka, plant_scenario: MakeScenario, own_triton: LocalTriton
) -> None:
    with Proxy(port_of(own_triton.grpc_url)) as proxy:
        it = plant_scenario(
            kafka.bootstrap_servers,
            "Triton slow: 0.1 s a packet, then 8 s, deadline 5 s",
            triton=proxy.address,
        )
        hurt(it, lambda: proxy.delay(0.1), lambda: proxy.delay(8), mend=proxy.heal)
    assert_stand_ins_between(it)
    it.end()


@pytest.mark.parametrize("way", ["held", "reset"])
def test_a_network_that_fails_between_worker_and_triton_heals(
    way: str, kafka: Kafka, plant_scenario: MakeScenario, own_triton: LocalTriton
) -> None:
    with Proxy(port_of(own_triton.grpc_url)) as proxy:
        what = "no byte passes, nobody is told" if way == "held" else "connections reset, again and again"
        it = plant_scenario(kafka.bootstrap_servers, f"worker and Triton apart: {what}", triton=proxy.address)

        def reset_often() -> None:
            for _ in range(10):
                proxy.reset()
                time.sleep(0.3)

        hurt(it, proxy.hold if way == "held" else reset_often, mend=proxy.heal)
    assert_model_goes_on(it)
    if way == "held":
        assert_stand_ins_between(it)
    it.end()


def test_a_corrupt_version_beside_the_good_one_changes_nothing(
    kafka: Kafka, plant_scenario: MakeScenario, tmp_path: Path
) -> None:
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    repository = tmp_path / "repository"
    model = repository / "plant-pump"
    shutil.copytree(CHECKOUT / "model_repo" / "plant-pump", model)
    with LocalTriton(repository, control_mode="poll", poll_s=1) as triton:
        it = plant_scenario(
            kafka.bootstrap_servers,
            "Triton loads a corrupt version beside the good one",
            triton=triton.grpc_url,
        )

        def corrupt() -> None:
            bad = tmp_path / "bad"
            shutil.copytree(model / "1", bad)
            whole = (bad / "model.pt").read_bytes()
            (bad / "model.pt").write_bytes(whole[: len(whole) // 2])
            bad.rename(model / "2")  # at once, as a deployment should
            wait_for(lambda: "failed to load 'plant-pump' version 2" in triton.log.read_text(), "Triton to try it")

        hurt(it, corrupt, mend=lambda: None)
    assert_model_goes_on(it)
    it.end()
