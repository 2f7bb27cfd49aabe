"""The panels of the dashboard, row by row: title, description, unit and queries, without layout or JSON.

`{of}` stands for the selector of the chosen installation. Rates use `$__rate_interval`, which Grafana sets to at least
four scrape intervals. Queries use the recorded name where a rule records the expression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OF = 'namespace=~"$namespace", release=~"$release"'
Kind = Literal["timeseries", "stat", "table"]


@dataclass(frozen=True)
class Panel:
    """One panel; `queries` are pairs of expression and legend."""

    title: str
    description: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: Kind = "timeseries"
    warn: float | None = None  # red from this value on, or below it if `low_is_bad`
    low_is_bad: bool = False
    stacked: bool = False


def panel(
    title: str,
    description: str,
    unit: str,
    *queries: tuple[str, str],
    kind: Kind = "timeseries",
    warn: float | None = None,
    low_is_bad: bool = False,
    stacked: bool = False,
) -> Panel:
    """A panel in whose queries `{of}` is replaced by the selector."""
    filled = tuple((expression.replace("{of}", OF), legend) for expression, legend in queries)
    return Panel(title, description, unit, filled, kind=kind, warn=warn, low_is_bad=low_is_bad, stacked=stacked)


# Each version's errors on the hidden readings that another one has answered too. There are as many in both directions.
_SHADOW = "(sum by (model, sensor, version, against) (increase(glaim_shadow_error_total{{of}}[1h])) > 0)"

ROWS: dict[str, tuple[Panel, ...]] = {
    "Health": (
        panel(
            "Workers up", "Workers whose last scrape succeeded.", "short",
            ('sum(up{job="glaim-stream-worker", {of}})', ""), kind="stat", warn=1, low_is_bad=True,
        ),
        panel(
            "Partitions without a worker", "Readings of these partitions wait in Kafka.", "short",
            (
                "max(glaim_input_partitions{{of}}) - count(count by (partition) (glaim_consumer_lag_records{{of}}))",
                "",
            ),
            kind="stat", warn=1,
        ),
        panel(
            "Error budget left", "Least share of a 30-day error budget that is left, over all objectives.",
            "percentunit",
            ("min(glaim:slo_budget:left30d{{of}})", ""), kind="stat", warn=0, low_is_bad=True,
        ),
        panel(
            "Dark groups", "Groups that send nothing; the outage topic names them.",
            "short", ("sum(glaim_dark_groups{{of}})", ""), kind="stat", warn=1,
        ),
        panel(
            "Interval coverage", "Share of hidden values inside their interval, over six hours; the target is 90 %.",
            "percentunit", ("min(glaim:score_intervals_holding:ratio6h{{of}})", ""),
            kind="stat", warn=0.75, low_is_bad=True,
        ),
        panel(
            "Firing alerts", "docs/runbook.md has a section for each.", "short",
            ('count(ALERTS{alertname=~"Glaim.+", alertstate="firing", {of}}) or vector(0)', ""), kind="stat", warn=1,
        ),
    ),
    "Flow": (
        panel(
            "Readings and rows", "Readings added to windows, and rows published.", "cps",
            ("sum(rate(glaim_readings_total{{of}}[$__rate_interval]))", "readings"),
            ("sum(rate(glaim_rows_total{{of}}[$__rate_interval]))", "rows"),
        ),
        panel(
            "Consumer lag", "Records of each partition that have not been processed.", "short",
            ("sum by (partition) (glaim_consumer_lag_records{{of}})", "partition {{partition}}"), warn=1000,
        ),
        panel(
            "Time to work off the lag", "Estimated at the rate of the last five minutes.", "s",
            ("glaim:consumer_lag_seconds:sum{{of}}", "{{release}}"),
        ),
        panel(
            "Output latency", "From record to acknowledged row; the objective is 10 s for 99 % of batches.", "s",
            ("glaim:output_latency_seconds:p50_5m{{of}}", "median"),
            ("glaim:output_latency_seconds:p99_5m{{of}}", "p99"), warn=10,
        ),
        panel(
            "Event time behind the wall clock", "Age of the newest reading; large while history is replayed.", "s",
            ("time() - max by (partition) (glaim_newest_event_timestamp_seconds{{of}})", "partition {{partition}}"),
            ("max by (partition) (glaim_watermark_lag_seconds{{of}})", "partition {{partition}}, as of the last batch"),
        ),
        panel(
            "Batch processing time", "The 99th percentile of decoding and applying, and of imputing.", "s",
            (
                "histogram_quantile(0.99, sum by (le) (rate(glaim_apply_seconds_bucket{{of}}[$__rate_interval])))",
                "applied",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(glaim_impute_seconds_bucket{{of}}[$__rate_interval])))",
                "imputed",
            ),
        ),
        panel(
            "Error budget left by objective", "Share of the error budget of 30 days; below 0 it is overdrawn.",
            "percentunit",
            ("min by (slo) (glaim:slo_budget:left30d{{of}})", "{{slo}}"), warn=0, low_is_bad=True,
        ),
        panel(
            "Groups", "Groups that have windows; a group that is silent for a whole window is dropped.", "short",
            ("sum by (partition) (glaim_groups{{of}})", "partition {{partition}}"), stacked=True,
        ),
        panel(
            "Groups with holes",
            "Share of the groups with windows that lack a reading at one of their newest 12 closed steps.",
            "percentunit",
            (
                "sum by (partition) (glaim_groups_with_holes{{of}}) / (sum by (partition) (glaim_groups{{of}}) > 0)",
                "partition {{partition}}",
            ),
        ),
        panel(
            "Windows imputed", "Windows with a hole, and windows with hidden values for the scores.", "cps",
            ("sum(rate(glaim_windows_total{{of}}[$__rate_interval]))", "holes"),
            ("sum(rate(glaim_side_windows_total{{of}}[$__rate_interval]))", "scores"),
            (
                "sum by (outcome) (rate(glaim_shadow_windows_total{{of}}[$__rate_interval]))",
                "by another version: {{outcome}}",
            ),
        ),
    ),
    "Quality": (
        panel(
            "Rows by method", "Share of the published rows; observed values pass through.", "percentunit",
            ("glaim:rows:share5m{{of}}", "{{method}}"), stacked=True,
        ),
        panel(
            "Arrived, share of the last day",
            "Of the cells that were due, those with a reading in the end; docs/completeness.md has the other figures.",
            "percentunit",
            (
                'sum(increase(glaim_rows_total{method="observed", {of}}[1d])) / '
                "(sum(increase(glaim_rows_total{{of}}[1d])) - sum(increase(glaim_revisions_total{{of}}[1d])) > 0)",
                "arrived",
            ),
        ),
        panel(
            "Error relative to the baseline", "Mean absolute error over an hour; the baseline is 1, less is better.",
            "none",
            (
                'glaim:score_mae:ratio1h{method=~"model|gaussian|blend", {of}} / ignoring (method) group_left () '
                '(glaim:score_mae:ratio1h{method="baseline", {of}} > 0)',
                "{{sensor}} by {{method}}",
            ),
            warn=1,
        ),
        panel(
            "Mean absolute error", "Error of imputed hidden values over an hour, in each sensor's unit.", "none",
            ('glaim:score_mae:ratio1h{sensor=~"$sensor", {of}}', "{{sensor}} by {{method}}"),
        ),
        panel(
            "Weights of the experts",
            "Share of each expert in the published mixture; the baseline is interpolation or the last value.",
            "percentunit",
            (
                "sum by (model, position, method) (rate(glaim_expert_weight_total{{of}}[$__rate_interval])) / "
                "ignoring (method) group_left () "
                "(sum by (model, position) (rate(glaim_expert_weight_total{{of}}[$__rate_interval])) > 0)",
                "{{model}}, {{position}}, {{method}}",
            ),
        ),
        panel(
            "Interval coverage by model", "Share of hidden values inside their interval; the target is 90 %.",
            "percentunit",
            (
                "sum by (model, position) (increase(glaim_score_intervals_holding_total{{of}}[1h])) / "
                "(sum by (model, position) (increase(glaim_score_intervals_total{{of}}[1h])) > 0)",
                "{{model}}, {{position}}",
            ),
            warn=0.75, low_is_bad=True,
        ),
        panel(
            "Scaled error by method and gap age",
            "Over an hour; errors are shares of the baseline's on the sensor: less is better. GLAIM_QUALITY_TOPIC.",
            "none",
            (
                "sum by (model, method, gap_age) (increase(glaim_quality_scaled_error_total{{of}}[1h])) / "
                "(sum by (model, method, gap_age) (increase(glaim_quality_compared_total{{of}}[1h])) > 0)",
                "{{model}}, {{method}}, gap {{gap_age}}",
            ),
            warn=1,
        ),
        panel(
            "Interval coverage by gap age",
            "Share of true values inside their interval over an hour: hidden ones by position, and late ones.",
            "percentunit",
            (
                "sum by (model, source, position, gap_age) "
                "(increase(glaim_quality_intervals_holding_total{{of}}[1h])) / "
                "(sum by (model, source, position, gap_age) (increase(glaim_quality_intervals_total{{of}}[1h])) > 0)",
                "{{model}}, {{source}}, {{position}}, gap {{gap_age}}",
            ),
            warn=0.75, low_is_bad=True,
        ),
        panel(
            "Regret",
            "Share of the error that the best single method in hindsight would have saved over an hour; below 0 the "
            "published values beat each of them. With GLAIM_QUALITY_TOPIC.",
            "percentunit",
            (
                "1 - min by (model) ("
                'sum by (model, method) (increase(glaim_quality_scaled_error_total{method!="published", {of}}[1h])) / '
                '(sum by (model, method) (increase(glaim_quality_compared_total{method!="published", {of}}[1h])) > 0)'
                ") / ("
                'sum by (model) (increase(glaim_quality_scaled_error_total{method="published", {of}}[1h])) / '
                '(sum by (model) (increase(glaim_quality_compared_total{method="published", {of}}[1h])) > 0))',
                "{{model}}",
            ),
            warn=0.1,
        ),
        panel(
            "Filled rows by gap age", "Gap age is the number of steps since the sensor's last reading.", "cps",
            ("sum by (gap_age) (rate(glaim_filled_rows_total{{of}}[$__rate_interval]))", "{{gap_age}}"), stacked=True,
        ),
        panel(
            "Withheld rows", "Published as null: silent for longer than max_gap, or interval wider than max_interval.",
            "cps",
            ("sum by (cause) (rate(glaim_withheld_rows_total{{of}}[$__rate_interval]))", "{{cause}}"),
        ),
        panel(
            "Revised rows", "Final values and corrections, and final values recomputed by the model after an outage.",
            "cps",
            ("sum(rate(glaim_revisions_total{{of}}[$__rate_interval]))", "revisions"),
            ("sum(rate(glaim_upgraded_rows_total{{of}}[$__rate_interval]))", "upgraded"),
        ),
        panel(
            "Models", "Models whose contracts the workers have loaded.", "short",
            ("count by (model, version) (glaim_model_info{{of}})", "{{model}} version {{version}}"), kind="table",
        ),
        panel(
            "Error of a version over another's",
            "Over an hour, on the same hidden readings, mean over the sensors: below 1 the first version is the better "
            "one. While two versions are served.",
            "none",
            (
                f"exp(avg by (model, version, against) (ln({_SHADOW} / on (model, sensor, version, against) "
                f'label_replace(label_replace(label_replace({_SHADOW}, "own", "$1", "version", "(.*)"), '
                '"version", "$1", "against", "(.*)"), "against", "$1", "own", "(.*)"))))',
                "{{model}}, {{version}} over {{against}}",
            ),
            warn=1,
        ),
        panel(
            "Mean absolute error of two versions",
            "Over an hour, on the same hidden readings, in each sensor's unit. While two versions are served.", "none",
            (
                "sum by (model, sensor, version, against) "
                '(increase(glaim_shadow_error_total{sensor=~"$sensor", {of}}[1h])) / '
                "(sum by (model, sensor, version, against) "
                '(increase(glaim_shadow_questions_total{sensor=~"$sensor", {of}}[1h])) > 0)',
                "{{sensor}} by {{version}}, beside {{against}}",
            ),
        ),
        panel(
            "Closed forms", "Closed forms in use, and the age of the newest readings that they were fitted to.", "s",
            (
                "time() - max by (model, version) (glaim_form_until_timestamp_seconds{{of}} > 0)",
                "{{model}} {{version}}",
            ),
            kind="table",
        ),
        panel(
            "Versions out of service", "Workers that do not use a version of a model, by reason.", "short",
            (
                "count by (model, version, reason) (glaim_model_version_refused{{of}}) or "
                "0 * count(glaim_model_info{{of}})",
                "{{model}} {{version}} {{reason}}",
            ),
            warn=1,
        ),
    ),
    "Triton": (
        panel(
            "Calls", "Successful calls, and failed ones by reason.", "reqps",
            ("sum by (model) (rate(nv_inference_request_success{{of}}[$__rate_interval]))", "{{model}} answered"),
            (
                "sum by (model, reason) (rate(nv_inference_request_failure{{of}}[$__rate_interval]))",
                "{{model}} failed: {{reason}}",
            ),
        ),
        panel(
            "Call duration", "Mean time in the queue and in the model.", "s",
            ("glaim:triton_queue_seconds:mean5m{{of}}", "{{model}} queue"),
            (
                "sum by (model) (rate(nv_inference_compute_infer_duration_us{{of}}[5m])) / 1e6 / "
                "(sum by (model) (rate(nv_inference_request_success{{of}}[5m])) > 0)",
                "{{model}} compute",
            ),
            (
                "sum by (model) (rate(nv_inference_request_duration_us{{of}}[5m])) / 1e6 / "
                "(sum by (model) (rate(nv_inference_request_success{{of}}[5m])) > 0)",
                "{{model}} total",
            ),
        ),
        panel(
            "Windows per execution", "Mean batch size after dynamic batching.", "none",
            (
                "sum by (model) (rate(nv_inference_count{{of}}[5m])) / "
                "(sum by (model) (rate(nv_inference_exec_count{{of}}[5m])) > 0)",
                "{{model}}",
            ),
        ),
        panel(
            "Pending calls", "Calls that wait for an execution.", "short",
            ("sum by (model) (nv_inference_pending_request_count{{of}})", "{{model}}"),
        ),
        panel(
            "Processor utilisation", "Of the GPU if there is one, otherwise of the CPU cores.", "percentunit",
            (
                "avg by (instance, gpu_uuid) (nv_gpu_utilization{{of}}) or "
                "avg by (instance) (nv_cpu_utilization{{of}})",
                "{{instance}} {{gpu_uuid}}",
            ),
        ),
        panel(
            "Circuit breaker of each model", "0 closed: in use, 1 half open: tried with one batch, 2 open: not in use.",
            "none",
            ("max by (imputer, model) (glaim_imputer_state{{of}})", "{{imputer}} {{model}}"),
            (
                "sum by (imputer, model) (rate(glaim_imputer_failures_total{{of}}[$__rate_interval]))",
                "{{imputer}} {{model}} failures/s",
            ),
            (
                "sum by (imputer, model) (rate(glaim_imputer_openings_total{{of}}[$__rate_interval]))",
                "{{imputer}} {{model}} openings/s",
            ),
            (
                "sum by (imputer, model) (rate(glaim_imputer_probes_total{{of}}[$__rate_interval]))",
                "{{imputer}} {{model}} probes/s",
            ),
            warn=2,
        ),
    ),
    "Faults": (
        panel(
            "Dead letters", "Rejected records by cause; their topic keeps them unchanged.", "cps",
            ("sum by (cause) (rate(glaim_dead_letters_total{{of}}[$__rate_interval]))", "{{cause}}"), stacked=True,
        ),
        panel(
            "Unusual readings", "Late, superseded, ahead of the clock, or without a value.", "cps",
            ("sum(rate(glaim_late_readings_total{{of}}[$__rate_interval]))", "too late"),
            ("sum(rate(glaim_superseded_readings_total{{of}}[$__rate_interval]))", "superseded"),
            ("sum(rate(glaim_skewed_readings_total{{of}}[$__rate_interval]))", "ahead"),
            ("sum(rate(glaim_dropouts_total{{of}}[$__rate_interval]))", "dropouts"),
        ),
        panel(
            "Group outages", "Outages announced within the interval, and recoveries.", "short",
            ("sum by (kind) (increase(glaim_outages_total{{of}}[$__rate_interval]))", "{{kind}}"),
        ),
        panel(
            "Faulty sensors",
            "Frozen or at a limit (runs), silent, full of gaps, spiking or chattering (jumps), drifting, or with a "
            "stuttering clock. Their topic names them: GLAIM_HEALTH_TOPIC.",
            "short",
            ("sum by (detector) (glaim_faulty_sensors{{of}})", "{{detector}}"), stacked=True,
        ),
        panel(
            "Sensor health events", "Sensors that began or ceased to be faulty within the interval.", "short",
            (
                "sum by (detector, state) (increase(glaim_sensor_health_events_total{{of}}[$__rate_interval]))",
                "{{detector}} {{state}}",
            ),
        ),
        panel(
            "Failed attempts", "Failed attempts to publish and to rebuild.", "cps",
            ("sum(rate(glaim_publish_retries_total{{of}}[$__rate_interval]))", "publish"),
            ("sum(rate(glaim_rebuild_failures_total{{of}}[$__rate_interval]))", "rebuild"),
        ),
        panel(
            "Rebuilds", "Rebuilds of a partition's windows, and the records read for them.", "short",
            ("sum(increase(glaim_rebuilds_total{{of}}[$__rate_interval]))", "rebuilds"),
            ("sum(increase(glaim_rebuilt_records_total{{of}}[$__rate_interval]))", "records"),
            ("sum(increase(glaim_retention_shortfalls_total{{of}}[$__rate_interval]))", "short of history"),
            ("sum(increase(glaim_lost_offsets_total{{of}}[$__rate_interval]))", "offsets lost unread"),
        ),
        panel(
            "Internal errors", "Batches on which the worker itself failed, and contracts that could not be used.",
            "short",
            ("sum(increase(glaim_worker_faults_total{{of}}[$__rate_interval]))", "faults"),
            (
                'sum by (outcome) (increase(glaim_contract_reads_total{outcome!="read", {of}}[$__rate_interval]))',
                "contract {{outcome}}",
            ),
        ),
    ),
    "Processes": (
        panel(
            "CPU", "CPU cores in use; a worker is one process and uses at most one core.", "short",
            ('sum by (instance) (rate(process_cpu_seconds_total{job="glaim-stream-worker", {of}}[$__rate_interval]))',
             "{{instance}}"), warn=0.9,
        ),
        panel(
            "Memory", "Resident memory.", "bytes",
            ('sum by (instance) (process_resident_memory_bytes{job="glaim-stream-worker", {of}})', "{{instance}}"),
        ),
        panel(
            "Event loop delay", "The 99th percentile of the delay of a wake-up.", "s",
            (
                "histogram_quantile(0.99, sum by (le) (rate(glaim_loop_delay_seconds_bucket{{of}}[$__rate_interval])))",
                "p99",
            ),
        ),
        panel(
            "Health pages", "1 is healthy. A roll-out waits for ready; the kubelet restarts a worker that is not live.",
            "none",
            ("min by (instance, page) (glaim_health{{of}})", "{{instance}} {{page}}"), warn=1, low_is_bad=True,
        ),
    ),
}  # fmt: skip
