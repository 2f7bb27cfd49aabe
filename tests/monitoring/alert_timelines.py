"""A fault of hours for each alert: healthy until minute 60, broken until minute 240, mended, where it says no other.

An alert must fire within a stated time, keep firing until the fault is mended, and clear within a stated time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.monitoring.alert_cases import _named

BEFORE, FAULT = 60, 180
DAY = 1440
AFTER = 5000  # minutes that a series goes on once its fault is mended, longer than any alert takes to clear

Shape = Callable[[int, int], str]  # minutes before the fault and of the fault to the values


@dataclass(frozen=True, eq=False)
class Timeline:
    """Series of one fault, and within how many minutes its alert fires and clears; `burn` chooses one of its rules."""

    alert: str
    series: dict[str, str]
    fires_within: int
    clears_within: int
    burn: str = ""
    before: int = BEFORE
    fault: int = FAULT

    @property
    def mended(self) -> int:
        """The first minute without the fault."""
        return self.before + self.fault

    @property
    def minutes(self) -> int:
        """How long to watch."""
        return self.mended + self.clears_within + 10


def timeline(
    alert: str,
    fires_within: int,
    clears_within: int,
    *,
    burn: str = "",
    before: int = BEFORE,
    fault: int = FAULT,
    **series: str | Shape,
) -> Timeline:
    """A timeline; `series` as in alert_cases, with the values of `gauge`, `counter` or `clock`."""
    values = {name: each if isinstance(each, str) else each(before, fault) for name, each in series.items()}
    return Timeline(alert, _named(values), fires_within, clears_within, burn, before, fault)


def gauge(healthy: float | str, broken: float | str, mended: float | str | None = None) -> Shape:
    """A gauge; `_` is a series that ends, as Prometheus marks it when a target vanishes."""
    end = healthy if mended is None else mended

    def values(before: int, fault: int) -> str:
        if broken == "_":
            return f"{healthy}x{before - 1} stale _x{fault - 1} {end}x{AFTER}"
        return f"{healthy}x{before - 1} {broken}x{fault - 1} {end}x{AFTER}"

    return values


def counter(healthy: float, broken: float, mended: float | None = None) -> Shape:
    """A counter that grows by so much in a minute."""
    end = healthy if mended is None else mended

    def values(before: int, fault: int) -> str:
        first, second = healthy * before, healthy * before + broken * fault
        return f"0+{healthy}x{before - 1} {first}+{broken}x{fault - 1} {second}+{end}x{AFTER}"

    return values


def clock(*, stops: bool) -> Shape:
    """A time stamp that follows the time of the test, or stands still during the fault."""
    pace = 0 if stops else 60

    def values(before: int, fault: int) -> str:
        return f"0+60x{before - 1} {before * 60}+{pace}x{fault - 1} {(before + fault) * 60}+60x{AFTER}"

    return values


ONE, ALL = "1x9000", "0x9000"
SLOW: dict[str, Any] = {"before": 7 * 60, "fault": 8 * 60}
CREEPING: dict[str, Any] = {"before": 3 * DAY, "fault": 2 * DAY}


def partitions(number: int) -> dict[str, Any]:
    """The lag of all partitions of so many, less that of partition 1."""
    return {f"glaim_consumer_lag_records__p{each}": ALL for each in range(number) if each != 1}


TIMELINES = (
    timeline("GlaimWorkersGone", 4, 1, up=gauge(1, "_"), workers_wanted__declared=ONE),
    timeline("GlaimWorkersMissing", 12, 1, up=ONE, up__w1=gauge(1, "_"), workers_wanted__declared="2x9000"),
    timeline("GlaimReleaseUndeclared", 62, 1, up=ONE, workers_wanted__declared=gauge(1, "_")),
    timeline("GlaimWorkerDown", 6, 1, up=gauge(1, 0)),
    timeline(
        "GlaimWorkerRestarting", 30, 61,
        process_start_time_seconds=f"0x{BEFORE - 1} 0+60x{FAULT - 1} {FAULT * 60}x5000",
    ),
    timeline("GlaimWorkerNotReady", 12, 1, glaim_health__ready=gauge(1, 0)),
    # 14 days before its end at the minute at which the fault begins, and replaced by one for 90 days at its end.
    timeline(
        "GlaimCertificateExpires", 1, 1, before=DAY + 60,
        glaim_certificate_expires_timestamp_seconds__to_kafka=lambda before, fault: (
            f"{14 * 86_400 + before * 60}x{before + fault - 1} {90 * 86_400}x{AFTER}"
        ),
    ),
    timeline(
        "GlaimPartitionsUnattended", 9, 1, glaim_input_partitions="2x9000", glaim_consumer_lag_records__p0=ALL,
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
    # A tenth for hours: ten times as fast as the budget of 1 % allows, which takes six of ten parts of the long range.
    timeline(
        "GlaimTimelinessBurn", 220, 32, burn="slow", **SLOW,
        glaim_timed_rows_total__late=counter(0, 100), glaim_timed_rows_total__in_time=counter(1000, 900),
    ),
    # Three in a hundred for a day and a half: three times as fast, a third of three days.
    timeline(
        "GlaimTimelinessBurn", DAY + 10, 250, burn="ticket", **CREEPING,
        glaim_timed_rows_total__late=counter(0, 30), glaim_timed_rows_total__in_time=counter(1000, 970),
    ),
    timeline(
        "GlaimCompletenessBurn", 22, 17, burn="fast",
        glaim_due_rows_total__published=counter(1000, 900), glaim_due_rows_total__missing=counter(0, 100),
        glaim_overdue_rows__p0=ALL,
    ),
    timeline(
        "GlaimCompletenessBurn", 235, 45, burn="slow", **SLOW,
        glaim_due_rows_total__published=counter(1000, 990), glaim_due_rows_total__missing=counter(0, 10),
        glaim_overdue_rows__p0=ALL,
    ),
    timeline(
        "GlaimCompletenessBurn", DAY + 20, 250, burn="ticket", **CREEPING,
        glaim_due_rows_total__published=counter(1000, 997), glaim_due_rows_total__missing=counter(0, 3),
        glaim_overdue_rows__p0=ALL,
    ),
    # A broker acknowledges nothing: the rows of the batches in flight are overdue, and none of them is counted.
    timeline(
        "GlaimCompletenessBurn", 13, 2, burn="fast",
        glaim_due_rows_total__published=counter(1000, 0), glaim_due_rows_total__missing=ALL,
        glaim_overdue_rows__p0=gauge(0, 3000),
    ),
    timeline(
        "GlaimAvailabilityBurn", 10, 7, burn="fast", workers_wanted__declared=ONE,
        glaim_input_partitions="2x9000", glaim_consumer_lag_records__p0=ALL,
        glaim_consumer_lag_records__p1=gauge(0, "_"),
    ),
    # One of 20 partitions: 0.05, ten times the budget of 0.005; one of 50 is four times.
    timeline(
        "GlaimAvailabilityBurn", 220, 32, burn="slow", **SLOW, workers_wanted__declared=ONE,
        glaim_input_partitions="20x9000", **partitions(20), glaim_consumer_lag_records__p1=gauge(0, "_"),
    ),
    timeline(
        "GlaimAvailabilityBurn", 18 * 60 + 10, 290, burn="ticket", **CREEPING, workers_wanted__declared=ONE,
        glaim_input_partitions="50x9000", **partitions(50), glaim_consumer_lag_records__p1=gauge(0, "_"),
    ),
    timeline(
        "GlaimModelShareBurn", 60, 7, burn="fast",
        glaim_rows_total__by_model=counter(100, 0), glaim_rows_total__by_interpolation=counter(0, 100),
    ),
    timeline(
        "GlaimModelShareBurn", 220, 32, burn="slow", **SLOW,
        glaim_rows_total__by_model=counter(100, 50), glaim_rows_total__by_interpolation=counter(0, 50),
    ),
    timeline(
        "GlaimModelShareBurn", DAY + 10, 250, burn="ticket", **CREEPING,
        glaim_rows_total__by_model=counter(100, 85), glaim_rows_total__by_interpolation=counter(0, 15),
    ),
    timeline(
        "GlaimDeadLetterSeen", 2, 62,
        glaim_dead_letters_total__undecodable=counter(0, 1), process_start_time_seconds=ALL,
    ),
    timeline(
        "GlaimDeadLettersRising", 18, 12,
        glaim_dead_letters_total__undecodable=counter(0, 400), glaim_readings_total=counter(6000, 6000),
    ),
    timeline(
        "GlaimTooLateReadings", 20, 12,
        glaim_late_readings_total=counter(0, 200), glaim_readings_total=counter(6000, 6000),
    ),
    timeline("GlaimGroupsDark", 17, 1, glaim_dark_groups__p0=gauge(0, 1), glaim_speaking_groups__p0=gauge(8, 7)),
    timeline("GlaimSensorsFaulty", 17, 1, glaim_faulty_sensors__p0=gauge(0, 1)),
    timeline("GlaimManyGroupsDark", 7, 1, glaim_dark_groups__p0=gauge(0, 3), glaim_speaking_groups__p0=gauge(8, 5)),
    timeline("GlaimImputerUnavailable", 7, 1, glaim_imputer_state__rung=gauge(0, 2)),
    timeline(
        "GlaimModelWorseThanBaseline", 110, 360,
        glaim_score_error_total__of_model=counter(8, 40), glaim_score_error_total__of_baseline=counter(10, 10),
        glaim_score_questions_total__of_model=counter(10, 10), glaim_score_questions_total__of_baseline=counter(10, 10),
    ),
    timeline(
        "GlaimIntervalCoverageLow", 110, 360,
        glaim_score_intervals_total__drawn=counter(10, 10), glaim_score_intervals_holding_total__drawn=counter(9, 2),
    ),
    timeline("GlaimContractUnusable", 12, 6, glaim_unusable_contracts__refused=gauge(0, 1)),
    timeline("GlaimModelVersionRefused", 7, 7, glaim_model_version_refused__bad_version=gauge(0, 1)),
    # Since the minute that is a week before the fault, released at its end.
    timeline(
        "GlaimModelHeld", 1, 7, fault=26 * 60,
        glaim_model_held_timestamp_seconds__bad_model=lambda before, fault: (
            f"{before * 60 - 7 * 86_400}x{before + fault - 1} stale"
        ),
    ),
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
