"""When each alert must fire and must stay silent, as series with one sample per minute.

Series use promtool's notation: `0+60x30` begins with 0 and takes 30 steps of 60, `_` is no sample.
"""

from __future__ import annotations

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
    "w1": W1,
    "triton": TRITON,
    "p0": W0 + ',partition="0"',
    "p1": W1 + ',partition="1"',
    "undecodable": W0 + ',cause="undecodable"',
    "dark": W0 + ',kind="dark"',
    "speaks": W0 + ',kind="speaks"',
    "rung": W0 + ',imputer="triton",model="pump"',
    "rung1": W1 + ',imputer="triton",model="pump"',
    "other_model": W0 + ',imputer="triton",model="fan"',
    "by_model": W0 + ',method="model"',
    "by_blend": W0 + ',method="blend"',
    "by_interpolation": W0 + ',method="interpolation"',
    "observed": W0 + ',method="observed"',
    "fast": W0 + ',le="10.0"',
    "any": W0 + ',le="+Inf"',
    "of_model": W0 + ',model="pump",sensor="flow",method="model",position="edge"',
    "of_baseline": W0 + ',model="pump",sensor="flow",method="baseline",position="edge"',
    "asked": W0 + ',model="pump",sensor="flow",position="edge"',
    "slow_of_model": W0 + ',model="pump",sensor="level",method="model",position="edge"',
    "slow_of_baseline": W0 + ',model="pump",sensor="level",method="baseline",position="edge"',
    "slow_asked": W0 + ',model="pump",sensor="level",position="edge"',
    "drawn": W0 + ',model="pump",position="edge"',
    "refused": W0 + ',model="pump",outcome="refused"',
    "to_kafka": W0 + ',use="kafka",file="certificate"',
    "ready": W0 + ',page="ready"',
    "read": W0 + ',model="pump",outcome="read"',
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


def _named(series: dict[str, str]) -> dict[str, str]:
    out = {}
    for name, values in series.items():
        metric, _, labels = name.partition("__")
        out[f"{metric}{{{LABELS[labels]}}}"] = values
    return out


