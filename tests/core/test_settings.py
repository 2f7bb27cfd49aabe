"""Settings come from GLAIM_ variables, and an error names the variable."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings, read_settings


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
    assert settings.topics[3:5] == ("belated", "dark")


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


def test_a_page_beyond_this_machine_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().page_port is None, "off by default"
    for host in ("127.0.0.1", "::1", "localhost", "127.8.0.1"):
        assert Settings(page_port=0, page_host=host).page_token is None
    monkeypatch.setenv("GLAIM_PAGE_PORT", "9465")
    for host in ("0.0.0.0", "::", "10.0.0.7", "plant.example"):  # the last may resolve to anything
        with pytest.raises(SettingsError, match=r"GLAIM_PAGE_TOKEN_FILE: .*reached from other machines"):
            read_settings(page_host=host)
        assert read_settings(page_host=host, page_token="0123456789abcdef").page_host == host
        assert read_settings(page_host=host, page_token_file=Path("token")).page_host == host
    with pytest.raises(SettingsError, match="one of page_token and page_token_file"):
        read_settings(page_token="0123456789abcdef", page_token_file=Path("token"))


def test_the_pages_token_is_not_shown() -> None:
    assert "0123456789abcdef" not in repr(Settings(page_port=1, page_token=SecretStr("0123456789abcdef")))
