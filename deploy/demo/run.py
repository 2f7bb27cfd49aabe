"""Runs the demo from start to finish."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deploy.demo import measure
from deploy.demo.grid import holes_by_method
from deploy.demo.open_page import open_page
from deploy.demo.options import Options
from deploy.demo.report import write_report
from deploy.demo.scenario import BEIJING_FILE, Scenario, beijing, plant
from deploy.demo.screen import Counters, Screen
from deploy.demo.stage import Stage, fetch_parts, running_stage
from deploy.demo.summary import Summary, machine, write
from deploy.demo.topic import Progress, Records, read_topic
from deploy.demo.watch import Seen, Watcher, latency_percentiles
from deploy.errors import ServerFailed
from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.contract import read_contract
from glaim_stream.core.settings import Settings
from glaim_stream.feed import ProduceReport, hide, produce, write_hidden
from glaim_stream.operate.audit import PROBLEMS, AuditReport, audit
from glaim_stream.output import Method, newest_revisions

DRAIN_DEADLINE_S = 120.0


def run(options: Options, screen: Screen, command: str) -> Summary:
    """Run the demo and write its files.

    Raises:
        GlaimError, DeployError: A part could not be set up, fetched, started or finished; the message names it.
    """
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    screen.phase("fetching missing parts")
    problem = fetch_parts(options.imputer, screen.info)
    screen.phase("preparing the readings")
    scenario = _scenario(options, screen)
    contract = read_contract(options.model_repository / scenario.model.name)
    with tempfile.TemporaryDirectory(prefix="glaim-demo-") as scratch:
        truth_file = Path(scratch) / "hidden.parquet"
        hidden = hide(scenario.source, options.hide, seed=options.seed)
        write_hidden(scenario.source, hidden, truth_file)
        truth = pq.read_table(truth_file)
    visible = scenario.source.where(~hidden.mask)
    with contextlib.ExitStack() as parts:
        stage = parts.enter_context(
            running_stage(
                scenario,
                imputer=options.imputer,
                triton_problem=problem,
                model_repository=options.model_repository,
                folder=out,
                phase=lambda name: screen.phase(f"starting {name}"),
                report=screen.info,
            )
        )
        for note in stage.notes:
            screen.warn(note)
        settings = stage.settings
        screen.info(f"watch it live: {stage.page}")
        if options.open:
            open_page(stage.page)
        with Watcher(settings) as watcher:
            screen.phase("streaming")
            with _counting(screen, watcher.seen, len(visible)) as on_progress:
                start_s = time.monotonic()
                sent = produce(settings, visible, speed=scenario.speed, on_progress=on_progress)
                screen.phase("waiting for the last rows")
                records = read_topic(settings, settings.input_topic)
                answered_s = _drain(stage, watcher, screen, sent, records) - start_s
            seen = watcher.seen
        screen.phase("auditing")
        audited = audit(settings)
        screen.phase("running closed form and baselines on the same records")
        others = measure.others(scenario.grid, scenario.catalogue, records, options.model_repository)
        screen.phase("scoring and drawing")
        rows = pa.concat_tables(seen.tables).unify_dictionaries().combine_chunks()
        measured = measure.measure(scenario.grid, scenario.model, contract, [rows], truth, others)
        arrow_file, arrow_rows = _write_arrow(rows, out / "imputed.arrow")
        summary = _summary(scenario, stage, sent, answered_s, seen, audited, measured)
        summary.arrow_file, summary.arrow_rows, summary.command = str(arrow_file), arrow_rows, command
        screen.end_phase()
        summary.seconds = dict(screen.seconds)
        write(summary, out / "summary.json")
        write_report(summary, measured, scenario, out / "report.html")
        if options.keep:
            _keep(stage, screen)
        screen.phase("stopping")
    screen.end_phase()
    return summary


def _keep(stage: Stage, screen: Screen) -> None:
    """Wait for Ctrl-C while Kafka, Triton and the worker run on.

    Raises:
        ServerFailed: The worker ended by itself.
    """
    screen.info(f"the page stays at {stage.page}, and Kafka at {stage.settings.kafka}: Ctrl-C ends the demo")
    with contextlib.suppress(KeyboardInterrupt):
        while stage.worker.running:
            time.sleep(1.0)
        raise ServerFailed(f"the worker ended by itself; its log is {stage.worker.log}")


def _scenario(options: Options, screen: Screen) -> Scenario:
    wanted = options.scenario
    if wanted is None:
        there = options.data is not None and (options.data / BEIJING_FILE).is_file()
        wanted = "beijing" if there else "plant"
        if options.data is not None and not there:
            screen.warn(f"GLAIM_DATA is {options.data}, which contains no {BEIJING_FILE}: streaming the plant instead")
    if wanted == "plant":
        return plant(hours=options.hours, groups=options.groups, speed=options.speed, seed=options.seed)
    return beijing(options.data or Path(), hours=options.hours, groups=options.groups, speed=options.speed)


@contextlib.contextmanager
def _counting(screen: Screen, seen: Seen, to_send: int) -> Iterator[Callable[[int, int], None]]:
    """Yield the progress callback for `produce`; the counters stay on the screen until the block ends."""
    counters = Counters(to_send=to_send)

    def update(sent: int, _: int) -> None:
        counters.sent = sent
        counters.rows, counters.filled = seen.rows, dict(seen.filled)
        screen.count(counters)

    try:
        yield update
    finally:
        screen.stop_counting()


def _drain(stage: Stage, watcher: Watcher, screen: Screen, sent: ProduceReport, records: Records) -> float:
    """Wait until the worker has committed every record and the clock has closed the last open steps.

    Returns:
        Monotonic time of the commit of the last record.

    Raises:
        ServerFailed: The worker ended, or did not finish in time.
    """
    if sent.failed_messages:
        raise ServerFailed(f"Kafka did not accept {sent.failed_messages:,} of {sent.messages:,} messages: {sent.error}")
    give_up_s = time.monotonic() + DRAIN_DEADLINE_S
    answered_s = math.nan
    newest_ms = _newest_input_ms(records)
    counters = Counters(sent.readings, sent.readings)
    with Progress(stage.settings) as progress:
        while True:
            watcher.check()
            if not stage.worker.running:
                raise ServerFailed(f"the worker ended by itself; its log is {stage.worker.log}")
            counters.behind = progress.behind()
            counters.rows, counters.filled = watcher.seen.rows, dict(watcher.seen.filled)
            screen.count(counters)
            if counters.behind == 0 and math.isnan(answered_s):
                answered_s = time.monotonic()
            if counters.behind == 0 and _closed(stage.settings, watcher.seen, newest_ms):
                break
            if time.monotonic() > give_up_s:
                raise ServerFailed(
                    f"the output was not complete after {DRAIN_DEADLINE_S:.0f} s: {counters.behind:,} records are not "
                    f"committed; the worker's log is {stage.worker.log}"
                )
            time.sleep(0.1)
    screen.stop_counting()
    if not watcher.catch_up(DRAIN_DEADLINE_S):
        raise ServerFailed("the output topic could not be read to its end")
    watcher.check()
    return answered_s


def _newest_input_ms(records: Records) -> dict[int, int]:
    """Event time of the newest reading of each partition; the readings were sent in order of event time."""
    return {partition: int(json.loads(part[-1].value)["ts"]) for partition, part in records.items() if part}


def _closed(settings: Settings, seen: Seen, newest_ms: dict[int, int]) -> bool:
    """True once each partition's output reaches the step of its newest reading."""
    step_ms = read_catalogue(settings.catalogue).models[0].step_ms
    return all(seen.newest_ms.get(partition, -1) >= ms // step_ms * step_ms for partition, ms in newest_ms.items())


def _write_arrow(rows: pa.Table, path: Path) -> tuple[Path, int]:
    """Write the newest row of every cell into an Arrow file; returns its path and number of rows."""
    table = newest_revisions([rows])
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return path, table.num_rows


def _summary(
    scenario: Scenario,
    stage: Stage,
    sent: ProduceReport,
    answered_s: float,
    seen: Seen,
    audited: AuditReport,
    measured: measure.Measured,
) -> Summary:
    holes = holes_by_method(measured.result)
    p50, p99 = latency_percentiles(seen.latency_ms, seen.latency_rows, (50, 99))
    problems = [f"{finding.count:,} {PROBLEMS[name]}" for name, finding in audited.problems.items() if finding.count]
    return Summary(
        scenario=scenario.name,
        title=scenario.title,
        detail=scenario.detail,
        readings_in=sent.readings,
        readings_out=int((measured.result.newest_method == Method.OBSERVED).sum()),
        dead_letters=seen.dead_letters,
        lost=audited.lost,
        holes=sum(holes.values()),
        hidden=int(np.isfinite(measured.truth).sum()),
        filled=holes,
        rows_out=seen.rows,
        mae=measured.final.mae,
        scores={
            "final": measured.final.document(),
            "provisional": measured.provisional.document(),
            "by_kind": {kind: part.document() for kind, part in measured.by_kind.items()},
        },
        interval_coverage=measured.interval_coverage,
        interval_level=measured.interval_level,
        latency_ms={"p50": p50, "p99": p99},
        readings_per_second=sent.readings / answered_s,
        speed=scenario.speed,
        hours=scenario.hours,
        imputer=stage.imputer,
        kafka=stage.kafka,
        machine=machine(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        audit={"clean": audited.clean, "counts": audited.counts, "warnings": audited.warnings},
        notes=stage.notes,
        problems=problems,
    )
