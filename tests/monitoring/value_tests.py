"""Which test checks the value of each metric of docs/metrics.md, and of each figure of the page, as file::test.

`test_values_are_tested.py` fails when one is missing here, or a test that is named does not mention it.
"""

from __future__ import annotations

_SERIES = "tests/monitoring/test_series.py"
_LAG = "tests/monitoring/test_lag.py::test_lag_is_reported_for_the_assigned_partitions"
_ENGINE = "tests/pipeline/test_engine.py"
_COUNTED = f"{_ENGINE}::test_records_and_readings_are_counted_once_applied"
_REJECTS = f"{_ENGINE}::test_rejects_are_counted_by_cause_and_late_readings_separately"
_ROWS = "tests/pipeline/test_row_counts.py"
_PIPELINE = "tests/pipeline/test_pipeline.py"
_WINDOWS = f"{_PIPELINE}::test_windows_with_a_hole_and_those_of_probes_are_counted_apart"
_TIMED = f"{_PIPELINE}::test_applying_a_batch_and_filling_its_windows_are_timed"
_FAULTS = "tests/page/test_faults.py::test_a_faulty_sensor_is_on_its_tile_and_in_its_groups_events_until_it_is_well"
_PARTITION = "tests/worker/test_partition.py"
_EVENT_TIME = f"{_PARTITION}::test_event_time_metrics_appear_with_the_first_usable_reading"
_DARK = f"{_PARTITION}::test_dark_groups_are_counted_until_they_return_and_new_ones_are_not"
_SCORES = "tests/blend/test_scores.py::test_errors_and_intervals_are_counted_for_the_accuracy_metrics"
_INTERVALS = "tests/pipeline/test_adaptive_intervals.py::test_the_metrics_count_the_adapted_intervals"
_SHADOW = "tests/pipeline/test_shadow.py"
_QUALITY = "tests/output/quality/test_records.py::test_the_counters_grow_by_what_the_records_say"
_BREAKER = (
    "tests/worker/test_imputer_metrics.py::test_a_breaker_shows_its_state_and_its_openings_and_probes_are_counted"
)
_VERSIONS = "tests/models/test_versions.py"
_FORM = "tests/imputers/test_closed_form.py"
_REBUILD = "tests/worker/test_rebuild.py"
_REBUILT = f"{_REBUILD}::test_only_the_records_that_the_last_commit_needs_are_read"

