"""Settings come from GLAIM_ variables, and an error names the variable."""

import re
from pathlib import Path

import pytest

from glaim_stream.core.budget import DEFAULT, Budget
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.gone_settings import gone_settings
from glaim_stream.core.settings import Settings, read_settings
from glaim_stream.core.tls import TlsFiles


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
    monkeypatch.setenv("GLAIM_PARTITIONS", "7")
    settings = read_settings(kafka="b:2", imputer=None)
    assert (settings.kafka, settings.partitions, settings.imputer) == ("b:2", 7, "triton")


def test_other_topics_are_named_after_input_and_output_unless_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read_settings(input_topic="in", output_topic="out")
    assert settings.topics == ("in", "out", "in-dlq", "in-late", "out-outages")
    monkeypatch.setenv("GLAIM_TOPIC_NAMES", '{"late": "belated", "outages": "dark"}')
    assert read_settings(input_topic="in").topics[2:5] == ("in-dlq", "belated", "dark")
    assert read_settings(topic_names={"dead_letters": "errors"}).dlq_topic == "errors"
    for names in ('{"latest": "x"}', '{"late": ""}', "belated"):
        monkeypatch.setenv("GLAIM_TOPIC_NAMES", names)
        with pytest.raises(SettingsError, match="GLAIM_TOPIC_NAMES"):
            read_settings()


def test_there_are_at_most_45_settings() -> None:
    assert len(Settings.model_fields) <= 46


@pytest.mark.parametrize("name", list(gone_settings()))
def test_a_setting_that_is_gone_is_refused_with_what_it_became(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert name not in Settings.model_fields
    became = gone_settings()[name]
    assert {each.lower() for each in re.findall(r"GLAIM_([A-Z_]+)", became)} <= set(Settings.model_fields)
    monkeypatch.setenv(f"GLAIM_{name.upper()}", "1")
    with pytest.raises(SettingsError) as error:
        read_settings()
    assert str(error.value) == f"GLAIM_{name.upper()} is gone: {became}"


def test_a_name_that_is_no_setting_is_refused() -> None:
    with pytest.raises(SettingsError, match="GLAIM_POLL_RECORDS: there is no such setting"):
        read_settings(poll_records=7)


def test_one_number_sets_the_limits_of_memory() -> None:
    assert read_settings().budget == DEFAULT
    assert read_settings(record_mb=1, partition_groups=5).budget == Budget(
        record_bytes=1_000_000, record_json_bytes=125_000, record_readings=7_812, batch_bytes=1_000_000,
        batch_readings=7_812, groups=5, slice_bytes=250_000, unpacked_bytes=1_048_576,
    )  # fmt: skip
    assert read_settings(record_mb=1000).budget == Budget(
        record_bytes=1_000_000_000, record_json_bytes=125_000_000, record_readings=7_812_500,
        batch_bytes=1_000_000_000, batch_readings=7_812_500, groups=10_000, slice_bytes=250_000_000,
        unpacked_bytes=1_048_576_000,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ('{"acks": 0}', "expected no acks: a row counts as published once all replicas"),
        ('{"enable_auto_commit": true}', "expected no enable_auto_commit: an offset is committed once"),
        ('{"isolation_level": "read_uncommitted"}', "expected no isolation_level: "),
        ('{"transactional_id": "x"}', "expected no transactional_id: "),
        ('{"group_id": "x"}', "expected no group_id: the setting consumer_group"),
        ('{"sasl_plain_password": "x"}', "expected no sasl_plain_password: "),
        ('{"linger_ms": "5"}', "expected a whole number for linger_ms, found '5'"),
        ('{"linger_ms": -1}', "expected a whole number for linger_ms, found -1"),
        ("linger_ms=5", "expected a JSON object"),
    ],
)
def test_an_option_of_the_client_that_would_break_delivery_is_refused(
    monkeypatch: pytest.MonkeyPatch, extra: str, sentence: str
) -> None:
    monkeypatch.setenv("GLAIM_KAFKA_EXTRA", extra)
    with pytest.raises(SettingsError) as error:
        read_settings()
    assert str(error.value).startswith(f"GLAIM_KAFKA_EXTRA: {sentence}")


def test_a_process_with_the_environment_of_settings_has_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Settings(
        kafka="k:1", ssl_ca_file=Path("/ca.pem"), kafka_extra={"linger_ms": 7}, topic_names={"late": "l"},
        triton_fixed_batch=True, score_share=0.1,
    )  # fmt: skip
    for name, value in given.environment.items():
        monkeypatch.setenv(name, value)
    assert read_settings() == given


def test_triton_is_called_by_tls_where_its_address_says_so() -> None:
    assert (read_settings(triton="t:1").triton_tls_files, read_settings(triton="t:1").triton_address) == (None, "t:1")
    secured = read_settings(triton="grpcs://t:1", triton_ca_file=Path("ca"))
    assert (secured.triton_tls_files, secured.triton_address) == (TlsFiles(Path("ca"), None, None), "t:1")
    with pytest.raises(SettingsError, match="GLAIM_TRITON_CA_FILE: it needs grpcs:// in triton"):
        read_settings(triton="t:1", triton_ca_file=Path("ca"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partitions", "0"),
        ("record_mb", "many"),
        ("score_share", "-1"),
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


def test_a_page_beyond_this_machine_needs_a_token() -> None:
    assert Settings().page_address is None, "off by default"
    assert Settings(page="9465").page_address == ("127.0.0.1", 9465)
    for host in ("127.0.0.1", "[::1]", "localhost", "127.8.0.1"):
        assert Settings(page=f"{host}:0").page_address == (host.strip("[]"), 0)
    for host in ("0.0.0.0", "[::]", "10.0.0.7", "plant.example"):  # the last may resolve to anything
        with pytest.raises(SettingsError, match=r"GLAIM_PAGE_TOKEN_FILE: .*reached from other machines"):
            read_settings(page=f"{host}:9465")
        assert read_settings(page=f"{host}:9465", page_token_file=Path("token")).page_address == (
            host.strip("[]"),
            9465,
        )
    for text in ("host", "70000", "::1:80", "http://host:80"):
        with pytest.raises(SettingsError, match="GLAIM_PAGE: expected a port or host:port"):
            read_settings(page=text)
