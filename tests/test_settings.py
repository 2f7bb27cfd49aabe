"""Settings come from GLAIM_ variables, and an error names the variable."""

from __future__ import annotations

import pytest

from glaim_stream.errors import SettingsError
from glaim_stream.settings import Settings, read_settings


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the GLAIM_ variables of the machine."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"GLAIM_{name.upper()}", raising=False)


def test_the_defaults_suit_a_laptop() -> None:
    settings = read_settings()
    assert (settings.kafka, settings.input_topic, settings.dlq_topic) == (
        "localhost:9092",
        "sensor-readings",
        "sensor-readings-dlq",
    )


def test_flags_override_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLAIM_KAFKA", "a:1")
    monkeypatch.setenv("GLAIM_POLL_RECORDS", "7")
    settings = read_settings(kafka="b:2", imputer=None)
    assert (settings.kafka, settings.poll_records, settings.imputer) == ("b:2", 7, "triton")


def test_the_dead_letter_topic_can_be_named() -> None:
    assert read_settings(dead_letter_topic="errors").dlq_topic == "errors"


def test_other_topics_are_named_after_input_and_output_by_default() -> None:
    settings = read_settings(input_topic="in", output_topic="out")
    assert settings.topics == ("in", "out", "in-dlq", "in-late", "out-outages")
    settings = read_settings(input_topic="in", late_topic="belated", outage_topic="dark")
    assert settings.topics[3:] == ("belated", "dark")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("poll_records", "0"),
        ("poll_records", "many"),
        ("commit_interval_s", "-1"),
        ("triton_deadline_s", "0"),
        ("imputer", "oracle"),
        ("metrics_port", "70000"),
        ("security_protocol", "TLS"),
    ],
)
def test_an_invalid_value_is_reported_with_its_variable(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"GLAIM_{name.upper()}", value)
    with pytest.raises(SettingsError, match=rf"GLAIM_{name.upper()}: .*found '{value}'"):
        read_settings()


def test_a_password_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLAIM_SASL_PASSWORD", "hunter2")
    assert "hunter2" not in repr(read_settings())


def test_every_setting_has_a_description_unless_its_name_suffices() -> None:
    self_explanatory = {
        "input_topic", "output_topic", "security_protocol", "sasl_mechanism", "sasl_username", "sasl_password",
        "log_level",
    }  # fmt: skip
    undescribed = {name for name, field in Settings.model_fields.items() if not field.description}
    assert undescribed <= self_explanatory
