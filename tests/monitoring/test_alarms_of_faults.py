"""Each fault of the running system fires its alert and no other, and the alert resolves after the repair."""

import signal
import threading

import pytest
from kafka import KafkaProducer

from tests.monitoring.system import System

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


def test_an_unplugged_gateway_fires_input_silent(system: System) -> None:
    expected = {"GlaimInputSilent"}
    with system.expecting(expected):
        system.feed.send_signal(signal.SIGSTOP)
        system.wait_for(expected)
        system.feed.send_signal(signal.SIGCONT)


def test_a_killed_worker_fires_workers_gone_until_it_restarts(system: System) -> None:
    expected = {"GlaimWorkersGone"}  # Alertmanager inhibits GlaimWorkerDown, which follows from it
    with system.expecting(expected):
        system.worker.kill()
        system.wait_for(expected)
        system.worker.start()


def test_a_gateway_with_a_new_format_fires_dead_letters_rising(system: System) -> None:
    expected = {"GlaimDeadLettersRising", "GlaimDeadLetterSeen"}
    stop_sending = threading.Event()

    def send_unusable_records() -> None:
        producer = KafkaProducer(bootstrap_servers=system.worker.settings.kafka)
        while not stop_sending.wait(0.05):
            producer.send(system.worker.settings.input_topic, b'{"grp": "pump-1", "val": 3}')
        producer.close()

    gateway = threading.Thread(target=send_unusable_records)
    with system.expecting(expected):
        gateway.start()
        try:
            system.wait_for(expected)
        finally:
            stop_sending.set()
            gateway.join()
