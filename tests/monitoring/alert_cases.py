"""When each alert must fire and must stay silent, as series with one sample per minute.

Series use promtool's notation: `0+60x30` begins with 0 and takes 30 steps of 60, `_` is no sample.
"""

from dataclasses import dataclass

COMMON_LABELS = 'namespace="plant",release="line-1"'
W0 = f'{COMMON_LABELS},job="glaim-stream-worker",instance="w0"'
W1 = f'{COMMON_LABELS},job="glaim-stream-worker",instance="w1"'
TRITON = f'{COMMON_LABELS},job="glaim-stream-triton",instance="t0"'


@dataclass(frozen=True, eq=False)
class Case:
    """Series, an alert, and whether it fires at a given minute."""

    alert: str
    situation: str
    series: dict[str, str]
    at: str
    fires: bool


def fires(alert: str, situation: str, at: str, **series: str) -> Case:
    """A case in which the alert fires; keys of `series` are `metric` or `metric__key`, with `key` from LABELS."""
    return Case(alert, situation, _named(series), at, True)


def silent(alert: str, situation: str, at: str, **series: str) -> Case:
    """A case in which the alert does not fire."""
    return Case(alert, situation, _named(series), at, False)


_OWNED = 'namespace="{}",job_name="{}",owner_kind="CronJob",owner_name="{}"'
LABELS = {
    "": W0,
    "declared": COMMON_LABELS + ',statefulset="line-1-worker"',
    "declared_triton": COMMON_LABELS + ',deployment="line-1-triton"',
    "statefulset": 'namespace="plant",statefulset="line-1-worker"',
    "renamed_statefulset": 'namespace="kube-system",exported_namespace="plant",statefulset="line-1-worker"',
    "late": W0 + ',outcome="late"',
    "in_time": W0 + ',outcome="in_time"',
    "w1": W1,
    "triton": TRITON,
    "p0": W0 + ',partition="0"',
    "p1": W1 + ',partition="1"',
    "p0 of w1": W1 + ',partition="0"',
    **{f"p{number}": f'{W0},partition="{number}"' for number in range(2, 50)},
    "published": W0 + ',outcome="published"',
    "missing": W0 + ',outcome="missing"',
    "undecodable": W0 + ',cause="undecodable"',
    "rung": W0 + ',imputer="triton",model="pump"',
    "rung1": W1 + ',imputer="triton",model="pump"',
    "other_model": W0 + ',imputer="triton",model="fan"',
    "by_model": W0 + ',method="model"',
    "by_blend": W0 + ',method="blend"',
    "by_interpolation": W0 + ',method="interpolation"',
    "observed": W0 + ',method="observed"',
    "of_model": W0 + ',model="pump",sensor="flow",method="model",position="edge"',
    "of_baseline": W0 + ',model="pump",sensor="flow",method="baseline",position="edge"',
    "slow_of_model": W0 + ',model="pump",sensor="level",method="model",position="edge"',
    "slow_of_baseline": W0 + ',model="pump",sensor="level",method="baseline",position="edge"',
    "drawn": W0 + ',model="pump",position="edge"',
    "refused": W0 + ',model="pump",outcome="refused"',
    "bad_model": W0 + ',model="pump"',
    "bad_model_w1": W1 + ',model="pump"',
    "bad_version": W0 + ',model="pump",version="2",reason="not_finite"',
    "bad_version_w1": W1 + ',model="pump",version="2",reason="not_finite"',
    "unloaded_version": W0 + ',model="pump",version="2",reason="not_loaded"',
    "to_kafka": W0 + ',use="kafka",file="certificate"',
    "ready": W0 + ',page="ready"',
    "served": TRITON + ',model="pump",version="1"',
    "failed": TRITON + ',model="pump",version="1",reason="BACKEND"',
    "first": 'namespace="plant",job_name="line-1-training-1"',
    "second": 'namespace="plant",job_name="line-1-training-2"',
    "first_failed": 'namespace="plant",job_name="line-1-training-1",condition="true"',
    "first_limit": 'namespace="plant",job_name="line-1-training-1",reason="BackoffLimitExceeded"',
    "first_owner": _OWNED.format("plant", "line-1-training-1", "line-1-training"),
    "second_owner": _OWNED.format("plant", "line-1-training-2", "line-1-training"),
    "other": 'namespace="shop",job_name="cats-training-1"',
    "other_limit": 'namespace="shop",job_name="cats-training-1",reason="BackoffLimitExceeded"',
    "other_owner": _OWNED.format("shop", "cats-training-1", "cats-training"),
}


