"""A plant for a month, minute by minute, as the series that Prometheus scrapes from its workers and Tritons.

Eight pumps send 50 readings a minute each by day, less at night and at weekends, over four partitions. Two workers
share the partitions, three on weekdays from 8 to 18, one at weekends. Counters begin again with every start of a
process.
"""

import random
from collections import Counter, defaultdict

from tests.monitoring.month_plan import DARK_PUMP, DAY, HOUR, INCIDENTS, MINUTES, PROMETHEUS_AWAY, STRAY_LETTERS, at
from tests.monitoring.notation import STALE, Value, compress

PARTITIONS = 4
PUMPS = 8
CAPACITY = 4000  # records a minute and partition, which matters after an outage only
MODELS = ("pump", "fan")
HERE = 'namespace="plant",release="line-1"'
WORKER = HERE + ',job="glaim-stream-worker",instance="line-1-worker-{}"'
TRITON = HERE + ',job="glaim-stream-triton",instance="line-1-triton-0"'
SECOND = 'namespace="plant",release="line-2"'

_WHEN = {incident.name: (incident.start, incident.end) for incident in INCIDENTS}


def series(seed: int) -> dict[str, str]:
    """Every series of the month in promtool's notation, by its name with labels."""
    return _Plant(seed).live()


def _during(name: str, minute: int) -> bool:
    start, end = _WHEN[name]
    return start <= minute < end


class _Process:
    """Counters of one process."""

    def __init__(self, started_s: int) -> None:
        self.started_s = started_s
        self.counts: Counter[str] = Counter()


