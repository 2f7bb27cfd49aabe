"""What the dashboard shows, row by row: a title, what it means, its unit, and its queries. No layout, no JSON.

`{of}` stands for the selector of the installation that is looked at. Rates are over `$__rate_interval`, which Grafana
sets to four scrapes at least. What a rule has recorded already is asked for by its recorded name.
"""

from __future__ import annotations

from dataclasses import dataclass

OF = 'namespace=~"$namespace", release=~"$release"'


@dataclass(frozen=True)
class Panel:
    """One panel; `queries` are expression and legend in turn."""

    title: str
    description: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    warn: float | None = None  # from here on it is coloured; below it where `low_is_bad`
    low_is_bad: bool = False
    stacked: bool = False


def panel(title: str, description: str, unit: str, *queries: tuple[str, str], **options: object) -> Panel:
    """A panel whose queries have `{of}` filled in."""
    filled = tuple((expression.replace("{of}", OF), legend) for expression, legend in queries)
    return Panel(title, description, unit, filled, **options)  # type: ignore[arg-type]


ROWS: dict[str, tuple[Panel, ...]] = {
    "Is it well?": (
        panel(
            "Workers that answer", "Of all workers that Prometheus knows of.", "short",
            ('sum(up{job="glaim-stream-worker", {of}})', ""), kind="stat", warn=1, low_is_bad=True,
        ),
        panel(
            "Partitions without a worker", "Their readings wait in Kafka.", "short",
            (
                "max(glaim_input_partitions{{of}}) - count(count by (partition) (glaim_consumer_lag_records{{of}}))",
                "",
            ),
            kind="stat", warn=1,
        ),
        panel(
            "Slow batches, last hour", "Took longer than 10 s from record to acknowledged row; 1 % may.", "percentunit",
            ("max(glaim:output_latency_slow:ratio1h{{of}})", ""), kind="stat", warn=0.01,
        ),
        panel(
            "Filled without a model", "Of the filled rows of ten minutes, those that interpolation or last value made.",
            "percentunit", ("max(glaim:filled_without_model:share10m{{of}})", ""), kind="stat", warn=0.9,
        ),
        panel(
            "Intervals that hold", "Of the intervals of six hours around what was hidden; 90 % is meant.",
            "percentunit", ("min(glaim:score_intervals_holding:ratio6h{{of}})", ""),
            kind="stat", warn=0.75, low_is_bad=True,
        ),
        panel(
            "Alerts that fire", "docs/runbook.md has a paragraph for each.", "short",
            ('count(ALERTS{alertname=~"Glaim.+", alertstate="firing", {of}}) or vector(0)', ""), kind="stat", warn=1,
        ),
    ),
    "Flow": (
        panel(
            "Readings and rows", "What goes into windows and what is published.", "cps",
            ("sum(rate(glaim_readings_total{{of}}[$__rate_interval]))", "readings"),
            ("sum(rate(glaim_rows_total{{of}}[$__rate_interval]))", "rows"),
        ),
        panel(
            "Records that wait", "Of each partition: its end less what is answered.", "short",
            ("sum by (partition) (glaim_consumer_lag_records{{of}})", "partition {{partition}}"), warn=1000,
        ),
        panel(
            "Time to work off what waits", "At the pace of the last five minutes.", "s",
            ("glaim:consumer_lag_seconds:sum{{of}}", "{{release}}"),
        ),
        panel(
            "From record to acknowledged row", "The objective is 10 s for 99 of 100 batches.", "s",
            ("glaim:output_latency_seconds:p50_5m{{of}}", "median"),
            ("glaim:output_latency_seconds:p99_5m{{of}}", "99 of 100"), warn=10,
        ),
        panel(
            "Event time behind the wall clock", "Of the newest reading; large while history is replayed.", "s",
            ("time() - max by (partition) (glaim_newest_event_timestamp_seconds{{of}})", "partition {{partition}}"),
            ("max by (partition) (glaim_watermark_lag_seconds{{of}})", "partition {{partition}}, as of the last batch"),
        ),
        panel(
            "Work on a batch", "99 of 100 batches: decoded and applied, and imputed.", "s",
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
            "Groups", "With windows; a group that is silent for a window leaves.", "short",
            ("sum by (partition) (glaim_groups{{of}})", "partition {{partition}}"), stacked=True,
        ),
        panel(
            "Windows asked", "With a hole, and with something hidden for the scores.", "cps",
            ("sum(rate(glaim_windows_total{{of}}[$__rate_interval]))", "holes"),
            ("sum(rate(glaim_side_windows_total{{of}}[$__rate_interval]))", "scores"),
        ),
    ),
    "Quality": (
        panel(
            "Who made the rows", "Share of the published rows; observed ones pass through.", "percentunit",
            ("glaim:rows:share5m{{of}}", "{{method}}"), stacked=True,
        ),
        panel(
            "Error beside the baseline's", "Mean absolute error over an hour; the baseline's is 1, less is better.",
            "none",
            (
                'glaim:score_mae:ratio1h{method=~"model|blend", {of}} / ignoring (method) group_left () '
                '(glaim:score_mae:ratio1h{method="baseline", {of}} > 0)',
                "{{sensor}} by {{method}}",
            ),
            warn=1,
        ),
        panel(
            "Mean absolute error", "Over an hour, in each sensor's unit, of what was hidden and imputed.", "none",
            ('glaim:score_mae:ratio1h{sensor=~"$sensor", {of}}', "{{sensor}} by {{method}}"),
        ),
        panel(
            "Intervals that hold what was hidden", "90 % is meant.", "percentunit",
            (
                "sum by (model, position) (increase(glaim_score_intervals_holding_total{{of}}[1h])) / "
                "(sum by (model, position) (increase(glaim_score_intervals_total{{of}}[1h])) > 0)",
                "{{model}}, {{position}}",
            ),
            warn=0.75, low_is_bad=True,
        ),
        panel(
            "Filled rows by the age of their gap", "Steps since the sensor spoke.", "cps",
            ("sum by (gap_age) (rate(glaim_filled_rows_total{{of}}[$__rate_interval]))", "{{gap_age}}"), stacked=True,
        ),
        panel(
            "Withheld rows", "Null on purpose: silent beyond max_gap, or wider than max_interval.", "cps",
            ("sum by (cause) (rate(glaim_withheld_rows_total{{of}}[$__rate_interval]))", "{{cause}}"),
        ),
        panel(
            "Rows made again", "Finals and corrections, and finals that the model made again after an outage.", "cps",
            ("sum(rate(glaim_revisions_total{{of}}[$__rate_interval]))", "revisions"),
            ("sum(rate(glaim_upgraded_rows_total{{of}}[$__rate_interval]))", "upgraded"),
        ),
        panel(
            "Models", "Whose contracts the workers hold.", "short",
            ("count by (model, version) (glaim_model_info{{of}})", "{{model}} version {{version}}"), kind="table",
        ),
    ),
    "Triton": (
        panel(
            "Calls", "Answered, and failed by reason.", "reqps",
            ("sum by (model) (rate(nv_inference_request_success{{of}}[$__rate_interval]))", "{{model}} answered"),
            (
                "sum by (model, reason) (rate(nv_inference_request_failure{{of}}[$__rate_interval]))",
                "{{model}} failed: {{reason}}",
            ),
        ),
        panel(
            "Time of a call", "Mean, in the queue and in the model.", "s",
            ("glaim:triton_queue_seconds:mean5m{{of}}", "{{model}} queue"),
            (
                "sum by (model) (rate(nv_inference_compute_infer_duration_us{{of}}[5m])) / 1e6 / "
                "(sum by (model) (rate(nv_inference_request_success{{of}}[5m])) > 0)",
                "{{model}} compute",
            ),
            (
                "sum by (model) (rate(nv_inference_request_duration_us{{of}}[5m])) / 1e6 / "
                "(sum by (model) (rate(nv_inference_request_success{{of}}[5m])) > 0)",
                "{{model}} whole",
            ),
        ),
        panel(
            "Windows in an execution", "What the batcher makes of the calls.", "none",
            (
                "sum by (model) (rate(nv_inference_count{{of}}[5m])) / "
                "(sum by (model) (rate(nv_inference_exec_count{{of}}[5m])) > 0)",
                "{{model}}",
            ),
        ),
        panel(
            "Calls that wait", "For an execution.", "short",
            ("sum by (model) (nv_inference_pending_request_count{{of}})", "{{model}}"),
        ),
        panel(
            "How busy the processor is", "The GPU where there is one, else the machine's cores.", "percentunit",
            (
                "avg by (instance, gpu_uuid) (nv_gpu_utilization{{of}}) or "
                "avg by (instance) (nv_cpu_utilization{{of}})",
                "{{instance}} {{gpu_uuid}}",
            ),
        ),
        panel(
            "Is the imputer asked?", "0 asked, 1 tried by one batch, 2 left alone.", "none",
            ("max by (imputer) (glaim_imputer_state{{of}})", "{{imputer}}"),
            ("sum by (imputer) (rate(glaim_imputer_failures_total{{of}}[$__rate_interval]))", "{{imputer}} failures/s"),
            ("sum by (imputer) (rate(glaim_imputer_openings_total{{of}}[$__rate_interval]))", "{{imputer}} openings/s"),
            ("sum by (imputer) (rate(glaim_imputer_probes_total{{of}}[$__rate_interval]))", "{{imputer}} probes/s"),
            warn=2,
        ),
    ),
    "Faults": (
        panel(
            "Dead letters", "By cause; kept whole in their topic.", "cps",
            ("sum by (cause) (rate(glaim_dead_letters_total{{of}}[$__rate_interval]))", "{{cause}}"), stacked=True,
        ),
        panel(
            "Readings that change little", "Too late, twice, ahead of their time, or without a value.", "cps",
            ("sum(rate(glaim_late_readings_total{{of}}[$__rate_interval]))", "too late"),
            ("sum(rate(glaim_superseded_readings_total{{of}}[$__rate_interval]))", "superseded"),
            ("sum(rate(glaim_skewed_readings_total{{of}}[$__rate_interval]))", "ahead"),
            ("sum(rate(glaim_dropouts_total{{of}}[$__rate_interval]))", "dropouts"),
        ),
        panel(
            "Groups gone dark", "Announced within the interval, and speaking again.", "short",
            ("sum by (kind) (increase(glaim_outages_total{{of}}[$__rate_interval]))", "{{kind}}"),
        ),
        panel(
            "Attempts that failed", "To publish, and to rebuild.", "cps",
            ("sum(rate(glaim_publish_retries_total{{of}}[$__rate_interval]))", "publish"),
            ("sum(rate(glaim_rebuild_failures_total{{of}}[$__rate_interval]))", "rebuild"),
        ),
        panel(
            "Rebuilds", "Of a partition's windows, and the records read for them.", "short",
            ("sum(increase(glaim_rebuilds_total{{of}}[$__rate_interval]))", "rebuilds"),
            ("sum(increase(glaim_rebuilt_records_total{{of}}[$__rate_interval]))", "records"),
            ("sum(increase(glaim_retention_shortfalls_total{{of}}[$__rate_interval]))", "short of history"),
        ),
        panel(
            "Faults of ours", "Batches that were taken apart, contracts that could not be used.", "short",
            ("sum(increase(glaim_worker_faults_total{{of}}[$__rate_interval]))", "faults"),
            (
                'sum by (outcome) (increase(glaim_contract_reads_total{outcome!="read", {of}}[$__rate_interval]))',
                "contract {{outcome}}",
            ),
        ),
    ),
    "Processes": (
        panel(
            "Cores", "A worker is one process and wants one core at most.", "short",
            ('sum by (instance) (rate(process_cpu_seconds_total{job="glaim-stream-worker", {of}}[$__rate_interval]))',
             "{{instance}}"), warn=0.9,
        ),
        panel(
            "Memory", "Resident.", "bytes",
            ('sum by (instance) (process_resident_memory_bytes{job="glaim-stream-worker", {of}})', "{{instance}}"),
        ),
        panel(
            "What the event loop is held up by", "99 of 100 wake-ups came no later than this.", "s",
            (
                "histogram_quantile(0.99, sum by (le) (rate(glaim_loop_delay_seconds_bucket{{of}}[$__rate_interval])))",
                "late",
            ),
        ),
        panel(
            "Health pages", "1 is yes. A roll-out waits for ready, the kubelet restarts what is not live.", "none",
            ("min by (instance, page) (glaim_health{{of}})", "{{instance}} {{page}}"), warn=1, low_is_bad=True,
        ),
    ),
}  # fmt: skip