NAMES = {"workers_wanted": "glaim:release:workers_wanted", "tritons_wanted": "glaim:release:tritons_wanted"}


def _named(series: dict[str, str]) -> dict[str, str]:
    out = {}
    for name, values in series.items():
        metric, _, labels = name.partition("__")
        out[f"{NAMES.get(metric, metric)}{{{LABELS[labels]}}}"] = values
    return out


def _found_by_a_worker(alert: str, counter: str) -> tuple[Case, ...]:
    """What a worker counts in its first seconds, or when a partition moves to it."""
    return (
        fires(
            alert, "found at the start, before the first scrape", "10m",
            **{counter: "200x60"}, process_start_time_seconds="-60x60",
        ),
        fires(alert, "found later", "200m", **{counter: "0x190 1x60"}, process_start_time_seconds="0x250"),
        silent(alert, "hours ago", "200m", **{counter: "200x250"}, process_start_time_seconds="0x250"),
    )  # fmt: skip


CASES = (
    # --- workers
    fires("GlaimWorkersGone", "the only worker dies", "13m", up="1x9 0x10", workers_wanted__declared="1x30"),
    fires("GlaimWorkersGone", "the worker and its target vanish", "18m", up="1x9", workers_wanted__declared="1x30"),
    fires("GlaimWorkersGone", "pending since the installation, never an up", "4m", workers_wanted__declared="2x9"),
    fires("GlaimWorkersGone", "gone for 25 hours", "1510m", up="1x9", workers_wanted__declared="1x1600"),
    fires(
        "GlaimWorkersGone", "kube-state-metrics is gone too, and the declaration counts", "60m",
        up="1x9", workers_wanted__declared="2x90", kube_statefulset_replicas__statefulset="2x9",
    ),
    fires(
        "GlaimWorkersGone", "Prometheus did not run from minute 40 to minute 50", "60m",
        up="1x9", workers_wanted__declared="1x40 _x10 1x60",
    ),
    silent("GlaimWorkersGone", "one of two dies", "30m", up="1x9 0x30", up__w1="1x40", workers_wanted__declared="2x40"),
    silent(
        "GlaimWorkersGone", "the only worker is replaced in a minute", "12m", up="1x9 0x0 1x10",
        workers_wanted__declared="1x30",
    ),
    silent(
        "GlaimWorkersGone", "scaled to 0 on purpose by kubectl", "1510m",
        up="1x9", workers_wanted__declared="2x1600", kube_statefulset_replicas__statefulset="2x9 0x1600",
    ),
    silent(
        "GlaimWorkersGone", "scaled to 0, and kube-state-metrics is scraped without honor_labels", "60m",
        up="1x9", workers_wanted__declared="2x90", kube_statefulset_replicas__renamed_statefulset="2x9 0x90",
    ),
    silent(
        "GlaimWorkersGone", "scaled to 0 by worker.replicas", "1510m",
        up="1x9", workers_wanted__declared="1x9 0x1600",
    ),
    silent("GlaimWorkersGone", "the release is removed", "1510m", up="1x9", workers_wanted__declared="1x9"),
    fires("GlaimWorkersMissing", "one of two is pending", "20m", up="1x30", workers_wanted__declared="2x30"),
    silent(
        "GlaimWorkersMissing", "a roll-out of three, two minutes each", "12m",
        up="1x1 0x1 1x40", up__w1="1x4 0x1 1x40", workers_wanted__declared="2x40",
    ),
    fires("GlaimReleaseUndeclared", "the rules were loaded without a declaration", "70m", up="1x90"),
    silent("GlaimReleaseUndeclared", "declared", "70m", up="1x90", workers_wanted__declared="1x90"),
    fires("GlaimWorkerDown", "one of two is down for 6 minutes", "16m", up="1x9 0x10", up__w1="1x20"),
    silent("GlaimWorkerDown", "a restart of 2 minutes", "13m", up="1x9 0x1 1x10"),
    silent("GlaimWorkerDown", "it flaps: down every other minute", "30m", up="1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1x20"),
    fires(
        "GlaimWorkerRestarting", "a crash loop, a start every 5 minutes", "40m",
        process_start_time_seconds="100x4 400x4 700x4 1000x4 1300x4 1600x20",
    ),
    silent(
        "GlaimWorkerRestarting", "a single restart", "40m", process_start_time_seconds="100x20 1300x30",
    ),
    fires(
        "GlaimPartitionsUnattended", "a partition without a worker", "25m",
        glaim_input_partitions="2x30", glaim_consumer_lag_records__p0="0x30", glaim_consumer_lag_records__p1="0x9 _x20",
    ),
    fires("GlaimPartitionsUnattended", "no partition has a worker", "10m", glaim_input_partitions="2x30"),
    silent(
        "GlaimPartitionsUnattended", "a roll-out in which one partition or the other is always on its way", "35m",
        glaim_input_partitions="2x60", glaim_consumer_lag_records__p0="0x9 " + "stale 0x0 " * 15 + "0x30",
        glaim_consumer_lag_records__p1="0x9 " + "0x0 stale " * 15 + "0x30",
    ),
    silent(
        "GlaimPartitionsUnattended", "a rebalance of 2 minutes", "20m",
        glaim_input_partitions="2x30", glaim_consumer_lag_records__p0="0x30",
        glaim_consumer_lag_records__p1="0x9 _x1 0x20",
    ),
    fires("GlaimWorkerNotReady", "the worker waits for a Triton that never starts", "20m", glaim_health__ready="0x30"),
    silent("GlaimWorkerNotReady", "a rebuild of 4 minutes", "20m", glaim_health__ready="1x9 0x3 1x30"),
    fires("GlaimWorkerFaults", "one fault", "20m", glaim_worker_faults_total="0x9 1x20"),
    fires(
        "GlaimWorkerFaults", "counted before the first scrape", "5m",
        glaim_worker_faults_total="1x20", process_start_time_seconds="0x20",
    ),
    fires(
        "GlaimWorkerFaults", "a crash loop, a start every 3 minutes, each of them after a fault", "20m",
        glaim_worker_faults_total="1x30", process_start_time_seconds="0+60x30",
    ),
    silent(
        "GlaimWorkerFaults", "a fault of yesterday, before a restart now", "1520m",
        glaim_worker_faults_total="0x9 1x1490 0x100", process_start_time_seconds="0x1500 90000x100",
    ),
    silent("GlaimWorkerFaults", "the counter is reset by a restart", "20m", glaim_worker_faults_total="0x9 0x20"),
    silent("GlaimWorkerFaults", "a fault over an hour ago", "90m", glaim_worker_faults_total="0x9 1x90"),
    # --- flow
    fires(
        "GlaimConsumerLagGrowing", "60 records a second more than the workers answer", "40m",
        glaim_consumer_lag_records__p0="0+3600x60", glaim_records_total="0+6000x60",
    ),
    silent(
        "GlaimConsumerLagGrowing", "a ramp that a worker of 14,000 records a second follows", "40m",
        glaim_consumer_lag_records__p0="1000+10x60", glaim_records_total="0+840000x60",
    ),
    silent(
        "GlaimConsumerLagGrowing", "a restart leaves a backlog of 50,000 records that shrinks", "40m",
        glaim_consumer_lag_records__p0="0x9 50000-2000x25 0x30", glaim_records_total="0+6000x60",
    ),
    fires(
        "GlaimWatermarkStalled", "records wait and no batch is applied", "40m",
        glaim_consumer_lag_records__p0="0x9 50+50x40", glaim_watermark_updated_timestamp_seconds__p0="0+60x10 600x40",
    ),
    fires(
        "GlaimWatermarkStalled", "a rebuild that never ends: no batch at all", "20m",
        glaim_consumer_lag_records__p0="500x40",
    ),
    silent(
        "GlaimWatermarkStalled", "old readings are sent again: batches are applied, event time stands still", "40m",
        glaim_consumer_lag_records__p0="5000x60", glaim_watermark_updated_timestamp_seconds__p0="0+60x60",
        glaim_newest_event_timestamp_seconds__p0="600x60",
    ),
    silent(
        "GlaimWatermarkStalled", "no input", "40m",
        glaim_consumer_lag_records__p0="0x60", glaim_watermark_updated_timestamp_seconds__p0="0+60x10 600x60",
    ),
    fires(
        "GlaimInputSilent", "the gateway is unplugged", "45m",
        up="1x80", glaim_watermark_updated_timestamp_seconds__p0="0+60x15 900x80",
        glaim_consumer_lag_records__p0="0x80",
    ),
    fires(
        "GlaimInputSilent", "silent for 25 hours, with a restart of the worker in between", "1520m",
        up="1x1600", glaim_watermark_updated_timestamp_seconds__p0="0+60x15 900x400",
        glaim_consumer_lag_records__p0="0x1600",
    ),
    silent(
        "GlaimInputSilent", "the workers hang: records wait", "45m",
        up="1x80", glaim_watermark_updated_timestamp_seconds__p0="0+60x15 900x80",
        glaim_consumer_lag_records__p0="0x15 600+600x60",
    ),
    silent(
        "GlaimInputSilent", "newly installed, no input yet", "45m",
        up="1x80", glaim_records_total="0x80", glaim_consumer_lag_records__p0="0x80",
    ),
    silent(
        "GlaimInputSilent", "the release is removed", "1510m",
        up="1x15", glaim_watermark_updated_timestamp_seconds__p0="0+60x15", glaim_consumer_lag_records__p0="0x15",
    ),
    fires(
        "GlaimTimelinessBurn", "a fifth of the rows is late for an hour", "60m",
        glaim_timed_rows_total__late="0+12x90", glaim_timed_rows_total__in_time="0+48x90",
    ),
    fires(
        "GlaimTimelinessBurn", "a tenth is late for six hours: the slow burn alone", "360m",
        glaim_timed_rows_total__late="0+6x400", glaim_timed_rows_total__in_time="0+54x400",
    ),
    silent(
        "GlaimTimelinessBurn", "one of the ten rows of an hour is late, at night", "300m",
        glaim_timed_rows_total__late="0x250 1x200", glaim_timed_rows_total__in_time="0x5 1x5 2x5 3x5 4x5 5x5 6x400",
    ),
    silent(
        "GlaimTimelinessBurn", "0.5 % of the rows are late", "360m",
        glaim_timed_rows_total__late="0+3x400", glaim_timed_rows_total__in_time="0+597x400",
    ),
    silent(
        "GlaimTimelinessBurn", "no rows at night", "360m",
        glaim_timed_rows_total__late="5x400", glaim_timed_rows_total__in_time="60000x400",
    ),
    fires(
        "GlaimCompletenessBurn", "one row in twenty does not come out", "120m",
        glaim_due_rows_total__published="0+570x200", glaim_due_rows_total__missing="0+30x200",
        glaim_overdue_rows__p0="0x200",
    ),
    fires(
        "GlaimCompletenessBurn", "nothing is acknowledged for half an hour", "90m",
        glaim_due_rows_total__published="0+600x60 36000x60", glaim_due_rows_total__missing="0x120",
        glaim_overdue_rows__p0="0x62 1800x60",
    ),
    silent(
        "GlaimCompletenessBurn", "the evening: readings halve within an hour, all of them come out", "240m",
        glaim_due_rows_total__published="0+600x120 72000+300x200", glaim_due_rows_total__missing="0x400",
        glaim_overdue_rows__p0="0x400",
    ),
    silent(
        "GlaimCompletenessBurn", "a restart: the counters begin again, the rows of the open steps come twice", "240m",
        glaim_due_rows_total__published="0+600x100 1800+600x200", glaim_due_rows_total__missing="0x100 0x200",
        glaim_overdue_rows__p0="0x100 _x3 0x200",
    ),
    silent(
        "GlaimCompletenessBurn", "the only worker is replaced, and its backlog follows after two minutes", "58m",
        glaim_due_rows_total__published="0+600x54 stale _x1 3000+600x100",
        glaim_due_rows_total__missing="0x54 stale _x1 0x100", glaim_overdue_rows__p0="0x54 stale _x2 0x100",
    ),
    silent(
        "GlaimCompletenessBurn", "a broker acknowledges nothing for five minutes", "95m",
        glaim_due_rows_total__published="0+600x80 48000x5 51000+600x60", glaim_due_rows_total__missing="0x150",
        glaim_overdue_rows__p0="0x81 1800x5 0x60",
    ),
    fires(
        "GlaimAvailabilityBurn", "no worker for ten minutes", "80m",
        glaim_input_partitions="2x59 _x10 2x60", glaim_consumer_lag_records__p0="0x59 _x10 0x60",
        glaim_consumer_lag_records__p1="0x59 _x10 0x60", workers_wanted__declared="1x200",
    ),
    silent(
        "GlaimAvailabilityBurn", "the only worker is replaced in two minutes", "80m",
        glaim_input_partitions="2x59 _x1 2x60", glaim_consumer_lag_records__p0="0x59 _x1 0x60",
        glaim_consumer_lag_records__p1="0x59 _x1 0x60", workers_wanted__declared="1x200",
    ),
    fires(
        "GlaimModelShareBurn", "interpolation fills nearly everything", "60m",
        glaim_rows_total__by_interpolation="0+570x90", glaim_rows_total__by_model="0+30x90",
    ),
    silent(
        "GlaimModelShareBurn", "interpolation fills one hole in fifty", "360m",
        glaim_rows_total__by_interpolation="0+12x400", glaim_rows_total__by_blend="0+588x400",
    ),
    silent(
        "GlaimModelShareBurn", "no holes", "60m",
        glaim_rows_total__by_interpolation="0x90", glaim_rows_total__by_model="0x90",
        glaim_rows_total__observed="0+90x90",
    ),
    fires("GlaimPublishRetries", "the broker is down", "20m", glaim_publish_retries_total="0x9 6+6x30"),
    silent("GlaimPublishRetries", "a rolling restart of the broker", "20m", glaim_publish_retries_total="0x9 8x30"),
    fires("GlaimRebuildFailing", "the input cannot be read", "20m", glaim_rebuild_failures_total="0x5 6+6x30"),
    silent("GlaimRebuildFailing", "one broken connection", "20m", glaim_rebuild_failures_total="0x5 1x30"),
    *_found_by_a_worker("GlaimRetentionShort", "glaim_retention_shortfalls_total"),
    *_found_by_a_worker("GlaimInputLost", "glaim_lost_offsets_total"),
    # --- certificates
    fires(
        "GlaimCertificateExpires", "no one renews it: 13 days are left", "1600m",
        glaim_certificate_expires_timestamp_seconds__to_kafka=f"{15 * 86_400}x1700",
    ),
    fires(
        "GlaimCertificateExpires", "13 days are left, and the only worker restarts", "1600m",
        glaim_certificate_expires_timestamp_seconds__to_kafka=f"{15 * 86_400}x1598 stale _x2 {15 * 86_400}x60",
    ),
    silent(
        "GlaimCertificateExpires", "a month is left", "1600m",
        glaim_certificate_expires_timestamp_seconds__to_kafka=f"{31 * 86_400}x1700",
    ),
    silent(
        "GlaimCertificateExpires", "it lives for a day and was renewed after 16 hours", "1600m",
        glaim_certificate_expires_timestamp_seconds__to_kafka=f"86400x960 {40 * 3_600}x700",
    ),
    # --- readings
    fires(
        "GlaimDeadLettersRising", "a gateway with a new format", "30m",
        glaim_readings_total="0+6000x60", glaim_dead_letters_total__undecodable="0x9 400+400x60",
    ),
    fires(
        "GlaimDeadLettersRising", "a wrong catalogue: no reading is usable", "30m",
        glaim_readings_total="0x60", glaim_dead_letters_total__undecodable="0+120x60",
    ),
    silent(
        "GlaimDeadLettersRising", "a burst of nine dead letters", "15m",
        glaim_readings_total="0+60x60", glaim_dead_letters_total__undecodable="0x9 9x60",
    ),
    silent(
        "GlaimDeadLettersRising", "a constant share that is expected", "50m",
        glaim_readings_total="0+57000x60", glaim_dead_letters_total__undecodable="0+2900x60",
    ),
    fires(
        "GlaimTooLateReadings", "a gateway whose clock is a week behind", "50m",
        glaim_readings_total="0+6000x90", glaim_late_readings_total="0+120x90",
    ),
    silent(
        "GlaimTooLateReadings", "a gateway sends its stored readings at once", "30m",
        glaim_readings_total="0+6000x90", glaim_late_readings_total="0x20 900x90",
    ),
    fires(
        "GlaimDeadLetterSeen", "the first one, counted before the first scrape", "5m",
        glaim_dead_letters_total__undecodable="1x20", process_start_time_seconds="0x20",
    ),
    silent(
        "GlaimDeadLetterSeen", "those of yesterday", "1500m",
        glaim_dead_letters_total__undecodable="0x9 7x1600", process_start_time_seconds="0x1600",
    ),
    fires(
        "GlaimSensorsFaulty", "a frozen sensor", "30m",
        glaim_faulty_sensors__p0="0x9 1x60",
    ),
    silent(
        "GlaimSensorsFaulty", "a sensor that recovers after ten minutes", "40m",
        glaim_faulty_sensors__p0="0x9 1x10 0x60",
    ),
    fires(
        "GlaimGroupsDark", "one of eight pumps", "30m",
        glaim_dark_groups__p0="0x9 1x60", glaim_speaking_groups__p0="7x70",
    ),
    silent(
        "GlaimGroupsDark", "a pump that returns after ten minutes", "40m",
        glaim_dark_groups__p0="0x9 1x10 0x60", glaim_speaking_groups__p0="8x90",
    ),
    fires(
        "GlaimManyGroupsDark", "3,000 of 10,000", "25m",
        glaim_dark_groups__p0="1x9 3001x60", glaim_speaking_groups__p0="9999x9 6999x60",
    ),
    fires(
        "GlaimManyGroupsDark", "a partition of them moves to another worker", "12m",
        glaim_dark_groups__p0="0x3 4x5 stale", glaim_speaking_groups__p0="8x3 4x5 stale",
        **{"glaim_dark_groups__p0 of w1": "_x11 4x60", "glaim_speaking_groups__p0 of w1": "_x11 4x60"},
    ),
    silent(
        "GlaimManyGroupsDark", "one of eight pumps", "60m",
        glaim_dark_groups__p0="0x9 1x60", glaim_speaking_groups__p0="8x9 7x60",
    ),
    silent(
        "GlaimManyGroupsDark", "one of two pumps", "60m",
        glaim_dark_groups__p0="0x9 1x60", glaim_speaking_groups__p0="2x9 1x60",
    ),
    # --- quality
    fires("GlaimImputerUnavailable", "Triton is down for 6 minutes", "16m", glaim_imputer_state__rung="0x9 2 1 2x20"),
    silent(
        "GlaimImputerUnavailable", "Triton is rolled out in 3 minutes", "13m", glaim_imputer_state__rung="0x9 2x2 0x20",
    ),
    silent(
        "GlaimImputerUnavailable", "it flaps", "30m", glaim_imputer_state__rung="0 2 0 2 0 2 0 2 0 2 0 2 0x30",
    ),
    fires(
        "GlaimImputerUnavailable", "one of two workers cannot reach it", "20m",
        glaim_imputer_state__rung="0x30", glaim_imputer_state__rung1="2x30",
    ),
    fires(
        "GlaimImputerUnavailable", "one of two models is missing", "20m",
        glaim_imputer_state__rung="0x30", glaim_imputer_state__other_model="2x30",
    ),
    fires(
        "GlaimModelWorseThanBaseline", "the model has become worse than the baseline", "120m",
        glaim_score_error_total__of_model="0+15x200", glaim_score_error_total__of_baseline="0+10x200",
        glaim_score_questions_total__of_model="0+10x200", glaim_score_questions_total__of_baseline="0+10x200",
    ),
    silent(
        "GlaimModelWorseThanBaseline", "the model is worse on one slow sensor only", "120m",
        glaim_score_error_total__of_model="0+8x200", glaim_score_error_total__of_baseline="0+20x200",
        glaim_score_questions_total__of_model="0+10x200", glaim_score_questions_total__of_baseline="0+10x200",
        glaim_score_error_total__slow_of_model="0+14x200", glaim_score_error_total__slow_of_baseline="0+10x200",
        glaim_score_questions_total__slow_of_model="0+10x200", glaim_score_questions_total__slow_of_baseline="0+10x200",
    ),
    silent(
        "GlaimModelWorseThanBaseline", "the model is better", "120m",
        glaim_score_error_total__of_model="0+8x200", glaim_score_error_total__of_baseline="0+10x200",
        glaim_score_questions_total__of_model="0+10x200", glaim_score_questions_total__of_baseline="0+10x200",
    ),
    silent(
        "GlaimModelWorseThanBaseline", "too few probes to judge", "120m",
        glaim_score_error_total__of_model="0+15x200", glaim_score_error_total__of_baseline="0+10x200",
        glaim_score_questions_total__of_model="0+1x200", glaim_score_questions_total__of_baseline="0+1x200",
    ),
    fires(
        "GlaimIntervalCoverageLow", "70 of 100 intervals hold", "120m",
        glaim_score_intervals_total__drawn="0+10x200", glaim_score_intervals_holding_total__drawn="0+7x200",
    ),
    silent(
        "GlaimIntervalCoverageLow", "85 of 100 intervals hold", "120m",
        glaim_score_intervals_total__drawn="0+20x200", glaim_score_intervals_holding_total__drawn="0+17x200",
    ),
    fires("GlaimContractUnusable", "a version is rejected", "25m", glaim_unusable_contracts__refused="0x9 1x60"),
    fires(
        "GlaimContractUnusable", "still after 25 hours, though the worker restarts every hour", "1510m",
        glaim_unusable_contracts__refused="0x9 " + "1x57 stale 0x1 " * 30,
    ),
    silent(
        "GlaimContractUnusable", "the ConfigMap follows in two minutes", "20m",
        glaim_unusable_contracts__refused="0x9 1x1 0x60",
    ),
    fires(
        "GlaimModelHeld", "rolled back eight days ago", "10m",
        glaim_model_held_timestamp_seconds__bad_model="-691200x60",
    ),
    silent(
        "GlaimModelHeld", "rolled back six days ago", "10m",
        glaim_model_held_timestamp_seconds__bad_model="-518400x60",
    ),
    fires(
        "GlaimModelHeld", "the worker that reported it restarts", "13m",
        glaim_model_held_timestamp_seconds__bad_model="-691200x10 stale _x2 -691200x60",
    ),
    silent(
        "GlaimModelHeld", "released ten minutes ago", "20m",
        glaim_model_held_timestamp_seconds__bad_model="-691200x10 stale",
        glaim_model_held_timestamp_seconds__bad_model_w1="-691200x10 stale",
    ),
    fires(
        "GlaimModelVersionRefused", "a version is out of service", "16m",
        glaim_model_version_refused__bad_version="_x9 1x60",
    ),
    fires(
        "GlaimModelVersionRefused", "it lasts for 25 hours", "1510m",
        glaim_model_version_refused__bad_version="_x9 1x1600",
    ),
    fires(
        "GlaimModelVersionRefused", "each worker restarts in turn", "40m",
        glaim_model_version_refused__bad_version="1x9 stale _x3 1x60",
        glaim_model_version_refused__bad_version_w1="1x20 stale _x3 1x60",
    ),
    silent(
        "GlaimModelVersionRefused", "it takes 3 minutes until Triton has loaded a new version", "30m",
        glaim_model_version_refused__unloaded_version="_x9 1x3 stale",
    ),
    silent(
        "GlaimModelVersionRefused", "it was rolled back", "40m", glaim_model_version_refused__bad_version="1x20 stale"
    ),
    # --- Triton
    fires("GlaimTritonDown", "Triton is down for 6 minutes", "16m", up__triton="1x9 0x10"),
    fires("GlaimTritonDown", "pending since the installation", "10m", tritons_wanted__declared_triton="1x30"),
    silent("GlaimTritonDown", "no Triton is wanted", "30m", up="1x30"),
    silent("GlaimTritonDown", "Triton is replaced within 2 minutes", "13m", up__triton="1x9 0x1 1x10"),
    fires(
        "GlaimTritonQueueing", "half a second in the queue per request", "30m",
        nv_inference_queue_duration_us__served="0+30000000x60", nv_inference_request_success__served="0+60x60",
    ),
    silent(
        "GlaimTritonQueueing", "two milliseconds in the queue per request", "30m",
        nv_inference_queue_duration_us__served="0+120000x60", nv_inference_request_success__served="0+60x60",
    ),
    silent(
        "GlaimTritonQueueing", "no requests", "30m",
        nv_inference_queue_duration_us__served="500x60", nv_inference_request_success__served="50x60",
    ),
    fires(
        "GlaimTritonFailures", "one in ten requests fails", "30m",
        nv_inference_request_failure__failed="0+6x60", nv_inference_request_success__served="0+54x60",
    ),
    fires(
        "GlaimTritonFailures", "a version that never succeeded", "30m", nv_inference_request_failure__failed="0+6x60",
    ),
    silent(
        "GlaimTritonFailures", "a few failures in a roll-out", "25m",
        nv_inference_request_failure__failed="0x10 5x60", nv_inference_request_success__served="0+600x60",
    ),
    # --- training
    fires(
        "GlaimRetrainingFailed", "every attempt has failed", "10m",
        glaim_build_info="1x30", kube_job_status_start_time__first="100x30", kube_job_owner__first_owner="1x30",
        kube_job_failed__first_failed="1x30", kube_job_status_failed__first_limit="1x30",
    ),
    silent(
        "GlaimRetrainingFailed", "another team's Job has failed", "10m",
        glaim_build_info="1x30", kube_job_status_start_time__other="100x30", kube_job_owner__other_owner="1x30",
        kube_job_status_failed__other_limit="1x30",
    ),
    silent(
        "GlaimRetrainingFailed", "one attempt has failed, the next one runs", "10m",
        glaim_build_info="1x30", kube_job_status_start_time__first="100x30", kube_job_owner__first_owner="1x30",
        kube_job_status_failed__first="1x30",
    ),
    silent(
        "GlaimRetrainingFailed", "last week's run failed, this week's succeeded", "10m",
        glaim_build_info="1x30", kube_job_status_start_time__first="100x30", kube_job_owner__first_owner="1x30",
        kube_job_failed__first_failed="1x30", kube_job_status_failed__first_limit="1x30",
        kube_job_status_start_time__second="200x30", kube_job_owner__second_owner="1x30",
    ),
    fires(
        "GlaimRetrainingRefused", "the model does not beat the baselines", "10m",
        glaim_build_info="1x30", kube_job_status_start_time__first="100x30", kube_job_owner__first_owner="1x30",
        kube_job_failed__first_failed="1x30", kube_job_status_failed__first="1x30",
    ),
    silent(
        "GlaimRetrainingRefused", "every attempt has failed, which another alert reports", "10m",
        glaim_build_info="1x30", kube_job_status_start_time__first="100x30", kube_job_owner__first_owner="1x30",
        kube_job_failed__first_failed="1x30", kube_job_status_failed__first_limit="1x30",
    ),
)  # fmt: skip
