"""Every Prometheus metric of the worker, made once. Labels have few values: sensors of the catalogue, never a group."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_LATENCY_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_WORK_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

records = Counter("glaim_records", "Kafka records taken from the input topic")
readings = Counter("glaim_readings", "Readings that were decoded and went into windows")
dropouts = Counter("glaim_dropouts", "Readings that said themselves that they hold no value: null, NaN, bad quality")
skewed = Counter("glaim_skewed_readings", "Readings stamped ahead of their record's time, by less than what is refused")
superseded = Counter("glaim_superseded_readings", "Readings for whose sensor and step another one stands")
dead_letters = Counter("glaim_dead_letters", "Readings or records sent to the dead-letter topic", ["cause"])
late_readings = Counter("glaim_late_readings", "Readings older than the window, sent to the late topic")
outages = Counter("glaim_outages", "Groups that went dark, or spoke again", ["kind"])
rows = Counter("glaim_rows", "Rows published on the output topic", ["method"])
filled_rows = Counter(
    "glaim_filled_rows", "Rows published with a filled value, by the steps since their sensor spoke", ["gap_age"]
)
withheld_rows = Counter(
    "glaim_withheld_rows", "Rows with null: silent beyond max_gap (gap), or too wide for max_interval", ["cause"]
)
revisions = Counter("glaim_revisions", "Rows published with a revision above 0")
upgraded_rows = Counter("glaim_upgraded_rows", "Finals of a lower rung that the model made again when it was back")
windows = Counter("glaim_windows", "Windows given to the imputer")
side_windows = Counter("glaim_side_windows", "Windows with something observed hidden, given to the imputer for scores")
# Errors and questions are sums: rate(glaim_score_error_total) / rate(glaim_score_questions_total) is a live MAE.
score_error = Counter(
    "glaim_score_error",
    "Absolute errors of answers to questions whose answers are known, in the sensor's unit",
    ["model", "sensor", "method", "position"],
)
score_questions = Counter(
    "glaim_score_questions",
    "Questions whose answers are known that the model answered",
    ["model", "sensor", "position"],
)
score_intervals = Counter("glaim_score_intervals", "Intervals drawn for such questions", ["model", "position"])
score_intervals_holding = Counter(
    "glaim_score_intervals_holding", "Of these intervals, the ones that hold what was hidden", ["model", "position"]
)
imputer_failures = Counter("glaim_imputer_failures", "Batches that an imputer could not answer", ["imputer"])
imputer_state = Gauge(
    "glaim_imputer_state", "Breaker of a rung: 0 asked, 1 tried by one batch, 2 left alone", ["imputer"]
)
imputer_openings = Counter("glaim_imputer_openings", "Times that a rung was left alone for a rest", ["imputer"])
imputer_probes = Counter("glaim_imputer_probes", "Batches that tried a rung after its rest", ["imputer"])
contract_reads = Counter(
    "glaim_contract_reads",
    "Contracts looked for because a model answered with a version that was not known: read, absent or refused",
    ["model", "outcome"],
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
watermark_lag_seconds = Gauge(
    "glaim_watermark_lag_seconds", "Wall time less the newest event time of a partition", ["partition"]
)
newest_event_seconds = Gauge(
    "glaim_newest_event_timestamp_seconds", "Newest event time of a partition, seconds since the epoch", ["partition"]
)
consumer_lag_records = Gauge(
    "glaim_consumer_lag_records", "Records of an assigned partition whose output is not acknowledged yet", ["partition"]
)
input_partitions = Gauge("glaim_input_partitions", "Partitions of the input topic, assigned to this worker or not")
groups = Gauge("glaim_groups", "Groups that a partition has windows for", ["partition"])
known_groups = Gauge(
    "glaim_known_groups",
    "Names of groups that were met since the start, those of partitions that moved away included; some 0.2 kB each",
)
rebuilds = Counter("glaim_rebuilds", "Windows of a partition rebuilt from the input topic")
rebuild_failures = Counter("glaim_rebuild_failures", "Attempts to rebuild for which the input could not be read")
rebuilt_records = Counter("glaim_rebuilt_records", "Records read again to rebuild windows")
rebuild_seconds = Histogram("glaim_rebuild_seconds", "Time to rebuild the windows of a partition")
retention_shortfalls = Counter(
    "glaim_retention_shortfalls", "Rebuilds for which the input topic no longer held everything that was needed"
)
publish_retries = Counter("glaim_publish_retries", "Attempts to publish that the broker did not acknowledge")
health = Gauge("glaim_health", "What the pages below /health say: 1 yes, 0 no", ["page"])
loop_delay_seconds = Histogram(
    "glaim_loop_delay_seconds",
    "How much later than asked for the event loop woke a task that sleeps a second at a time",
    buckets=_LATENCY_BUCKETS_S,
)
worker_faults = Counter(
    "glaim_worker_faults",
    "Times that the worker itself failed on a batch: it was taken apart, or its holes were filled in a simpler way",
)
build_info = Gauge("glaim_build_info", "Always 1; the label says which version of the program runs", ["version"])
model_info = Gauge(
    "glaim_model_info", "Always 1; the labels say of which models the worker holds contracts", ["model", "version"]
)
