"""Settings of earlier releases that are gone, and their replacements.

The worker and the chart refuse them by this one table; `python -m deploy.chart_docs` writes it to files/gone.yaml.
"""

from __future__ import annotations

from typing import NamedTuple

# Where the settings that took over stand in the chart.
_CHART = {
    "kafka_extra": "kafka.extra",
    "record_mb": "worker.limits.recordMegabytes",
    "score_share": "worker.scoreShare",
    "topic_names": "kafka.topicNames",
    "manifest_key": "models.trust.key",
    "page_token_file": "page.existingSecret",
    "sasl_secret_file": "kafka.sasl.existingSecret",
}


class _Gone(NamedTuple):
    chart: str  # path of the value in the chart; empty where it had none of its own, or has kept it
    became: str  # names of settings in braces


_MEMORY = "{record_mb} sets all limits of memory"
_GONE = {
    "dead_letter_topic": _Gone("kafka.deadLetterTopic", "set dead_letters of {topic_names}"),
    "late_topic": _Gone("kafka.lateTopic", "set late of {topic_names}"),
    "outage_topic": _Gone("kafka.outageTopic", "set outages of {topic_names}"),
    "sasl_password": _Gone("", "put the password into a file that {sasl_secret_file} names"),
    "sasl_password_file": _Gone("", "{sasl_secret_file} names the file"),
    "sasl_token_file": _Gone("", "{sasl_secret_file} names the file"),
    "require_manifest": _Gone(
        "models.trust.requireManifest", "with {manifest_key} no version without a signed manifest is used"
    ),
    "triton_tls": _Gone("", "write grpcs:// before the host in GLAIM_TRITON"),
    "triton_in_flight": _Gone("triton.client.inFlight", "up to 8 calls are open for each model"),
    "breaker_rest_s": _Gone("triton.client.breakerRestSeconds", "a model that does not answer rests for 5 s"),
    "fallback_local": _Gone("worker.fallbackLocal", "while Triton is down, the closed form and interpolation fill"),
    "plausibility": _Gone("worker.plausibility", "switch it off for a sensor in the catalogue"),
    "model_gain": _Gone("worker.modelGain", "the model is called at every step"),
    "adaptive_intervals": _Gone("worker.adaptiveIntervals", "on wherever {score_share} is not 0"),
    "score_least": _Gone("worker.scoreLeast", "at least 4 windows are probed at a step"),
    "shadow_scores": _Gone("worker.shadowScores", "versions are compared wherever Triton serves two"),
    "poll_records": _Gone("kafka.pollRecords", "set max_poll_records of {kafka_extra}, 20000 by default"),
    "commit_interval_s": _Gone(
        "kafka.commitIntervalSeconds", "set auto_commit_interval_ms of {kafka_extra}, 500 by default"
    ),
    "session_timeout_s": _Gone("kafka.sessionTimeoutSeconds", "set session_timeout_ms of {kafka_extra}"),
    "transaction_timeout_s": _Gone(
        "kafka.transactionTimeoutSeconds", "set transaction_timeout_ms of {kafka_extra}, 20000 by default"
    ),
    "linger_ms": _Gone("kafka.lingerMilliseconds", "set linger_ms of {kafka_extra}, 5 by default"),
    "max_unpacked_bytes": _Gone("kafka.maxUnpackedBytes", _MEMORY),
    "record_bytes": _Gone("worker.limits.recordBytes", _MEMORY),
    "record_json_bytes": _Gone("worker.limits.recordJsonBytes", _MEMORY),
    "record_readings": _Gone("worker.limits.recordReadings", _MEMORY),
    "batch_bytes": _Gone("worker.limits.batchBytes", _MEMORY),
    "batch_readings": _Gone("worker.limits.batchReadings", _MEMORY),
    "slice_bytes": _Gone("worker.limits.sliceBytes", _MEMORY),
    "batches_in_flight": _Gone("worker.batchesInFlight", "4 batches of a partition are in flight"),
    "timeliness_target_s": _Gone(
        "monitoring.objectives.timelinessTargetSeconds", "a row is in time within 10 s of its step's last record"
    ),
    "loop_silence_s": _Gone("worker.loopSilenceSeconds", "/health/live fails after 60 s without progress"),
    "stop_grace_s": _Gone("", "a worker ends itself 55 s after SIGTERM, so let its supervisor wait for 60 s"),
    "page_port": _Gone("", "set GLAIM_PAGE to a port of this machine, or host:port"),
    "page_host": _Gone("", "set GLAIM_PAGE to host:port"),
    "page_names": _Gone("page.names", "a page with a token answers to every name"),
    "page_token": _Gone("", "put the token into a file that {page_token_file} names"),
}  # fmt: skip


def gone_settings() -> dict[str, str]:
    """Advice on the replacement, by the name of the former setting."""
    return {
        name: gone.became.format_map({each: f"GLAIM_{each.upper()}" for each in _CHART}) for name, gone in _GONE.items()
    }


def gone_values() -> dict[str, str]:
    """Advice on the replacement, by the path of the former value in the chart."""
    return {gone.chart: gone.became.format_map(_CHART) for gone in _GONE.values() if gone.chart}
