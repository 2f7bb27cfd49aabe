"""Causes the faults of a schedule: one thread for each lane, so that the faults of different lanes overlap."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

from tests.chaos.harness import fill_disk
from tests.chaos.proxy import Proxy
from tests.chaos.randomised.parts import LATENCY_S, Parts, paused, wait_until
from tests.chaos.randomised.schedule import WORKERS, Fault

STOP_GRACE_S = 10.0
FULL_S = 6.0  # the broker exits when it cannot write; without a write it does not notice


@dataclass(frozen=True, slots=True)
class Done:
    """A fault as it happened: seconds from the start of the stream, and the messages sent when it began and ended."""

    fault: Fault
    began_s: float
    ended_s: float
    sent_before: int
    sent_after: int


class Chaos:
    """The faults of a run."""

    def __init__(self, parts: Parts, faults: Sequence[Fault], sent: Callable[[], int]) -> None:
        """Prepare.

        Args:
            parts: to damage.
            faults: the schedule.
            sent: the number of messages sent so far.
        """
        self._parts, self._faults, self._sent = parts, faults, sent
        self.done: list[Done] = []
        self.errors: list[str] = []

    def run(self, start_s: float) -> None:
        """Cause all faults, undo them, and return.

        Args:
            start_s: when the stream started, by time.monotonic().
        """
        lanes = {fault.lane for fault in self._faults}
        threads = [Thread(target=self._run_lane, args=(lane, start_s), daemon=True) for lane in sorted(lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run_lane(self, lane: str, start_s: float) -> None:
        for fault in (each for each in self._faults if each.lane == lane):
            time.sleep(max(0.0, start_s + fault.at_s - time.monotonic()))
            began_s, before = time.monotonic() - start_s, self._sent()
            if began_s > max(each.end_s for each in self._faults):
                return  # its lane is so late, on a slow machine, that the stream would be over
            try:
                with self._caused(fault):
                    time.sleep(fault.seconds)
            except Exception as error:  # a fault that could not be caused makes the run worthless
                self.errors.append(f"{fault}: {error!r}")
            self.done.append(Done(fault, began_s, time.monotonic() - start_s, before, self._sent()))

    @contextmanager
    def _caused(self, fault: Fault) -> Iterator[None]:
        part, _, number = fault.lane.partition(" ")
        if part == "worker":
            yield from self._process(int(number), fault)
        elif part == "network":
            if number.isdigit():
                yield from _network(self._parts.members[int(number)].network, fault, LATENCY_S)
            else:
                yield from _network(self._parts.model_network, fault, 0.0)
        elif part == "clock":
            member = self._parts.members[int(number)]
            member.set_clock(fault.amount)
            yield
            member.set_clock(0)
        elif part == "group":
            third = self._parts.members[WORKERS]
            third.start()
            yield
            third.kill() if fault.kind.endswith("killed") else third.stop(STOP_GRACE_S)
        elif part == "broker":
            yield from self._broker(fault)
        else:
            with paused(self._parts.triton):
                yield

    def _process(self, number: int, fault: Fault) -> Iterator[None]:
        member = self._parts.members[number]
        if fault.kind.startswith("pause"):
            with member.paused():
                yield
            return
        member.kill() if fault.kind == "kill" else member.stop(STOP_GRACE_S)
        yield
        member.start()

    def _broker(self, fault: Fault) -> Iterator[None]:
        broker, disk = self._parts.broker, self._parts.small_disk
        if fault.kind == "pause":
            with paused(broker):
                yield
            return
        filler = disk / "filler" if disk is not None and fault.kind == "full disk" else None
        if filler is not None:
            fill_disk(filler)
            wait_until(lambda: not broker.running, FULL_S)
        broker.kill()
        yield
        if filler is not None:
            filler.unlink()
        broker.restart()


def _network(proxy: Proxy, fault: Fault, latency_s: float) -> Iterator[None]:
    if fault.kind == "reset":
        for _ in range(round(fault.amount)):
            proxy.reset()
            time.sleep(0.3)
        yield
        return
    if fault.kind == "slow":
        proxy.delay(fault.amount)
    else:
        proxy.hold()
    yield
    proxy.heal()
    proxy.delay(latency_s)