class _Plant:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._out: dict[str, list[Value]] = defaultdict(lambda: [None] * MINUTES)
        self._workers: dict[int, _Process] = {}
        self._triton: _Process | None = None
        self._waiting = [0] * PARTITIONS
        self._arrived = [0] * PARTITIONS
        self._updated_s = [0] * PARTITIONS
        self._owner: list[int | None] = [None] * PARTITIONS
        self._moving: set[int] = set()
        self._due: dict[int, list[int]] = defaultdict(lambda: [0] * PARTITIONS)  # observed rows by minute
        self._lost = [0] * PARTITIONS  # of these, rows that will not come out
        self._overdue = [0] * PARTITIONS
        self._rests: Counter[str] = Counter()

    def live(self) -> dict[str, str]:
        for minute in range(MINUTES):
            self._start_and_stop(minute)
            self._assign()
            self._work(minute)
            if not PROMETHEUS_AWAY[0] <= minute < PROMETHEUS_AWAY[1]:
                self._scrape(minute)
                self._scrape_cluster(minute)
        for values in self._out.values():
            _mark_stale(values)
        return {name: compress(values) for name, values in sorted(self._out.items())}

    # --- processes
    def _wanted(self, minute: int) -> int:
        if minute // DAY % 7 >= 5:
            return 1
        return 3 if 8 * HOUR <= minute % DAY < 18 * HOUR else 2

    def _worker_runs(self, worker: int, minute: int) -> bool:
        """Tuesdays at 10 a deployment, one worker after the other; Sundays at 5 the only one moves to another node."""
        if _during("workers gone", minute) or worker >= self._wanted(minute):
            return False
        if worker == 2 and minute % DAY < 8 * HOUR + 2:
            return False
        day, begins = minute // DAY % 7, 10 * HOUR + 4 * (2 - worker)
        if day == 1 and begins <= minute % DAY < begins + 2:
            return False
        if day == 6 and 5 * HOUR <= minute % DAY < 5 * HOUR + 2:
            return False
        return not (worker == 0 and minute == _WHEN["readings lost"][0])

    def _triton_runs(self, minute: int) -> bool:
        rolled_out = minute // DAY % 7 == 1 and 11 * HOUR <= minute % DAY < 11 * HOUR + 3
        return not (rolled_out or _during("Triton dead", minute))

    def _start_and_stop(self, minute: int) -> None:
        for worker in range(3):
            if not self._worker_runs(worker, minute):
                self._workers.pop(worker, None)
            elif worker not in self._workers:
                self._workers[worker] = _Process(minute * 60)
        if not self._triton_runs(minute):
            self._triton = None
        elif self._triton is None:
            self._triton = _Process(minute * 60)

    def _assign(self) -> None:
        """Deal out the partitions of workers that left, and even out: one that moves has no worker for a minute."""
        for partition, owner in enumerate(self._owner):
            if owner is not None and owner not in self._workers:
                self._owner[partition] = None
                self._moving.add(partition)
        held = {name: [p for p, owner in enumerate(self._owner) if owner == name] for name in self._workers}
        for partition, owner in enumerate(self._owner):
            if owner is None and partition not in self._moving and held:
                least = min(held, key=lambda name: len(held[name]))
                self._owner[partition] = least
                held[least].append(partition)
        most = max(held, key=lambda name: len(held[name]), default=None)
        if most is not None and len(held[most]) > min(map(len, held.values())) + 1:
            self._owner[held[most][-1]] = None
        self._moving.clear()

    # --- a minute of work
    def _arrivals(self, minute: int) -> int:
        """Readings of a pump and minute."""
        hour, weekday = minute % DAY / HOUR, minute // DAY % 7 < 5
        load = (1.0 if 7 <= hour < 19 else 0.4) * (1.0 if weekday else 0.5)
        hourly = 4 if minute % HOUR == 0 else 0  # sensors that are read by hand
        return hourly + round(50 * load * self._random.uniform(0.9, 1.1))

    def _work(self, minute: int) -> None:
        dark = _dark(minute)
        for partition in range(PARTITIONS):
            pumps = [pump for pump in range(PUMPS) if pump % PARTITIONS == partition and pump not in dark]
            backlog = self._waiting[partition]
            self._arrived[partition] = sum(self._arrivals(minute) for _ in pumps)
            self._waiting[partition] += self._arrived[partition]
            owner = self._owner[partition]
            if owner is None:
                continue
            counts = self._workers[owner].counts
            if _during("broker out", minute):
                counts["glaim_publish_retries_total"] += 6
                continue
            if partition == 2 and _during("watermark frozen", minute):
                continue
            done = min(CAPACITY, self._waiting[partition])
            self._waiting[partition] -= done
            self._updated_s[partition] = minute * 60
            self._count(counts, minute, partition, done, min(done, backlog))
        self._happen(minute)

    def _count(self, counts: Counter[str], minute: int, partition: int, done: int, waited: int) -> None:
        counts["glaim_records_total"] += done
        counts["glaim_readings_total"] += done
        lost = self._share("lost", done * (0.003 if _during("slow burn of completeness", minute) else 0))
        self._due[minute + 2][partition] += done
        self._lost[partition] += lost
        filled = self._share("filled", done * 0.05)
        simple = self._share("simple", filled * self._interpolated(minute, partition))
        counts['glaim_rows_total{method="interpolation"}'] += simple
        counts['glaim_rows_total{method="blend"}'] += filled - simple
        slow = self._share("late", (done - waited) * (0.03 if _during("slow burn of timeliness", minute) else 0.001))
        late = min(done, waited + slow)
        counts['glaim_timed_rows_total{outcome="late"}'] += late
        counts['glaim_timed_rows_total{outcome="in_time"}'] += done + filled - late

    def _share(self, name: str, amount: float) -> int:
        """The whole part of an amount; the rest is kept for the next time."""
        self._rests[name] += amount  # type: ignore[assignment]
        whole = int(self._rests[name])
        self._rests[name] -= whole
        return whole

    def _interpolated(self, minute: int, partition: int) -> float:
        if self._triton is None:
            return 1
        if _during("one bad model version", minute) and partition % 2:
            return 1
        return 0.15 if _during("slow burn of the models' share", minute) else 0.015

    def _happen(self, minute: int) -> None:
        """Rows that are due, and what is counted now and then."""
        due = self._due.pop(minute, None)
        for partition, rows in enumerate(due or ()):
            owner = self._owner[partition]
            if owner is None or _during("broker out", minute):
                self._due[minute + 1][partition] += rows
                self._overdue[partition] = rows if owner is not None else 0
            else:
                self._overdue[partition] = 0
                missing, self._lost[partition] = self._lost[partition], 0
                counts = self._workers[owner].counts
                counts['glaim_rows_total{method="observed"}'] += rows - missing
                counts['glaim_due_rows_total{outcome="published"}'] += rows - missing
                counts['glaim_due_rows_total{outcome="missing"}'] += missing
        if not self._workers:
            return
        counts = self._workers[min(self._workers)].counts
        if minute == _WHEN["readings lost"][0] + 1:
            counts["glaim_lost_offsets_total"] += 5000
        if minute in STRAY_LETTERS:
            counts['glaim_dead_letters_total{cause="undecodable"}'] += 1
        if _during("dead letters burst", minute):
            counts['glaim_dead_letters_total{cause="unknown-sensor"}'] += 30
        if minute % (7 * DAY) == at(3, 2):  # the brokers are upgraded one after the other
            counts["glaim_publish_retries_total"] += 8
        if minute % (7 * DAY) == at(5, 6):  # a gateway delivers what it stored
            counts["glaim_late_readings_total"] += 300
        if minute == at(15, 5):
            counts["glaim_rebuild_failures_total"] += 1
        if self._triton is not None:
            for model in MODELS:
                self._answer(minute, model, counts)

    def _answer(self, minute: int, model: str, counts: Counter[str]) -> None:
        assert self._triton is not None
        bad = model == "fan" and _during("one bad model version", minute)
        version = "2" if bad else "1"
        name = f'{{model="{model}",version="{version}"'
        if bad:
            self._triton.counts[f'nv_inference_request_failure{name},reason="BACKEND"}}'] += 6
            return
        self._triton.counts[f'nv_inference_request_failure{name},reason="BACKEND"}}'] += 0
        self._triton.counts[f"nv_inference_request_success{name}}}"] += 60
        self._triton.counts[f"nv_inference_queue_duration_us{name}}}"] += 60 * self._random.randint(500, 4000)
        of = f'model="{model}",sensor="flow",position="edge"'
        for method in ("model", "baseline"):
            counts[f'glaim_score_questions_total{{{of},method="{method}"}}'] += 5
        counts[f'glaim_score_error_total{{{of},method="model"}}'] += self._random.randint(3, 5)
        counts[f'glaim_score_error_total{{{of},method="baseline"}}'] += self._random.randint(5, 7)
        counts[f'glaim_score_intervals_total{{model="{model}",position="edge"}}'] += 10
        counts[f'glaim_score_intervals_holding_total{{model="{model}",position="edge"}}'] += self._random.randint(8, 10)

    # --- scrapes
    def _scrape(self, minute: int) -> None:
        for worker in range(3):
            labels = WORKER.format(worker)
            process = self._workers.get(worker)
            if process is None:
                if worker < self._wanted(minute) and not _during("workers gone", minute):
                    self._write(minute, "up", labels, 0)  # the container restarts, the pod stays
                continue
            self._write(minute, "up", labels, 1)
            self._write(minute, "process_start_time_seconds", labels, process.started_s)
            self._write(minute, 'glaim_health{page="ready"}', labels, 0 if minute * 60 - process.started_s < 180 else 1)
            self._write(minute, "glaim_input_partitions", labels, PARTITIONS)
            for name in ALWAYS:
                process.counts[name] += 0
            for name, count in process.counts.items():
                self._write(minute, name, labels, count)
            for partition, owner in enumerate(self._owner):
                if owner == worker:
                    self._scrape_partition(minute, partition, labels)
            self._scrape_models(minute, worker, labels)
            # Kafka's certificate is renewed late; Triton's lives for a day and is renewed after 16 hours.
            end = _WHEN["certificate near its end"][0] * 60 + 14 * 86_400
            renewed = 90 * 86_400 if minute >= _WHEN["certificate near its end"][1] else 0
            name = "glaim_certificate_expires_timestamp_seconds"
            self._write(minute, name + '{use="kafka",file="certificate"}', labels, end + renewed)
            short = (minute // (16 * HOUR) * 16 + 24) * 3600
            self._write(minute, name + '{use="triton",file="certificate"}', labels, short)

    def _scrape_partition(self, minute: int, partition: int, labels: str) -> None:
        hour = minute % DAY / HOUR
        # In the morning the lag grows for two hours, up to what arrives within 20 s.
        ramp = int(self._arrived[partition] / 3 * (hour - 6) / 2) if 6 <= hour < 8 else 0
        lag = self._waiting[partition] + ramp + self._random.randint(0, 3)
        of = f'{{partition="{partition}"}}'
        self._write(minute, f"glaim_consumer_lag_records{of}", labels, lag)
        self._write(minute, f"glaim_watermark_updated_timestamp_seconds{of}", labels, self._updated_s[partition])
        self._write(minute, f"glaim_overdue_rows{of}", labels, self._overdue[partition])
        here = {pump for pump in range(PUMPS) if pump % PARTITIONS == partition}
        dark = len(here & _dark(minute))
        self._write(minute, f"glaim_dark_groups{of}", labels, dark)
        self._write(minute, f"glaim_speaking_groups{of}", labels, len(here) - dark)

    def _scrape_models(self, minute: int, worker: int, labels: str) -> None:
        for model in MODELS:
            bad = self._triton is None or (model == "fan" and _during("one bad model version", minute))
            of = f'{{imputer="triton",model="{model}"}}'
            self._write(minute, f"glaim_imputer_state{of}", labels, 2 - minute % 7 // 6 if bad else 0)

    def _scrape_cluster(self, minute: int) -> None:
        if self._triton is not None:
            self._write(minute, "up", TRITON, 1)
            for name, count in self._triton.counts.items():
                self._write(minute, name, TRITON, count)
        elif not _during("Triton dead", minute):
            self._write(minute, "up", TRITON, 0)
        workers = HERE + ',statefulset="line-1-worker"'
        self._write(minute, "glaim:release:workers_wanted", workers, 2)
        self._write(minute, "glaim:release:tritons_wanted", HERE + ',deployment="line-1-triton"', 1)
        of = 'namespace="plant",statefulset="line-1-worker"'
        self._write(minute, "kube_statefulset_replicas", of, self._wanted(minute))
        self._scrape_second(minute)

    def _scrape_second(self, minute: int) -> None:
        """A release that is installed, pending for a day, running without input for a day, and removed."""
        start, end = _WHEN["pending since the installation"]
        if start <= minute < end + DAY:
            self._write(minute, "glaim:release:workers_wanted", SECOND + ',statefulset="line-2-worker"', 1)
        if end <= minute < end + DAY:
            labels = SECOND + ',job="glaim-stream-worker",instance="line-2-worker-0"'
            self._write(minute, "up", labels, 1)
            self._write(minute, "process_start_time_seconds", labels, end * 60)
            self._write(minute, "glaim_input_partitions", labels, 1)
            self._write(minute, 'glaim_consumer_lag_records{partition="0"}', labels, 0)

    def _write(self, minute: int, name: str, labels: str, value: float) -> None:
        metric, _, own = name.partition("{")
        self._out[f"{metric}{{{labels}{',' + own[:-1] if own else ''}}}"][minute] = value


# Counters that exist from the start of a process, before they count.
ALWAYS = (
    "glaim_records_total",
    "glaim_readings_total",
    'glaim_due_rows_total{outcome="published"}',
    'glaim_due_rows_total{outcome="missing"}',
    'glaim_dead_letters_total{cause="undecodable"}',
    'glaim_dead_letters_total{cause="unknown-sensor"}',
    "glaim_late_readings_total",
    "glaim_worker_faults_total",
    "glaim_publish_retries_total",
    "glaim_rebuild_failures_total",
    "glaim_retention_shortfalls_total",
    "glaim_lost_offsets_total",
    'glaim_rows_total{method="observed"}',
    'glaim_rows_total{method="blend"}',
    'glaim_rows_total{method="interpolation"}',
    'glaim_rows_total{method="last_value"}',
    'glaim_timed_rows_total{outcome="late"}',
    'glaim_timed_rows_total{outcome="in_time"}',
)


def _dark(minute: int) -> set[int]:
    if _during("30 % of the groups dark", minute):
        return {0, 1, 2}
    return {3} if DARK_PUMP[0] <= minute < DARK_PUMP[1] else set()


def _mark_stale(values: list[Value]) -> None:
    """Mark where a series ends, except while Prometheus was away."""
    for minute in range(1, MINUTES):
        away = PROMETHEUS_AWAY[0] <= minute < PROMETHEUS_AWAY[1]
        if values[minute] is None and isinstance(values[minute - 1], int | float) and not away:
            values[minute] = STALE