OF_METRICS: dict[str, str] = {
    "glaim_build_info": f"{_SERIES}::test_every_cause_method_and_sensor_has_a_series_at_startup",
    "glaim_model_info": f"{_SERIES}::test_every_cause_method_and_sensor_has_a_series_at_startup",
    "glaim_records_total": _COUNTED,
    "glaim_readings_total": _COUNTED,
    "glaim_dropouts_total": _COUNTED,
    "glaim_superseded_readings_total": _COUNTED,
    "glaim_skewed_readings_total": _COUNTED,
    "glaim_late_readings_total": _REJECTS,
    "glaim_dead_letters_total": _REJECTS,
    "glaim_outages_total": f"{_ENGINE}::test_outages_are_announced_and_counted",
    "glaim_sensor_health_events_total": _FAULTS,
    "glaim_faulty_sensors": _FAULTS,
    "glaim_groups": _EVENT_TIME,
    "glaim_groups_with_holes": f"{_PARTITION}::test_groups_with_holes_are_counted_while_they_send_and_miss_readings",
    "glaim_dark_groups": _DARK,
    "glaim_speaking_groups": _DARK,
    "glaim_known_groups": _EVENT_TIME,
    "glaim_newest_event_timestamp_seconds": _EVENT_TIME,
    "glaim_watermark_lag_seconds": _EVENT_TIME,
    "glaim_watermark_updated_timestamp_seconds": _EVENT_TIME,
    "glaim_consumer_lag_records": _LAG,
    "glaim_input_partitions": _LAG,
    "glaim_rows_total": f"{_ROWS}::test_rows_are_counted_by_method_and_revisions_above_0_as_revisions",
    "glaim_due_rows_total": f"{_PARTITION}::test_due_rows_are_counted_once_the_broker_has_acknowledged_them",
    "glaim_overdue_rows": f"{_PARTITION}::test_rows_that_the_broker_does_not_acknowledge_are_overdue_after_a_minute",
    "glaim_timed_rows_total": "tests/worker/test_timeliness.py::test_each_record_stands_for_an_equal_share_of_the_rows",
    "glaim_doubted_rows_total": f"{_ROWS}::test_observed_rows_that_are_doubted_are_counted",
    "glaim_filled_rows_total": f"{_SERIES}::test_filled_rows_are_counted_by_gap_age",
    "glaim_revisions_total": f"{_ROWS}::test_rows_are_counted_by_method_and_revisions_above_0_as_revisions",
    "glaim_upgraded_rows_total": (
        "tests/windows/test_upgrades.py::test_final_rows_of_an_outage_are_upgraded_once_the_model_is_available"
    ),
    "glaim_withheld_rows_total": f"{_ROWS}::test_nulls_are_counted_by_the_cause_of_their_status",
    "glaim_windows_total": _WINDOWS,
    "glaim_side_windows_total": _WINDOWS,
    "glaim_score_error_total": _SCORES,
    "glaim_score_questions_total": _SCORES,
    "glaim_shadow_error_total": f"{_SHADOW}::test_both_errors_are_those_of_the_same_hidden_readings",
    "glaim_shadow_questions_total": f"{_SHADOW}::test_both_errors_are_those_of_the_same_hidden_readings",
    "glaim_shadow_windows_total": f"{_SHADOW}::test_a_slow_version_is_asked_once_at_a_time",
    "glaim_expert_weight_total": (
        "tests/pipeline/test_expert_weights.py::test_the_weights_of_all_experts_add_up_to_the_values_that_were_filled"
    ),
    "glaim_score_intervals_total": _INTERVALS,
    "glaim_score_intervals_holding_total": _INTERVALS,
    "glaim_quality_cells_total": _QUALITY,
    "glaim_quality_intervals_total": _QUALITY,
    "glaim_quality_intervals_holding_total": _QUALITY,
    "glaim_quality_compared_total": _QUALITY,
    "glaim_quality_scaled_error_total": _QUALITY,
    "glaim_imputer_state": _BREAKER,
    "glaim_imputer_openings_total": _BREAKER,
    "glaim_imputer_probes_total": _BREAKER,
    "glaim_imputer_failures_total": (
        "tests/worker/test_imputer_metrics.py::test_batches_that_a_rung_could_not_answer_are_counted"
    ),
    "glaim_contract_reads_total": f"{_VERSIONS}::test_a_contract_that_arrives_after_its_version_is_read_later",
    "glaim_unusable_contracts": f"{_VERSIONS}::test_an_absent_contract_counts_as_unusable_until_it_is_read",
    "glaim_model_version_refused": (
        "tests/imputers/test_bad_versions.py::test_a_former_version_answers_every_batch_and_then_is_called_directly"
    ),
    "glaim_model_held_timestamp_seconds": "tests/worker/test_holds.py::test_a_hold_is_shown_until_it_is_released",
    "glaim_form_learnings_total": "tests/worker/test_live_learning.py::test_a_learning_is_counted_by_its_outcome",
    "glaim_form_until_timestamp_seconds": f"{_FORM}::test_a_new_form_is_taken_up_between_batches",
    "glaim_form_reads_total": f"{_FORM}::test_a_new_form_is_taken_up_between_batches",
    "glaim_form_without_logarithm_total": f"{_FORM}::test_windows_that_are_filled_without_logarithms_are_counted",
    "glaim_model_windows_total": (
        "tests/pipeline/test_resting.py::test_a_model_that_gains_nothing_is_called_for_the_probes_of_judged_steps_only"
    ),
    "glaim_impute_seconds": _TIMED,
    "glaim_apply_seconds": _TIMED,
    "glaim_output_latency_seconds": (
        f"{_PARTITION}::test_output_latency_runs_from_the_last_record_of_a_batch_to_the_acknowledgement"
    ),
    "glaim_rebuilds_total": _REBUILT,
    "glaim_rebuild_failures_total": (
        "tests/worker/test_restore.py::test_an_unreadable_topic_is_retried_with_growing_pauses"
    ),
    "glaim_rebuilt_records_total": _REBUILT,
    "glaim_rebuild_seconds": "tests/worker/test_restore.py::test_each_restore_is_timed_once",
    "glaim_retention_shortfalls_total": f"{_REBUILD}::test_history_that_retention_has_deleted_is_reported",
    "glaim_lost_offsets_total": (
        "tests/worker/test_lost_offsets.py::test_a_removed_range_is_an_event_a_count_and_a_line"
    ),
    "glaim_transactions_total": (
        "tests/integration/test_transactions.py::test_rows_letters_and_commit_become_visible_together"
    ),
    "glaim_ownership_losses_total": (
        "tests/worker/test_exactly_once.py::test_a_fenced_owner_publishes_nothing_and_begins_again_from_the_commit"
    ),
    "glaim_certificate_expires_timestamp_seconds": (
        "tests/worker/test_expiry.py::test_the_ends_of_all_files_are_shown_and_follow_them"
    ),
    "glaim_publish_retries_total": "tests/kafka/test_publish.py::test_a_message_is_retried_until_it_is_acknowledged",
    "glaim_health": "tests/worker/test_health.py::test_the_metrics_page_shows_the_health",
    "glaim_loop_delay_seconds": (
        "tests/worker/test_health_watch.py::test_the_delay_of_the_loop_is_what_a_beat_took_beyond_its_pause"
    ),
    "glaim_page_cpu_seconds_total": "tests/page/test_cost.py::test_the_page_books_the_time_that_a_viewer_costs",
    "glaim_worker_faults_total": f"{_ENGINE}::test_rows_are_published_despite_a_fault_in_announcements",
}

