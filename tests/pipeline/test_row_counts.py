"""Metrics of published rows; tests/monitoring/test_series.py tests the ages of filled gaps."""

import numpy as np
from prometheus_client import REGISTRY

from glaim_stream.core.vocabulary import Method, Status
from glaim_stream.output import Rows
from glaim_stream.pipeline.accuracy import count_rows


def rows(methods: list[Method], revisions: list[int], statuses: list[Status]) -> Rows:
    count = len(methods)
    zeros = np.zeros(count, np.int32)
    method = np.array(methods, np.int8)
    value = np.where(method == Method.NONE, np.nan, 1).astype(np.float64)
    return Rows(
        group=zeros,
        sensor=zeros,
        ts_ms=zeros.astype(np.int64),
        event_time_ms=zeros.astype(np.int64),
        value=value,
        observed=method == Method.OBSERVED,
        method=method,
        status=np.array(statuses, np.uint32),
        lower=value,
        upper=value,
        gap_age=zeros + 1,
        revision=np.array(revisions, np.int16),
        final=np.ones(count, np.bool_),
        version=zeros,
    )


def counts() -> dict[str, float]:
    found = {}
    for method in Method:
        labels = {"method": method.name.lower()}
        found[method.name] = REGISTRY.get_sample_value("glaim_rows_total", labels) or 0.0
    for cause in ("gap", "interval"):
        found[cause] = REGISTRY.get_sample_value("glaim_withheld_rows_total", {"cause": cause}) or 0.0
    for name in ("revisions", "doubted_rows"):
        found[name] = REGISTRY.get_sample_value(f"glaim_{name}_total") or 0.0
    return found


def added(part: Rows) -> dict[str, float]:
    before = counts()
    count_rows(part)
    return {name: now - before[name] for name, now in counts().items() if now != before[name]}


def test_rows_are_counted_by_method_and_revisions_above_0_as_revisions() -> None:
    good = Status.GOOD
    methods = [Method.OBSERVED, Method.MODEL, Method.MODEL, Method.INTERPOLATION]
    assert added(rows(methods, [0, 0, 1, 2], [good] * 4)) == {
        "OBSERVED": 1, "MODEL": 2, "INTERPOLATION": 1, "revisions": 2
    }  # fmt: skip


def test_observed_rows_that_are_doubted_are_counted() -> None:
    doubted, uncertain = Status.UNCERTAIN_SENSOR_NOT_ACCURATE, Status.UNCERTAIN
    found = added(rows([Method.OBSERVED] * 4, [0] * 4, [doubted, Status.GOOD, uncertain, doubted]))
    assert found == {"OBSERVED": 4, "doubted_rows": 2}


def test_nulls_are_counted_by_the_cause_of_their_status() -> None:
    statuses = [
        Status.BAD_NO_COMMUNICATION, Status.BAD_NO_DATA, Status.BAD_SENSOR_FAILURE,
        Status.BAD_AGGREGATE_INVALID_INPUTS, Status.BAD_DATA_UNAVAILABLE, Status.BAD_NO_COMMUNICATION,
    ]  # fmt: skip
    methods = [Method.NONE] * 5 + [Method.MODEL]
    assert added(rows(methods, [0] * 6, statuses)) == {"NONE": 5, "MODEL": 1, "gap": 3, "interval": 1}
