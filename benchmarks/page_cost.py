"""What the worker's page costs under load: readings per second of CPU time with a viewer, beside without a page.

    python -m benchmarks.page_cost                # pairs of runs of the closed form on the simulated plant

A topic is full of readings, and a worker fills their holes on one core, in turn without a page and with one whose
viewer watches a group as a browser does: one stream of events, read as they come. CPU time counts, of the whole
process, because it depends least on other load of the machine. Beside it stands what the page itself has booked, as a
share of the process's CPU time: two runs differ by more than the page costs.
"""

from __future__ import annotations

import argparse
import http.client
import statistics
import sys
import threading
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from benchmarks import machine
from benchmarks.bench import Bench, Result, prepared
from benchmarks.engines.glaim import Glaim
from benchmarks.measure import EngineFailed, run
from benchmarks.whole import REPOSITORY, PlantLoad
from deploy.ports import LOOPBACK, choose_port

WARM_UP_S = 2.0
MOST_PER_S = 80_000  # readings for which the topic is filled


@dataclass
class Viewer:
    """A browser that watches a group of a page; waits for the page, and reads until it is stopped."""

    port: int
    group: str
    metrics_port: int
    events: int = 0
    booked: float = float("nan")  # by the page since the first event, as a share of the process's CPU time
    _before: tuple[float, float] = (0.0, 0.0)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin in a thread of its own."""
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """Let go of the page, and read what it has booked; the worker is still there."""
        self._stopped.set()
        page_s, process_s = (now - before for now, before in zip(self._spent_s(), self._before, strict=True))
        self.booked = page_s / process_s

    def _spent_s(self) -> tuple[float, float]:
        """CPU seconds that the page has booked, and those of the process."""
        families = text_string_to_metric_families(_metrics_page(self.metrics_port))
        found = {sample.name: sample.value for family in families for sample in family.samples}
        return found["glaim_page_cpu_seconds_total"], found["process_cpu_seconds_total"]

    def _watch(self) -> None:
        while not self._stopped.wait(0.2):
            connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=30)
            try:
                connection.request("GET", f"/api/stream?group={self.group}")
                answer = connection.getresponse()
                while answer.status == 200 and not self._stopped.is_set() and (line := answer.readline()):
                    if line.startswith(b"event:"):
                        self._before = self._before if self.events else self._spent_s()
                        self.events += 1
            except OSError:
                continue  # the page is not there yet, or no longer
            finally:
                connection.close()


def measure(bench: Bench, seconds: float, pairs: int) -> Result:
    """Run the pairs; the columns of a line."""
    load = PlantLoad(int((seconds + WARM_UP_S) * MOST_PER_S))
    topic, filled = bench.fill(load, "page-readings")
    settings = {"GLAIM_IMPUTER": "gaussian", "GLAIM_MODEL_REPOSITORY": str(REPOSITORY)}
    ratios, booked, events = list[float](), list[float](), list[int]()
    for pair in range(pairs):
        per_cpu_s = {}
        for name in ("without", "with") if pair % 2 else ("with", "without"):  # neither always comes first
            viewer = Viewer(choose_port(), load.names[0], choose_port())
            pages = {"GLAIM_PAGE_PORT": str(viewer.port), "GLAIM_PAGE_HOST": LOOPBACK} if name == "with" else {}
            if pages:
                viewer.start()
            run_name = f"page-{name}-{pair}"
            engine = Glaim(run_name, settings=settings | pages | {"GLAIM_METRICS_PORT": str(viewer.metrics_port)})
            rate = run(
                engine, bench.job(load, filled, topic, run_name), cores=bench.engine_core, warm_up_s=WARM_UP_S,
                seconds=seconds, at_end=viewer.stop,
            )  # fmt: skip
            per_cpu_s[name] = rate.per_cpu_s
            if pages:
                events.append(viewer.events)
                booked.append(viewer.booked)
        ratios.append(per_cpu_s["with"] / per_cpu_s["without"])
        bench.console.print(
            f"pair {pair + 1}: {ratios[-1]:.4f} of the rate without a page, booked {booked[-1]:.2%}, "
            f"{events[-1]} events"
        )
    if min(events) == 0:
        raise EngineFailed("a viewer saw no event, so nothing was measured")
    return {
        "pairs": pairs, "share_p50": round(statistics.median(ratios), 4), "share_min": round(min(ratios), 4),
        "share_max": round(max(ratios), 4), "booked_p50": round(statistics.median(booked), 5),
        "booked_max": round(max(booked), 5), "events_p50": statistics.median(events), "seconds": seconds,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and append one line to results/page_cost.jsonl."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page_cost", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=8, help="duration of each run (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs (default: %(default)s)")
    options = parser.parse_args(arguments)
    console = Console()
    try:
        with prepared(console) as bench:
            result = measure(bench, options.seconds, options.pairs)
    except EngineFailed as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    described = machine.describe("python -m benchmarks.page_cost " + " ".join(sys.argv[1:]))
    console.print(f"appended to {machine.append('page_cost', described | result)}: {result}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())


def _metrics_page(port: int) -> str:
    """The metrics of a worker, as text."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=30) as answer:
        page: str = answer.read().decode()
    return page
