"""Rates, lag, accuracy and versions from the worker's own metrics, so that page and scraper show the same numbers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client.metrics import MetricWrapperBase

from glaim_stream.core import metrics
from glaim_stream.windows import Place

RATE_S = 10.0  # least time that rates are means over
RECENT_S = 600.0  # approximate time that errors are means over
_SAMPLES = 6
_FIRST = (Place.EDGE.name.lower(), Place.ROW_EDGE.name.lower())
_COUNTERS = {"readings": metrics.readings, "rows": metrics.rows, "dead_letters": metrics.dead_letters,
             "late": metrics.late_readings, "faults": metrics.worker_faults}  # fmt: skip

Sums = dict[tuple[str, ...], float]


class Throughput:
    """The totals, rates and lag of the worker."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic, clock_s: Callable[[], float] = time.time) -> None:
        self._now_s, self._clock_s = now_s, clock_s
        self._past: deque[tuple[float, Sums]] = deque(maxlen=60)

    def read(self) -> dict[str, Any]:
        """Return the current figures as a JSON document."""
        now_s, sums = self._now_s(), _totals()
        while len(self._past) > 1 and self._past[1][0] <= now_s - RATE_S:
            self._past.popleft()
        before_s, before = self._past[0] if self._past else (now_s, sums)
        if not self._past or now_s - self._past[-1][0] >= RATE_S / 20:
            self._past.append((now_s, sums))
        passed_s = now_s - before_s
        rates = {
            name: None if passed_s < 1 else (sums[name,] - before[name,]) / passed_s for name in ("readings", "rows")
        }
        return {
            "total": {name: sums[name,] for name in _COUNTERS},
            "per_s": rates,
            "filled": {key[1]: count for key, count in sums.items() if key[0] == "method" and count},
            "lag_records": _sum(metrics.consumer_lag_records),
            "behind_s": self._behind_s(),
            "latency_ms": {
                name: _quantile_ms(share, sums, before if passed_s >= 1 else {})
                for name, share in (("p50", 0.5), ("p99", 0.99))
            },
            "partitions_of_topic": _sum(metrics.input_partitions),
        }  # fmt: skip

    def _behind_s(self) -> float | None:
        """The largest lag of a newest event time behind the clock, which also grows while nothing arrives."""
        newest_s = [value for _, value in _samples(metrics.newest_event_seconds)]
        return None if not newest_s else self._clock_s() - min(newest_s)


class Accuracy:
    """Live errors on hidden readings for models that a browser shows."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._past: dict[str, deque[tuple[float, Sums]]] = {}

    def keep(self, models: set[str]) -> None:
        """Drop the samples of models that no browser shows."""
        self._past = {name: past for name, past in self._past.items() if name in models}

    def read(self, model: str) -> dict[str, Any]:
        """Return the figures of a model as a JSON document: errors, coverage, and pairs of versions."""
        now_s, sums = self._now_s(), _score_sums(model)
        past = self._past.setdefault(model, deque([(now_s, {})], maxlen=_SAMPLES))  # the first one: since the start
        while len(past) > 1 and past[1][0] <= now_s - RECENT_S:
            past.popleft()
        if now_s - past[-1][0] >= RECENT_S / (_SAMPLES - 1):
            past.append((now_s, sums))
        before = past[0][1]
        recent = {key: value - before.get(key, 0.0) for key, value in sums.items()}
        held, judged = recent.get(("held",), 0.0), recent.get(("judged",), 0.0)
        return {
            "since_start": not before,
            "errors": _errors(recent),
            "coverage": None if not judged else held / judged,
            "judged": judged,
            "compared": _compared(model),
        }


def known_versions(model: str) -> list[str]:
    """Versions of a model's network with a contract that the worker has read."""
    return sorted(sample["version"] for sample in _labels(metrics.model_info) if sample["model"] == model)


def refused_versions(model: str) -> dict[str, str]:
    """Versions of a model's network that are out of service, with reasons."""
    labels = [sample for sample in _labels(metrics.model_version_refused) if sample["model"] == model]
    return {sample["version"]: sample["reason"] for sample in labels}