_BROWSER = "tests/page/test_page_in_browser.py"
_HEADER = f"{_BROWSER}::test_the_header_shows_the_numbers_of_the_state"
_ACCURACY = f"{_BROWSER}::test_the_accuracy_panel_shows_the_numbers_of_the_state"
_ELSEWHERE = "tests/page/test_elsewhere.py::test_the_page_shows_them_apart_and_their_names_as_text"

# By list of figures or body of a table, and name.
OF_FIGURES: dict[tuple[str, str], str] = {
    ("figures", "readings a second"): _HEADER,
    ("figures", "rows a second"): _HEADER,
    ("figures", "latency p50 / p99"): _HEADER,
    ("figures", "records waiting"): _HEADER,
    ("figures", "behind the clock"): _HEADER,
    ("figures", "readings in"): _HEADER,
    ("figures", "holes filled"): _HEADER,
    ("figures", "too late"): _HEADER,
    ("figures", "dead letters"): _HEADER,
    ("other-figures", "error beside the baseline's"): _ELSEWHERE,
    ("other-figures", "regret, best alone"): _ELSEWHERE,
    ("model-figures", "inside the 90 % band"): _ACCURACY,
    ("model-figures", "error beside the baseline's"): _ACCURACY,
    ("model-figures", "hidden readings since the start"): _ACCURACY,
    ("model-figures", "hidden readings, 10 min"): _ACCURACY,
    ("other-rows", "hidden readings"): _ELSEWHERE,
    ("other-rows", "published error"): _ELSEWHERE,
    ("other-rows", "inside the band"): _ELSEWHERE,
    ("method-rows", "error beside the baseline's"): (
        "tests/page/test_versions.py::test_the_former_version_has_its_error_beside_the_newest_on_the_same_readings"
    ),
    ("model-rows", "published"): _ACCURACY,
    ("model-rows", "model"): _ACCURACY,
    ("model-rows", "closed form"): _ACCURACY,
    ("model-rows", "baseline"): _ACCURACY,
}
