"""Series with labels known in advance start at 0; filled rows are counted by gap age."""

import re
from importlib.metadata import version
from typing import Any

import numpy as np
from prometheus_client import REGISTRY

from deploy.cache import CHECKOUT
from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.contract import read_contract
from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.core.vocabulary import GAP_AGE_NAMES, Status
from glaim_stream.output import Method, Rows
from glaim_stream.pipeline.accuracy import count_rows
from glaim_stream.worker.metric_series import create_series
from tests.support import catalogue as catalogue_of


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


def test_every_cause_method_and_sensor_has_a_series_at_startup() -> None:
    catalogue = read_catalogue(CHECKOUT / "deploy" / "catalogues" / "plant.yaml")
    contract = read_contract(CHECKOUT / "model_repo" / "plant-pump")
    create_series(catalogue, {"plant-pump": contract}, ["triton"], scored=True, networks=["plant-pump"])
    for cause in DeadLetterCause:
        counted_elsewhere = cause is DeadLetterCause.TOO_LATE
        assert (value("glaim_dead_letters_total", cause=cause.value) is None) == counted_elsewhere
    for method in Method:
        assert value("glaim_rows_total", method=method.name.lower()) is not None
    for sensor in contract.sensor_ids:
        for method in ("model", "baseline", "blend"):
            known = {"model": "plant-pump", "sensor": sensor, "method": method, "position": "edge"}
            assert value("glaim_score_error_total", **known) is not None
    for method in ("model", "baseline"):
        assert value("glaim_expert_weight_total", model="plant-pump", method=method, position="edge") is not None
    assert value("glaim_shadow_windows_total", model="plant-pump", outcome="failed") is not None
    assert value("glaim_imputer_failures_total", imputer="triton", model="plant-pump") is not None
    assert value("glaim_form_reads_total", model="plant-pump", outcome="refused") is not None
    assert value("glaim_model_info", model="plant-pump", version="1") == 1
    assert value("glaim_build_info", version=version("glaim-stream")) == 1


def test_a_model_without_a_network_has_no_series_of_one() -> None:
    rules = catalogue_of(sensors=1)
    rules = rules.model_copy(update={"models": [rules.models[0].model_copy(update={"name": "formless"})]})
    create_series(rules, {}, [], scored=True, quality=True, networks=[])
    key = {"model": "formless", "sensor": "s0", "position": "edge"}
    found = [value("glaim_score_error_total", method=method, **key) for method in ("model", "baseline", "blend")]
    assert found == [None, 0, 0]
    compared = {"model": "formless", "gap_age": GAP_AGE_NAMES[0]}
    assert value("glaim_quality_compared_total", method="model", **compared) is None
    assert value("glaim_quality_compared_total", method="published", **compared) == 0


MATCHED = re.compile(r'\b(glaim_\w+)\{(\w+)(=~?)"([^"]*)"\}')
REPORTED_LATER = {"glaim_health"}  # by the health watch, in its first second


def test_every_label_value_of_a_rule_exists_at_startup() -> None:
    """A value that is never reported, such as the bound of another histogram, would silence its alert for ever."""
    test_every_cause_method_and_sensor_has_a_series_at_startup()
    matched = set(MATCHED.findall((CHECKOUT / "helm" / "glaim-stream" / "files" / "rules.yaml").read_text()))
    assert len(matched) >= 4
    for name, label, operator, text in matched:
        for wanted in text.split("|") if operator == "=~" else [text]:
            found = {
                sample.labels[label]
                for metric in REGISTRY.collect()
                for sample in metric.samples
                if sample.name == name and label in sample.labels
            }
            assert wanted in found or name in REPORTED_LATER, (name, label, wanted)


def test_filled_rows_are_counted_by_gap_age() -> None:
    ages = [0, 1, 2, 4, 5, 16, 17, 48, 49, 60]
    observed = np.array([age == 0 for age in ages])
    values = np.ones(len(ages), np.float64)
    values[-1] = np.nan  # withheld: not filled
    zeros: Any = np.zeros(len(ages), np.int64)
    rows = Rows(
        group=zeros.astype(np.int32),
        sensor=zeros.astype(np.int32),
        ts_ms=zeros,
        event_time_ms=zeros,
        value=values,
        observed=observed,
        method=np.where(observed, Method.OBSERVED, Method.MODEL).astype(np.int8),
        status=np.full(len(ages), Status.GOOD, np.uint32),
        lower=values,
        upper=values,
        gap_age=np.array(ages, np.uint16),
        revision=zeros.astype(np.uint16),
        final=observed,
        version=zeros.astype(np.int32),
    )
    before = {name: value("glaim_filled_rows_total", gap_age=name) or 0 for name in GAP_AGE_NAMES}
    count_rows(rows)
    after = {name: value("glaim_filled_rows_total", gap_age=name) or 0 for name in GAP_AGE_NAMES}
    assert [after[name] - before[name] for name in GAP_AGE_NAMES] == [1, 2, 2, 2, 1]