def _errors(recent: Sums) -> dict[str, dict[str, dict[str, float]]]:
    """Mean absolute errors by place (`first`, `final`), sensor and method; `count` is the number of hidden readings."""
    out: dict[str, dict[str, dict[str, float]]] = {"first": {}, "final": {}}
    for (what, *rest), value in recent.items():
        if what == "questions" and value > 0:
            place, sensor = rest
            out[place].setdefault(sensor, {})["count"] = value
    for (what, *rest), value in recent.items():
        if what == "error":
            place, sensor, method = rest
            of_sensor = out[place].get(sensor)
            if of_sensor:
                of_sensor[method] = value / of_sensor["count"]
    return out


def _compared(model: str) -> list[dict[str, Any]]:
    """Errors of pairs of versions on the same hidden readings, since both have answered some.

    Each ordered pair `version` and `against` has, by place and sensor, the `count` of readings and both mean absolute
    errors, `own` and `other`.
    """
    sums: dict[tuple[str, str, str, str], dict[str, float]] = {}
    for name, counter in (("error", metrics.shadow_error), ("count", metrics.shadow_questions)):
        for labels, value in _samples(counter):
            if labels["model"] == model:
                key = labels["version"], labels["against"], _place(labels), labels["sensor"]
                of_key = sums.setdefault(key, {"error": 0.0, "count": 0.0})
                of_key[name] += value
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for (version, against, place, sensor), own in sorted(sums.items()):
        other = sums.get((against, version, place, sensor))
        if other is None or not own["count"] or not other["count"]:  # only just counted
            continue
        pair = found.setdefault((version, against), {"version": version, "against": against, "first": {}, "final": {}})
        means = {"own": own["error"] / own["count"], "other": other["error"] / other["count"]}
        pair[place][sensor] = {"count": own["count"], **means}
    return list(found.values())


def _score_sums(model: str) -> Sums:
    sums: Sums = {}

    def add(key: tuple[str, ...], value: float) -> None:
        sums[key] = sums.get(key, 0.0) + value

    for labels, value in _samples(metrics.score_error):
        if labels["model"] == model:
            add(("error", _place(labels), labels["sensor"], labels["method"]), value)
    for labels, value in _samples(metrics.score_questions):
        if labels["model"] == model:
            add(("questions", _place(labels), labels["sensor"]), value)
    for name, counter in (("judged", metrics.score_intervals), ("held", metrics.score_intervals_holding)):
        for labels, value in _samples(counter):
            if labels["model"] == model:
                add((name,), value)
    return sums


def _place(labels: Mapping[str, str]) -> str:
    return "first" if labels["position"] in _FIRST else "final"


def _totals() -> Sums:
    sums: Sums = {(name,): _sum(counter) for name, counter in _COUNTERS.items()}
    for labels, value in _samples(metrics.rows):
        sums["method", labels["method"]] = value
    for sample in next(iter(metrics.output_latency_seconds.collect())).samples:
        if sample.name.endswith("_bucket"):
            sums["latency", sample.labels["le"]] = sample.value
    return sums


def _quantile_ms(share: float, sums: Sums, before: Sums) -> float | None:
    """A quantile of the histogram's change, interpolated within its bucket; None without a change."""
    buckets = sorted(
        (float(key[1]), value - before.get(key, 0.0)) for key, value in sums.items() if key[0] == "latency"
    )
    if not buckets or buckets[-1][1] <= 0:
        return None
    wanted, low, below = share * buckets[-1][1], 0.0, 0.0
    for high, count in buckets:
        if count >= wanted:
            inside = (wanted - below) / (count - below) if count > below else 1.0
            return 1000 * (low if high == float("inf") else low + inside * (high - low))
        low, below = high, count
    return None


def _samples(metric: MetricWrapperBase) -> list[tuple[Mapping[str, str], float]]:
    return [
        (sample.labels, sample.value)
        for family in metric.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]


def _labels(metric: MetricWrapperBase) -> list[Mapping[str, str]]:
    return [labels for labels, _ in _samples(metric)]


def _sum(metric: MetricWrapperBase) -> float:
    return sum(value for _, value in _samples(metric))
