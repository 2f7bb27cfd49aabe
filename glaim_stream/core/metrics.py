"""All Prometheus metrics of the worker. Labels have few values: sensors of the catalogue, but never groups."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_LATENCY_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_WORK_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

records = Counter("glaim_records", "Kafka records taken from the input topic")
readings = Counter("glaim_readings", "Decoded readings that went into windows")
dropouts = Counter("glaim_dropouts", "Readings without a value: null, NaN or bad quality")
skewed = Counter("glaim_skewed_readings", "Readings with a time after their record's, within the accepted limit")
superseded = Counter("glaim_superseded_readings", "Readings replaced by another reading of the same sensor and step")
dead_letters = Counter("glaim_dead_letters", "Readings or records sent to the dead-letter topic", ["cause"])
late_readings = Counter("glaim_late_readings", "Readings older than the window, sent to the late topic")
outages = Counter("glaim_outages", "Groups that went dark or sent again", ["kind"])
sensor_health_events = Counter(
    "glaim_sensor_health_events",
    "Events of sensor health: sensors that begin or cease to be faulty, by detector",
    ["detector", "state"],
)
rows = Counter("glaim_rows", "Rows published on the output topic", ["method"])
doubted_rows = Counter("glaim_doubted_rows", "Observed rows whose reading stands apart from its window")
filled_rows = Counter(
    "glaim_filled_rows", "Rows published with a filled value, by steps since the sensor's last observation", ["gap_age"]
)
withheld_rows = Counter(
    "glaim_withheld_rows",
    "Rows published with null: silent longer than max_gap (gap), or interval wider than max_interval",
    ["cause"],
)
revisions = Counter("glaim_revisions", "Rows published with a revision above 0")
upgraded_rows = Counter(
    "glaim_upgraded_rows",
    "Final rows of a lower rung that the model, or the first closed form, imputed again once it was available",
)
windows = Counter("glaim_windows", "Windows passed to the imputer")
side_windows = Counter("glaim_side_windows", "Windows with hidden observations, passed to the imputer to score it")
# Both are sums: rate(glaim_score_error_total) / rate(glaim_score_questions_total) is a live mean absolute error. Each
# method counts its own questions, because a closed form that is learned later was not asked the earlier ones.
score_error = Counter(
    "glaim_score_error",
    "Sum of absolute errors on hidden observations, in the sensor's unit",
    ["model", "sensor", "method", "position"],
)
score_questions = Counter(
    "glaim_score_questions",
    "Hidden observations that all methods imputed, since the method was one of them",
    ["model", "sensor", "method", "position"],
)
# Two versions of a network on the same hidden readings; one's errors beside the other's are in each other's series.
shadow_error = Counter(
    "glaim_shadow_error",
    "Sum of absolute errors of a version on hidden observations that both it and another one imputed",
    ["model", "sensor", "position", "version", "against"],
)
shadow_questions = Counter(
    "glaim_shadow_questions",
    "Hidden observations that both versions imputed",
    ["model", "sensor", "position", "version", "against"],
)
shadow_windows = Counter(
    "glaim_shadow_windows",
    "Windows with hidden observations for another version: scored, failed, or skipped while a call was pending",
    ["model", "outcome"],
)
# Sum over the methods: filled values; a method's part of it is its share of the published mixture.
expert_weight = Counter(
    "glaim_expert_weight",
    "Sum of the weights by which an expert is part of the published filled values",
    ["model", "method", "position"],
)
score_intervals = Counter("glaim_score_intervals", "Hidden observations with an interval", ["model", "position"])
score_intervals_holding = Counter(
    "glaim_score_intervals_holding", "Hidden observations within their interval", ["model", "position"]
)
# Figures of finished stretches (output.quality); errors are shares of the baseline's, so that sensors can be added.
quality_cells = Counter(
    "glaim_quality_cells",
    "Filled cells whose true value is known: hidden readings, and late ones for what was published",
    ["model", "source", "position", "gap_age"],
)
quality_intervals = Counter(
    "glaim_quality_intervals", "Of these cells, those with an interval", ["model", "source", "position", "gap_age"]
)
quality_intervals_holding = Counter(
    "glaim_quality_intervals_holding",
    "Of these, those within their interval",
    ["model", "source", "position", "gap_age"],
)
quality_scaled_error = Counter(
    "glaim_quality_scaled_error",
    "Sum of errors on hidden readings that every method answered, as shares of the baseline's mean error on the sensor",
    ["model", "method", "gap_age"],
)
quality_compared = Counter(
    "glaim_quality_compared",
    "Hidden readings on which the methods are compared: every one of them gave a value",
    ["model", "method", "gap_age"],
)
imputer_failures = Counter(
    "glaim_imputer_failures", "Batches of a model that an imputer failed to impute", ["imputer", "model"]
)
imputer_state = Gauge(
    "glaim_imputer_state", "Breaker of a rung for a model: 0 closed, 1 half open, 2 open", ["imputer", "model"]
)
imputer_openings = Counter(
    "glaim_imputer_openings", "Times that the breaker of a rung for a model opened", ["imputer", "model"]
)
imputer_probes = Counter(
    "glaim_imputer_probes", "Batches of a model that tried a rung after its breaker's rest", ["imputer", "model"]
)
model_version_refused = Gauge(
    "glaim_model_version_refused",
    "1 for a version of a model that is out of service: error, shape, not_finite, contract or not_loaded",
    ["model", "version", "reason"],
)
model_held_seconds = Gauge(
    "glaim_model_held_timestamp_seconds",
    "Since when a model takes no new version because one was rolled back, seconds since the epoch",
    ["model"],
)
contract_reads = Counter(
    "glaim_contract_reads",
    "Lookups of the contract of an unknown model version: read, absent or refused",
    ["model", "outcome"],
)
unusable_contracts = Gauge(
    "glaim_unusable_contracts",
    "Versions of a model in service whose contract the worker cannot find (absent) or has refused",
    ["model", "outcome"],
)
form_reads = Counter(
    "glaim_form_reads", "Closed forms of a model found in the repository: read or refused", ["model", "outcome"]
)
form_until_seconds = Gauge(
    "glaim_form_until_timestamp_seconds",
    "End of the newest readings that the closed form in use was fitted to, seconds since the epoch; 0 if unknown",
    ["model", "version"],
)
form_learnings = Counter(
    "glaim_form_learnings",
    "Learnings of a model with `learn: true`: its closed form was placed, none better was found (kept), or failed",
    ["model", "outcome"],
)
form_without_logarithm = Counter(
    "glaim_form_without_logarithm",
    "Windows filled without the logarithms of their closed form, because a value lies far from the trained ones",
    ["model"],
)
impute_seconds = Histogram(
    "glaim_impute_seconds", "Time to impute the windows of one batch of records", buckets=_WORK_BUCKETS_S
)
apply_seconds = Histogram(
    "glaim_apply_seconds", "Time to decode one batch of records and apply it to the windows", buckets=_WORK_BUCKETS_S
)
output_latency_seconds = Histogram(
    "glaim_output_latency_seconds",
    "From the timestamp of a batch's last record to the broker's acknowledgement of its output",
    buckets=_LATENCY_BUCKETS_S,
)
timed_rows = Counter(
    "glaim_timed_rows",
    "Rows published within 10 s of the record that closed their step (in_time), or later (late)",
    ["outcome"],
)
due_rows = Counter(
    "glaim_due_rows",
    "Observed rows that the readings of closed steps must cause, once the broker has acknowledged their batch: "
    "published with it, or missing",
    ["outcome"],
)
overdue_rows = Gauge(
    "glaim_overdue_rows",
    "Observed rows of a partition due for longer than a minute, and not acknowledged",
    ["partition"],
)
watermark_lag_seconds = Gauge(
    "glaim_watermark_lag_seconds",
    "Wall time less the newest event time of a partition, at glaim_watermark_updated_timestamp_seconds",
    ["partition"],
)
watermark_updated_seconds = Gauge(
    "glaim_watermark_updated_timestamp_seconds",
    "When a partition last applied a batch, seconds since the epoch: since then its watermark lag is frozen",
    ["partition"],
)
newest_event_seconds = Gauge(
    "glaim_newest_event_timestamp_seconds", "Newest event time of a partition, seconds since the epoch", ["partition"]
)
consumer_lag_records = Gauge(
    "glaim_consumer_lag_records", "Records of an assigned partition without acknowledged output", ["partition"]
)
input_partitions = Gauge("glaim_input_partitions", "Partitions of the input topic, assigned to this worker or not")
groups = Gauge("glaim_groups", "Groups with windows in a partition", ["partition"])
dark_groups = Gauge(
    "glaim_dark_groups", "Groups of a partition that went dark within 7 days and have not returned", ["partition"]
)
speaking_groups = Gauge("glaim_speaking_groups", "Groups with windows in a partition that are not dark", ["partition"])
groups_with_holes = Gauge(
    "glaim_groups_with_holes",
    "Groups of a partition that lack a reading at one of their newest 12 closed steps, and are neither dark nor new",
    ["partition"],
)
faulty_sensors = Gauge(
    "glaim_faulty_sensors",
    "Sensors of a partition that are faulty by a detector: runs, silence, gaps, jumps, drift or clock",
    ["partition", "detector"],
)
known_groups = Gauge(
    "glaim_known_groups",
    "Group names in memory: of windows, and of groups that went less than as many names ago; some 0.2 kB each",
)
rebuilds = Counter("glaim_rebuilds", "Partitions whose windows were rebuilt from the input topic")
rebuild_failures = Counter("glaim_rebuild_failures", "Rebuild attempts that failed because the input could not be read")
rebuilt_records = Counter("glaim_rebuilt_records", "Records read again to rebuild windows")
rebuild_seconds = Histogram("glaim_rebuild_seconds", "Time to rebuild the windows of a partition")
retention_shortfalls = Counter(
    "glaim_retention_shortfalls", "Rebuilds for which the input topic no longer had all needed records"
)
transactions = Counter("glaim_transactions", "Transactions of exactly-once delivery, by how they ended", ["outcome"])
ownership_losses = Counter(
    "glaim_ownership_losses", "Times that a partition's work was dropped because it may belong to another worker"
)
lost_offsets = Counter(
    "glaim_lost_offsets", "Offsets of the input that were removed, or cut off after a commit, before they were answered"
)
certificate_expires_seconds = Gauge(
    "glaim_certificate_expires_timestamp_seconds",
    "End of the validity of the TLS files in use, seconds since the epoch",
    ["use", "file"],
)
publish_retries = Counter("glaim_publish_retries", "Publish attempts that the broker did not acknowledge")
health = Gauge("glaim_health", "State of the pages below /health: 1 passes, 0 fails", ["page"])
loop_delay_seconds = Histogram(
    "glaim_loop_delay_seconds",
    "Delay with which the event loop woke a task that sleeps for one second at a time",
    buckets=_LATENCY_BUCKETS_S,
)
worker_faults = Counter(
    "glaim_worker_faults",
    "Internal errors on a batch, which was then split or imputed by a simpler method",
)
build_info = Gauge("glaim_build_info", "Always 1; the label is the version of the program", ["version"])
model_info = Gauge(
    "glaim_model_info",
    "Always 1; the labels are the models and versions whose contracts the worker has read",
    ["model", "version"],
)

# Removed when a partition moves to another worker; `consumer_lag_records` is kept up to date by the lag watch.
OF_PARTITIONS = (
    groups,
    dark_groups,
    speaking_groups,
    groups_with_holes,
    overdue_rows,
    faulty_sensors,
    watermark_lag_seconds,
    watermark_updated_seconds,
    newest_event_seconds,
)


def forget_partition(partition: int) -> None:
    """Remove the series of a partition that has moved to another worker."""
    for gauge in OF_PARTITIONS:
        gauge.remove_by_labels({"partition": str(partition)})
