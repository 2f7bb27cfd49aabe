"""A fault of three hours for each alert: healthy until minute 60, broken until minute 240, mended until the end.

An alert must fire within a stated time, keep firing until the fault is mended, and clear within a stated time.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.monitoring.alert_cases import _named

BEFORE, FAULT = 60, 180


@dataclass(frozen=True, eq=False)
class Timeline:
    """Series of one fault, and within how many minutes its alert fires and clears; `burn` chooses one of its rules."""

    alert: str
    series: dict[str, str]
    fires_within: int
    clears_within: int
    burn: str = ""

    @property
    def minutes(self) -> int:
        """Length of the series."""
        return BEFORE + FAULT + self.clears_within + 10


def timeline(alert: str, fires_within: int, clears_within: int, *, burn: str = "", **series: str) -> Timeline:
    """A timeline; `series` as in alert_cases, with the values of `gauge` or `counter`."""
    return Timeline(alert, _named(series), fires_within, clears_within, burn)


def gauge(healthy: float | str, broken: float | str, mended: float | str | None = None) -> str:
    """A gauge; `_` is a series that ends, as Prometheus marks it when a target vanishes."""
    end = healthy if mended is None else mended
    if broken == "_":
        return f"{healthy}x{BEFORE - 1} stale _x{FAULT - 1} {end}x5000"
    return f"{healthy}x{BEFORE - 1} {broken}x{FAULT - 1} {end}x5000"


def counter(healthy: float, broken: float, mended: float | None = None) -> str:
    """A counter that grows by so much in a minute."""
    end = healthy if mended is None else mended
    first, second = healthy * BEFORE, healthy * BEFORE + broken * FAULT
    return f"0+{healthy}x{BEFORE - 1} {first}+{broken}x{FAULT - 1} {second}+{end}x5000"


def clock(*, stops: bool) -> str:
    """A time stamp that follows the time of the test, or stands still during the fault."""
    broken = 0 if stops else 60
    return f"0+60x{BEFORE - 1} {BEFORE * 60}+{broken}x{FAULT - 1} {(BEFORE + FAULT) * 60}+60x5000"


ONE, ALL = "1x9000", "0x9000"

TIMELINES = (
    timeline("GlaimWorkersGone", 4, 1, up=gauge(1, "_"), workers_wanted__declared=ONE),
    timeline("GlaimWorkersMissing", 12, 1, up=ONE, up__w1=gauge(1, "_"), workers_wanted__declared="2x9000"),
    timeline("GlaimReleaseUndeclared", 62, 1, up=ONE, workers_wanted__declared=gauge(1, "_")),
    timeline("GlaimWorkerDown", 4, 1, up=gauge(1, 0)),
    timeline(
        "GlaimWorkerRestarting", 30, 61,
        process_start_time_seconds=f"0x{BEFORE - 1} 0+60x{FAULT - 1} {FAULT * 60}x5000",
    ),
    timeline("GlaimWorkerNotReady", 12, 1, glaim_health__ready=gauge(1, 0)),
    timeline(
        "GlaimPartitionsUnattended", 7, 1, glaim_input_partitions="2x9000", glaim_consumer_lag_records__p0=ALL,
        glaim_consumer_lag_records__p1=gauge(0, "_"),
    ),
    timeline("GlaimWorkerFaults", 2, 62, glaim_worker_faults_total=counter(0, 1), process_start_time_seconds=ALL),
    timeline(
        "GlaimConsumerLagGrowing", 25, 20, glaim_consumer_lag_records__p0="0x59 0+3600x179 640000-20000x32 0x4000",
        glaim_records_total=counter(6000, 6000, 26_000),
    ),
    timeline(
        "GlaimWatermarkStalled", 17, 1, glaim_consumer_lag_records__p0=gauge(0, 500),
        glaim_watermark_updated_timestamp_seconds__p0=clock(stops=True),
    ),
    timeline(
        "GlaimInputSilent", 22, 1, up=ONE, glaim_consumer_lag_records__p0=ALL,
        glaim_watermark_updated_timestamp_seconds__p0=clock(stops=True),
    ),
    timeline("GlaimPublishRetries", 8, 6, glaim_publish_retries_total=counter(0, 6)),
    timeline("GlaimRebuildFailing", 8, 6, glaim_rebuild_failures_total=counter(0, 6)),
    timeline(
        "GlaimRetentionShort", 2, 62,
        glaim_retention_shortfalls_total=counter(0, 1), process_start_time_seconds=ALL,
    ),
    timeline("GlaimInputLost", 2, 62, glaim_lost_offsets_total=counter(0, 10), process_start_time_seconds=ALL),
    timeline(
        "GlaimTimelinessBurn", 15, 7, burn="fast",
        glaim_timed_rows_total__late=counter(0, 1000), glaim_timed_rows_total__in_time=counter(1000, 0),
    ),
    timeline(
        "GlaimTimelinessBurn", 92, 32, burn="slow",
        glaim_timed_rows_total__late=counter(0, 100), glaim_timed_rows_total__in_time=counter(1000, 900),
    ),
    timeline(
        "GlaimTimelinessBurn", 30, 380, burn="ticket",
        glaim_timed_rows_total__late=counter(0, 50), glaim_timed_rows_total__in_time=counter(1000, 950),
    ),
    timeline(
        "GlaimCompletenessBurn", 15, 12, burn="fast",
        glaim_expected_rows_total=counter(1000, 1000), glaim_rows_total__observed=counter(1000, 900),
    ),
    timeline(
        "GlaimAvailabilityBurn", 10, 7, burn="fast", workers_wanted__declared=ONE,
        glaim_input_partitions="2x9000", glaim_consumer_lag_records__p0=ALL,
        glaim_consumer_lag_records__p1=gauge(0, "_"),
    ),
    timeline(
        "GlaimModelShareBurn", 60, 7, burn="fast",
        glaim_rows_total__by_model=counter(100, 0), glaim_rows_total__by_interpolation=counter(0, 100),
    ),
    timeline(
        "GlaimDeadLetterSeen", 2, 62,
        glaim_dead_letters_total__undecodable=counter(0, 1), process_start_time_seconds=ALL,
    ),
    timeline(
        "GlaimDeadLettersRising", 18, 12,
        glaim_dead_letters_total__undecodable=counter(0, 100), glaim_readings_total=counter(6000, 6000),
    ),
    timeline(
        "GlaimTooLateReadings", 20, 12,
        glaim_late_readings_total=counter(0, 200), glaim_readings_total=counter(6000, 6000),
    ),
    timeline("GlaimGroupsDark", 17, 1, glaim_dark_groups__p0=gauge(0, 1), glaim_speaking_groups__p0=gauge(8, 7)),
    timeline("GlaimManyGroupsDark", 7, 1, glaim_dark_groups__p0=gauge(0, 3), glaim_speaking_groups__p0=gauge(8, 5)),
    timeline("GlaimImputerUnavailable", 7, 1, glaim_imputer_state__rung=gauge(0, 2)),
    timeline(
        "GlaimModelWorseThanBaseline", 110, 360,
        glaim_score_error_total__of_model=counter(8, 40), glaim_score_error_total__of_baseline=counter(10, 10),
        glaim_score_questions_total__asked=counter(10, 10),
    ),
    timeline(
        "GlaimIntervalCoverageLow", 110, 360,
        glaim_score_intervals_total__drawn=counter(10, 10), glaim_score_intervals_holding_total__drawn=counter(9, 2),
    ),
    timeline("GlaimContractUnusable", 2, 1442, glaim_contract_reads_total__refused=counter(0, 0.1)),
    timeline("GlaimModelVersionRefused", 7, 7, glaim_model_version_refused__bad_version=gauge(0, 1)),
    timeline("GlaimTritonDown", 7, 1, up__triton=gauge(1, "_"), tritons_wanted__declared_triton=ONE),
    timeline(
        "GlaimTritonQueueing", 16, 6, nv_inference_queue_duration_us__served=counter(120_000, 60_000_000),
        nv_inference_request_success__served=counter(60, 60),
    ),
    timeline(
        "GlaimTritonFailures", 14, 6, nv_inference_request_failure__failed=counter(0, 6),
        nv_inference_request_success__served=counter(60, 54),
    ),
    timeline(
        "GlaimRetrainingFailed", 2, 2, glaim_build_info=ONE,
        kube_job_status_start_time__first="100x9000", kube_job_owner__first_owner=ONE,
        kube_job_status_failed__first_limit=gauge(0, 1),
    ),
    timeline(
        "GlaimRetrainingRefused", 2, 2, glaim_build_info=ONE,
        kube_job_status_start_time__first="100x9000", kube_job_owner__first_owner=ONE,
        kube_job_failed__first_failed=gauge(0, 1), kube_job_status_failed__first=gauge(0, 1),
    ),
)  # fmt: skip