CASES = (
    # --- workers
    fires("GlaimWorkersGone", "the only worker dies", "13m", up="1x9 0x10"),
    fires("GlaimWorkersGone", "the only worker and its target vanish", "18m", up="1x9 _x10"),
    silent("GlaimWorkersGone", "one of two dies", "30m", up="1x9 0x30", up__w1="1x40"),
    silent("GlaimWorkersGone", "the only worker is replaced in a minute", "12m", up="1x9 0x0 1x10"),
    fires("GlaimWorkerDown", "one of two is down for 4 minutes", "14m", up="1x9 0x10", up__w1="1x20"),
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
        "GlaimPartitionsUnattended", "a rebalance of 2 minutes", "20m",
        glaim_input_partitions="2x30", glaim_consumer_lag_records__p0="0x30",
        glaim_consumer_lag_records__p1="0x9 _x1 0x20",
    ),
    fires("GlaimWorkerNotReady", "the worker waits for a Triton that never starts", "20m", glaim_health__ready="0x30"),
    silent("GlaimWorkerNotReady", "a rebuild of 4 minutes", "20m", glaim_health__ready="1x9 0x3 1x30"),
    fires("GlaimWorkerFaults", "one fault", "20m", glaim_worker_faults_total="0x9 1x20"),
    silent("GlaimWorkerFaults", "the counter is reset by a restart", "20m", glaim_worker_faults_total="0x9 0x20"),
    silent("GlaimWorkerFaults", "a fault over an hour ago", "90m", glaim_worker_faults_total="0x9 1x90"),
    # --- flow
    fires(
        "GlaimConsumerLagGrowing", "5 records a second more than the workers answer", "40m",
        glaim_consumer_lag_records__p0="0+300x60", glaim_consumer_lag_records__p1="0x60",
    ),
    silent(
        "GlaimConsumerLagGrowing", "a restart leaves a backlog of 50,000 records that shrinks", "40m",
        glaim_consumer_lag_records__p0="0x9 50000-2000x25 0x30",
    ),
    silent(
        "GlaimConsumerLagGrowing", "a fluctuating lag of a few hundred", "40m",
        glaim_consumer_lag_records__p0="100 300 200 400 100 300 200 400 100 300 200 400 100 300 200 400x40",
    ),
    fires(
        "GlaimWatermarkStalled", "records wait and event time stands still", "40m",
        glaim_consumer_lag_records__p0="0x9 50+50x40", glaim_newest_event_timestamp_seconds__p0="0+60x10 600x40",
    ),
    fires(
        "GlaimWatermarkStalled", "a rebuild that never ends: no event time at all", "20m",
        glaim_consumer_lag_records__p0="500x40",
    ),
    silent(
        "GlaimWatermarkStalled", "a constant lag while event time advances", "40m",
        glaim_consumer_lag_records__p0="5000x60", glaim_newest_event_timestamp_seconds__p0="0+60x60",
    ),
    silent(
        "GlaimWatermarkStalled", "no input", "40m",
        glaim_consumer_lag_records__p0="0x60", glaim_newest_event_timestamp_seconds__p0="0+60x10 600x60",
    ),
    fires(
        "GlaimInputSilent", "the gateway is unplugged", "45m",
        glaim_records_total="0+600x15 9000x60", glaim_consumer_lag_records__p0="0x80",
    ),
    silent(
        "GlaimInputSilent", "the workers hang: records wait", "45m",
        glaim_records_total="0+600x15 9000x60", glaim_consumer_lag_records__p0="0x15 600+600x60",
    ),
    silent(
        "GlaimInputSilent", "newly installed, no input yet", "45m",
        glaim_records_total="0x80", glaim_consumer_lag_records__p0="0x80",
    ),
    silent(
        "GlaimInputSilent", "the counter is reset by a restart", "45m",
        glaim_records_total="0+600x15 0+600x60", glaim_consumer_lag_records__p0="0x80",
    ),
    fires(
        "GlaimOutputLatencyBurn", "a fifth of the batches is late for an hour", "60m",
        glaim_output_latency_seconds_bucket__fast="0+48x90", glaim_output_latency_seconds_count="0+60x90",
    ),
    fires(
        "GlaimOutputLatencyBurn", "a tenth is late for six hours: the slow burn alone", "360m",
        glaim_output_latency_seconds_bucket__fast="0+54x400", glaim_output_latency_seconds_count="0+60x400",
    ),
    silent(
        "GlaimOutputLatencyBurn", "late for 5 minutes after a restart", "315m",
        glaim_output_latency_seconds_bucket__fast="0+60x300 18000x5 18060+60x40",
        glaim_output_latency_seconds_count="0+60x345",
    ),
    silent(
        "GlaimOutputLatencyBurn", "0.5 % of the batches are late", "360m",
        glaim_output_latency_seconds_bucket__fast="0+597x400", glaim_output_latency_seconds_count="0+600x400",
    ),
    fires("GlaimPublishRetries", "the broker is down", "20m", glaim_publish_retries_total="0x9 6+6x30"),
    silent("GlaimPublishRetries", "a rolling restart of the broker", "20m", glaim_publish_retries_total="0x9 8x30"),
    fires("GlaimRebuildFailing", "the input cannot be read", "20m", glaim_rebuild_failures_total="0x5 6+6x30"),
    silent("GlaimRebuildFailing", "one broken connection", "20m", glaim_rebuild_failures_total="0x5 1x30"),
    fires(
        "GlaimRetentionShort", "found at startup, before the first scrape", "10m",
        glaim_retention_shortfalls_total="2x60", process_start_time_seconds="-60x60",
    ),
    fires(
        "GlaimRetentionShort", "found when a partition moved", "200m",
        glaim_retention_shortfalls_total="0x190 1x60", process_start_time_seconds="0x250",
    ),
    silent(
        "GlaimRetentionShort", "hours ago", "200m",
        glaim_retention_shortfalls_total="2x250", process_start_time_seconds="0x250",
    ),
    fires(
        "GlaimInputLost", "found at the start, before the first scrape", "10m",
        glaim_lost_offsets_total="200x60", process_start_time_seconds="-60x60",
    ),
    fires(
        "GlaimInputLost", "retention overtook a partition that waits", "200m",
        glaim_lost_offsets_total="0x190 50x60", process_start_time_seconds="0x250",
    ),
    silent(
        "GlaimInputLost", "hours ago", "200m",
        glaim_lost_offsets_total="200x250", process_start_time_seconds="0x250",
    ),
    # --- certificates
    fires(
        "GlaimCertificateExpires", "no one renews it: 13 days are left", "1600m",
        glaim_certificate_expires_timestamp_seconds__to_kafka=f"{15 * 86_400}x1700",
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
        glaim_readings_total="0+6000x60", glaim_dead_letters_total__undecodable="0x9 120+120x60",
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
        "GlaimDeadLettersRising", "a constant one in a thousand", "50m",
        glaim_readings_total="0+60000x60", glaim_dead_letters_total__undecodable="0+60x60",
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
        "GlaimGroupsDark", "ten of a hundred groups at once", "20m",
        glaim_groups__p0="100x60", glaim_outages_total__dark="0x9 10x60", glaim_outages_total__speaks="0x70",
    ),
    silent(
        "GlaimGroupsDark", "ten of a hundred groups, which return", "20m",
        glaim_groups__p0="100x60", glaim_outages_total__dark="0x9 10x60", glaim_outages_total__speaks="0x12 10x60",
    ),
    silent(
        "GlaimGroupsDark", "one of a hundred groups", "20m",
        glaim_groups__p0="100x60", glaim_outages_total__dark="0x9 1x60", glaim_outages_total__speaks="0x70",
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
        "GlaimFallbackShareHigh", "interpolation fills nearly everything", "40m",
        glaim_rows_total__by_interpolation="0+570x60", glaim_rows_total__by_model="0+30x60",
        glaim_rows_total__observed="0+9000x60",
    ),
    silent(
        "GlaimFallbackShareHigh", "Triton is down, which another alert reports", "40m",
        glaim_rows_total__by_interpolation="0+570x60", glaim_rows_total__by_model="0+30x60",
        glaim_imputer_state__rung="2x60",
    ),
    silent(
        "GlaimFallbackShareHigh", "interpolation fills half", "40m",
        glaim_rows_total__by_interpolation="0+300x60", glaim_rows_total__by_blend="0+300x60",
        glaim_rows_total__observed="0+9000x60",
    ),
    silent(
        "GlaimFallbackShareHigh", "no holes", "40m",
        glaim_rows_total__by_interpolation="0x60", glaim_rows_total__by_model="0x60",
        glaim_rows_total__observed="0+9000x60",
    ),
    fires(
        "GlaimModelWorseThanBaseline", "the model has become worse than the baseline", "120m",
        glaim_score_error_total__of_model="0+15x200", glaim_score_error_total__of_baseline="0+10x200",
        glaim_score_questions_total__asked="0+10x200",
    ),
    silent(
        "GlaimModelWorseThanBaseline", "the model is worse on one slow sensor only", "120m",
        glaim_score_error_total__of_model="0+8x200", glaim_score_error_total__of_baseline="0+20x200",
        glaim_score_questions_total__asked="0+10x200",
        glaim_score_error_total__slow_of_model="0+14x200", glaim_score_error_total__slow_of_baseline="0+10x200",
        glaim_score_questions_total__slow_asked="0+10x200",
    ),
    silent(
        "GlaimModelWorseThanBaseline", "the model is better", "120m",
        glaim_score_error_total__of_model="0+8x200", glaim_score_error_total__of_baseline="0+10x200",
        glaim_score_questions_total__asked="0+10x200",
    ),
    silent(
        "GlaimModelWorseThanBaseline", "too few probes to judge", "120m",
        glaim_score_error_total__of_model="0+15x200", glaim_score_error_total__of_baseline="0+10x200",
        glaim_score_questions_total__asked="0+1x200",
    ),
    fires(
        "GlaimIntervalCoverageLow", "70 of 100 intervals hold", "120m",
        glaim_score_intervals_total__drawn="0+10x200", glaim_score_intervals_holding_total__drawn="0+7x200",
    ),
    silent(
        "GlaimIntervalCoverageLow", "85 of 100 intervals hold", "120m",
        glaim_score_intervals_total__drawn="0+20x200", glaim_score_intervals_holding_total__drawn="0+17x200",
    ),
    fires("GlaimContractUnusable", "a version is rejected", "20m", glaim_contract_reads_total__refused="0x9 1x60"),
    silent("GlaimContractUnusable", "a version is read", "20m", glaim_contract_reads_total__read="0x9 1x60"),
    # --- Triton
    fires("GlaimTritonDown", "Triton is down for 4 minutes", "14m", up__triton="1x9 0x10"),
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
