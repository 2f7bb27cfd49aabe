"""A Triton that is killed, slow or drained, loses its stub or loads a bad version: each row names its method."""

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
from glaim_stream.feed import Source, hide, plant_source
from tests.chaos.conftest import MakeScenario, port_of
from tests.chaos.harness import Scenario, wait_for
from tests.chaos.proxy import Proxy
from tests.stubs import kill_stubs

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

Kafka = LocalKafka | ExternalKafka
SPEED = 400  # times real time: two hours take 18 s, half of them after the repair


def plant() -> Source:
    """Two hours of four pumps with holes, about 3,300 readings."""
    whole = plant_source(groups=4, days=1 / 12, seed=3)
    return whole.where(~hide(whole, 0.15, seed=3).mask)


def method_letters(run: Scenario) -> str:
    """One letter per message of the first partition with filled values: m model, alone or blended, s stand-in."""
    letters = []
    for methods in run.methods_by_message():
        if methods & {"model", "blend"}:
            letters.append("m")
        elif methods & {"interpolation", "last_value"}:
            letters.append("s")
    return "".join(letters)


def stream_with_faults(run: Scenario, *faults: Callable[[], object], repair: Callable[[], object]) -> None:
    """Stream and cause the faults in turn, repair, stream the second half, and wait until all of it is committed."""
    source = plant()
    middle_ms = int(source.time_ms[len(source) // 2])
    worker = run.worker()
    # A worker that starts late reads all at once, and the fault comes too late.
    wait_for(lambda: run.count_in_logs("partitions assigned: 0") > 0, "the partitions to be assigned", [worker])
    with run.replaying(source.between(None, middle_ms), speed=SPEED):
        run.wait(additional=len(source) // 10)
        for fault in faults:
            fault()
            run.wait(additional=len(source) // 10)
    repair()
    with run.replaying(source.between(middle_ms, None), speed=SPEED):
        run.wait(total=len(source))
    run.stop()


def assert_interpolation_during_the_fault(run: Scenario) -> None:
    letters = method_letters(run)
    assert re.search("m.*s.*m", letters), letters


def assert_model_before_and_after(run: Scenario) -> None:
    letters = method_letters(run)
    assert "m" in letters[: len(letters) // 2], letters
    assert "m" in letters[len(letters) // 2 :], letters


def test_interpolation_replaces_the_model_until_triton_is_restarted(
    kafka: Kafka, plant_scenario: MakeScenario, disposable_triton: LocalTriton
) -> None:
    run = plant_scenario(kafka.bootstrap_servers, "Triton killed, then restarted", triton=disposable_triton.grpc_url)
    stream_with_faults(run, disposable_triton.kill, repair=disposable_triton.restart)
    assert_interpolation_during_the_fault(run)
    assert run.end().counts["identical_duplicates"] == 0


def test_interpolation_replaces_the_model_after_its_stub_died_until_triton_is_restarted(
    kafka: Kafka, plant_scenario: MakeScenario, disposable_triton: LocalTriton
) -> None:
    run = plant_scenario(
        kafka.bootstrap_servers,
        "Triton's Python stub killed; an operator restarts Triton",
        triton=disposable_triton.grpc_url,
    )
    stream_with_faults(run, lambda: kill_stubs(disposable_triton), repair=disposable_triton.restart)
    assert_interpolation_during_the_fault(run)
    run.end()


def test_no_row_is_lost_when_triton_drains_and_restarts(
    kafka: Kafka, plant_scenario: MakeScenario, disposable_triton: LocalTriton
) -> None:
    run = plant_scenario(
        kafka.bootstrap_servers, "Triton drained (SIGTERM), then restarted", triton=disposable_triton.grpc_url
    )
    stream_with_faults(run, disposable_triton.restart, repair=lambda: None)
    assert_model_before_and_after(run)
    run.end()


def test_interpolation_replaces_the_model_while_triton_misses_its_deadline(
    kafka: Kafka, plant_scenario: MakeScenario, disposable_triton: LocalTriton
) -> None:
    with Proxy(port_of(disposable_triton.grpc_url)) as proxy:
        run = plant_scenario(
            kafka.bootstrap_servers, "Triton slow: 0.1 s, then 8 s per packet; deadline 5 s", triton=proxy.address
        )
        stream_with_faults(run, lambda: proxy.delay(0.1), lambda: proxy.delay(8), repair=proxy.heal)
    assert_interpolation_during_the_fault(run)
    run.end()


@pytest.mark.parametrize("way", ["held", "reset"])
def test_the_model_resumes_after_the_network_to_triton_recovers(
    way: str, kafka: Kafka, plant_scenario: MakeScenario, disposable_triton: LocalTriton
) -> None:
    with Proxy(port_of(disposable_triton.grpc_url)) as proxy:
        what_happens = "no data, connections stay open" if way == "held" else "connections reset repeatedly"
        run = plant_scenario(
            kafka.bootstrap_servers, f"network between worker and Triton: {what_happens}", triton=proxy.address
        )

        def reset_often() -> None:
            for _ in range(10):
                proxy.reset()
                time.sleep(0.3)

        stream_with_faults(run, proxy.hold if way == "held" else reset_often, repair=proxy.heal)
    assert_model_before_and_after(run)
    if way == "held":
        assert_interpolation_during_the_fault(run)
    run.end()


def test_a_corrupt_version_beside_the_good_one_does_not_stop_the_model(
    kafka: Kafka, plant_scenario: MakeScenario, tmp_path: Path
) -> None:
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    repository = tmp_path / "repository"
    model = repository / "plant-pump"
    shutil.copytree(CHECKOUT / "model_repo" / "plant-pump", model)
    with LocalTriton(repository, control_mode="poll", poll_s=1) as triton:
        run = plant_scenario(
            kafka.bootstrap_servers, "Triton loads a corrupt version beside the good one", triton=triton.grpc_url
        )

        def corrupt() -> None:
            bad = tmp_path / "bad"
            shutil.copytree(model / "1", bad)
            whole = (bad / "model.pt").read_bytes()
            (bad / "model.pt").write_bytes(whole[: len(whole) // 2])
            bad.rename(model / "2")  # an atomic rename, as a deployment should do
            wait_for(
                lambda: "failed to load 'plant-pump' version 2" in triton.log.read_text(), "Triton to try to load it"
            )

        stream_with_faults(run, corrupt, repair=lambda: None)
    assert_model_before_and_after(run)
    run.end()
