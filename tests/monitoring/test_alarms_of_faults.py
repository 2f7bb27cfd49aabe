"""Faults done to the running system, and whom they alarm: the right alert and no other, and its end."""

from __future__ import annotations

import signal
import threading

import pytest
from kafka import KafkaProducer

from tests.monitoring.system import System

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


def test_a_gateway_that_is_unplugged(system: System) -> None:
    expected = {"GlaimInputSilent"}
    with system.expecting(expected):
        system.feed.send_signal(signal.SIGSTOP)
        system.wait_for(expected)
        system.feed.send_signal(signal.SIGCONT)


def test_the_only_worker_is_killed_and_comes_back(system: System) -> None:
    expected = {"GlaimWorkersGone"}  # which explains GlaimWorkerDown, and Alertmanager holds that back
    with system.expecting(expected):
        system.worker.kill()
        system.wait_for(expected)
        system.worker.start()


def test_a_gateway_with_a_new_format(system: System) -> None:
    expected = {"GlaimDeadLettersRising"}
    enough = threading.Event()

    def send_rubbish() -> None:
        producer = KafkaProducer(bootstrap_servers=system.worker.settings.kafka)
        while not enough.wait(0.05):
            producer.send(system.worker.settings.input_topic, b'{"grp": "pump-1", "val": 3}')
        producer.close()

    gateway = threading.Thread(target=send_rubbish)
    with system.expecting(expected):
        gateway.start()
        try:
            system.wait_for(expected)
        finally:
            enough.set()
            gateway.join()
